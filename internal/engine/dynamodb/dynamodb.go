// Package dynamodb starts DynamoDB Local for tests. It does not import the AWS SDK,
// so that tests without the SDK can use it.
package dynamodb

import "github.com/zeroae/zae-limiter-go/internal/engine"

// EndpointVariable is the environment variable with the URL of a running engine.
// If it is set, Start uses that engine.
const EndpointVariable = "ZAEL_TEST_DYNAMODB_ENDPOINT"

// Start starts an engine and waits until it is ready. The first call downloads it.
func Start() (*engine.Server, error) { return engine.Start("dynamodb-local", EndpointVariable) }

// Share returns an engine for all tests of a package. The first test that needs it
// starts it.
func Share() *engine.Shared { return engine.Share(Start) }
