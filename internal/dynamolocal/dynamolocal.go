// Package dynamolocal starts DynamoDB Local for the tests of this module. It
// does not know how to talk to it, so that tests without the AWS SDK can have
// one too.
package dynamolocal

import "github.com/zeroae/zae-limiter-go/internal/localserver"

// EndpointVariable names the environment variable that has the URL of an engine
// that runs already. Where it is set, Start starts nothing.
const EndpointVariable = "ZAEL_TEST_DYNAMODB_ENDPOINT"

// ErrMissing is the error of Start where the programs for an engine, or its
// script, are missing. The text around it says which.
var ErrMissing = localserver.ErrMissing

// Engine is an engine that runs, made by Start. It stops when this process
// dies, in whatever way, unless it ran before.
type Engine = localserver.Server

// Start starts an engine and waits until it answers; the very first time it is
// downloaded. It works in the folder of any package of the module, which is
// where tests run, and leaves no goroutine behind.
func Start() (*Engine, error) {
	return localserver.Start("dynamodb-local", EndpointVariable)
}

// Share is an engine for all tests of a package, which the first that asks starts.
func Share() *localserver.Shared { return localserver.Share(Start) }
