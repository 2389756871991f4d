package loadtest_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func TestBadScenariosAreRefused(t *testing.T) {
	task := loadtest.Task{Name: "work", Run: func(context.Context, *loadtest.User) error { return nil }}
	good := loadtest.Class{Name: "User", Tasks: []loadtest.Task{task}}
	change := func(f func(*loadtest.Class)) []loadtest.Class {
		c := good
		f(&c)
		return []loadtest.Class{c}
	}
	stage := loadtest.Stage{Duration: time.Second, Users: 1, SpawnRate: 1}
	for want, s := range map[string]loadtest.Scenario{
		`invalid scenario "a b": must begin with a letter or digit, then letters, digits or "_.-:@"; at most 64 characters`: {Name: "a b", Classes: []loadtest.Class{good}},
		`invalid scenario "x": has no class; give at least one`:                                                             {Name: "x"},
		`invalid class "User": is listed twice; give each class once`:                                                       {Name: "x", Classes: []loadtest.Class{good, good}},
		`invalid class: must have a name`: {Name: "x", Classes: change(func(c *loadtest.Class) {
			c.Name = ""
		})},
		`invalid class "User": has weight -1; give 1 or more, or 0 for 1`: {
			Name: "x",
			Classes: change(func(c *loadtest.Class) {
				c.Weight = -1
			}),
		},
		`invalid class "User": has no task; give at least one`: {Name: "x", Classes: change(func(c *loadtest.Class) {
			c.Tasks = nil
		})},
		`invalid class "User": waits from 2s to 1s; give 0 <= min <= max`: {
			Name: "x",
			Classes: change(func(c *loadtest.Class) {
				c.Wait = loadtest.Wait{Min: 2 * time.Second, Max: time.Second}
			}),
		},
		`invalid task "idle": must have a function and a weight of 0 or more`: {
			Name: "x",
			Classes: change(func(c *loadtest.Class) {
				c.Tasks = []loadtest.Task{{Name: "idle"}}
			}),
		},
		`invalid shape "day": must have a name and at least one stage`: {
			Name: "x", Classes: []loadtest.Class{good}, Shapes: []loadtest.Shape{{Name: "day"}},
		},
		`invalid shape "day": is listed twice; give each shape once`: {
			Name: "x", Classes: []loadtest.Class{good},
			Shapes: []loadtest.Shape{
				{Name: "day", Stages: []loadtest.Stage{stage}}, {Name: "day", Stages: []loadtest.Stage{stage}},
			},
		},
		`invalid shape "day": stage 2 has a duration of 1s, 1 users and spawn rate NaN; give a duration and rate above 0, and 0 or more users`: {
			Name: "x", Classes: []loadtest.Class{good},
			Shapes: []loadtest.Shape{{
				Name:   "day",
				Stages: []loadtest.Stage{stage, {Duration: time.Second, Users: 1, SpawnRate: math.NaN()}},
			}},
		},
	} {
		checkInvalid(t, s.Validate(), want)
		_, err := loadtest.NewSwarm(openMemory(t), s, nil)
		checkInvalid(t, err, want)
	}
}

func checkInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if _, ok := errors.AsType[*limiter.InvalidError](err); !ok || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for want, o := range map[string]loadtest.Options{
		`invalid users "-1": must not be negative; 0 is the default`:                                          {Users: -1},
		`invalid duration "-1s": must not be negative; 0 is the default`:                                      {Duration: -time.Second},
		`invalid spawn_rate "-2": must be a number above 0 and at most 1000000; 0 is the default`:             {SpawnRate: -2},
		`invalid rate "+Inf": must be a number above 0 and at most 1000000; 0 is the default`:                 {Rate: math.Inf(1)},
		`invalid slack "NaN": must be a number above 0 and at most 1000000; 0 is the default`:                 {Slack: math.NaN()},
		`invalid shape "day": scenario simple has no shapes`:                                                  {Shape: "day"},
		`invalid class "User": scenario simple has no such class; choose from SimpleUser, SimpleCascadeUser`:  {Classes: []string{"User"}},
		`invalid rate "5": cannot be combined with a shape, which sets the number of users; give one of them`: {Rate: 5, Shape: "day"},
		`invalid namespace "loadtest-simple-#": must not contain "#"`:                                         {ID: "#"},
	} {
		repo := openMemory(t)
		_, err := loadtest.Run(t.Context(), repo, find(t, "simple"), &o)
		checkInvalid(t, err, want)
		if left := namespaces(t, repo); left != 1 {
			t.Errorf("%d namespaces after bad options, want only the default", left)
		}
	}
	_, err := loadtest.Run(t.Context(), openMemory(t), find(t, "llm_production"), &loadtest.Options{Shape: "Night"})
	checkInvalid(t, err,
		`invalid shape "Night": scenario llm_production has no such shape; choose from ProductionDailyLoad, MorningSpike`)
}
