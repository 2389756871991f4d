// Package local runs an engine of DynamoDB on this machine: LocalStack or DynamoDB
// Local in a container, or DynamoDB Local as a Java process. An engine outlives
// the program that starts it. A state folder records what was started, so that
// later programs find it, and stop nothing else.
//
// The package prepares no table and knows no AWS SDK.
package local

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is a kind of engine.
type Kind string

// Kinds of engines.
const (
	LocalStack Kind = "localstack" // with CloudFormation and Lambda, in a container
	DynamoDB   Kind = "dynamodb"   // DynamoDB Local, in a container or as a Java process
)

// Title returns the name of the engine for messages.
func (k Kind) Title() string {
	if k == LocalStack {
		return "LocalStack"
	}
	return "DynamoDB Local"
}

// Port returns the port on which the engine listens by default.
func (k Kind) Port() int {
	if k == LocalStack {
		return 4566
	}
	return 8000
}

// Services returns the names of the services that the engine offers.
func (k Kind) Services() string {
	if k == LocalStack {
		return services
	}
	return "dynamodb,dynamodbstreams"
}

// Endpoint returns the URL of an engine at a port of this machine.
func Endpoint(port int) string { return "http://localhost:" + strconv.Itoa(port) }

// ErrNotRunning is wrapped by errors of calls that need a running engine.
var ErrNotRunning = errors.New("no engine is running")

// AmbiguousError reports that several engines are known where one is needed.
type AmbiguousError struct {
	Ports []int // in ascending order
	Ended bool  // the engines have ended and left only data
}

func (e *AmbiguousError) Error() string {
	ports := make([]string, len(e.Ports))
	for i, port := range e.Ports {
		ports[i] = strconv.Itoa(port)
	}
	what := "there are engines at the ports"
	if e.Ended {
		what = "no engine is running, but data are kept for the ports"
	}
	return fmt.Sprintf("%s %s; choose one with --port", what, strings.Join(ports, ", "))
}

// StartError reports an engine that could not start.
type StartError struct {
	Kind   Kind
	Reason string
	Log    []string // its last lines
}

func (e *StartError) Error() string { return fmt.Sprintf("start %s: %s", e.Kind.Title(), e.Reason) }
