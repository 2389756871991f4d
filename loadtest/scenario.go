// Package loadtest generates load for a limiter and measures how it responds.
//
// A [Scenario] describes the load: the limits it needs, classes of users, what
// a user does, and how long it waits between two tasks. [Run] runs one in this
// process and reports as it goes. A [Swarm] starts and stops the users of one
// process as its caller says, such as the master of a distributed test.
//
// [Scenarios] returns the scenarios of this package. [Main] is the main function
// of a program with scenarios of its own.
package loadtest

import (
	"context"
	"math/rand/v2"
	"time"
)

// Scenario describes a load test. Each test runs in a namespace of its own,
// which is removed afterwards.
type Scenario struct {
	Name        string
	Description string // one sentence
	Classes     []Class
	Shapes      []Shape // optional; chosen by name
	// Setup stores the limits and entities that all users share. Every process of
	// a distributed test calls it before its first user, so it has to be
	// repeatable. It may be nil.
	Setup func(ctx context.Context, test *Test) error
	// Teardown removes what Setup created outside of the namespace. It may be nil.
	Teardown func(ctx context.Context, test *Test) error
}

// Class is a kind of user. Users of the classes of a test are started in
// proportion to their weights.
type Class struct {
	Name   string
	Weight int // 0 means 1
	Wait   Wait
	// Pause, if not nil, returns the time until the next task in place of Wait.
	Pause func(u *User) time.Duration
	// Start prepares a user before its first task, such as its entity. It may be
	// nil. After an error it is called again a second later.
	Start func(ctx context.Context, u *User) error
	Tasks []Task // chosen at random by weight
}

// Task is one thing that a user does.
type Task struct {
	Name   string
	Weight int // 0 means 1
	// Run does the task once. The methods of [User] count each call, and Run may
	// return their errors, which do not count again. Any other error counts as a
	// failure of kind "task".
	Run func(ctx context.Context, u *User) error
}

// Wait is the pause between two tasks, uniform between Min and Max.
type Wait struct{ Min, Max time.Duration }

// Shape changes the number of users over time.
type Shape struct {
	Name   string
	Stages []Stage
}

// Stage is a part of a Shape: for Duration, the number of users moves to Users
// by SpawnRate users a second and stays there.
type Stage struct {
	Duration  time.Duration
	Users     int
	SpawnRate float64
}

// User is one user of a test. Its tasks run one after the other. Its client
// measures each call and reports it as an [Event].
type User struct {
	*Client
	Test   *Test
	Class  string
	Number int        // of this user in the process, from 0
	Rand   *rand.Rand // seeded from the seed of the test
	Entity string     // set by Class.Start, for tasks
	Data   any        // for the scenario
}

// Test is a running test. Its client reports no events.
type Test struct {
	*Client
	Scenario  string
	Namespace string
	ID        string // 8 hexadecimal digits, equal in all processes of the test
	Worker    string // names this process, "" if there is only one
	Getenv    func(string) string
	// Data is for the scenario. Setup sets it before the first user starts.
	Data any
}
