// Package dynamolocal starts DynamoDB Local for the tests of this module. It does
// not import the AWS SDK, so that tests without the SDK can use it.
package dynamolocal

import "github.com/zeroae/zae-limiter-go/internal/localserver"

// EndpointVariable is the environment variable with the URL of a running engine.
// If it is set, Start uses that engine.
const EndpointVariable = "ZAEL_TEST_DYNAMODB_ENDPOINT"

// ErrMissing is returned by Start if the programs or the script of the engine are
// missing. The wrapping error names them.
var ErrMissing = localserver.ErrMissing

// Engine is a running engine. If Start started it, it stops when this process
// dies.
type Engine = localserver.Server

// Start starts an engine and waits until it is ready. The first call downloads it.
// Start works in any directory of the module, and leaves no goroutine behind.
func Start() (*Engine, error) {
	return localserver.Start("dynamodb-local", EndpointVariable)
}

// Share returns an engine for all tests of a package. The first test that needs it
// starts it.
func Share() *localserver.Shared { return localserver.Share(Start) }
