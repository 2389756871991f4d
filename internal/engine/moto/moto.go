// Package moto starts moto's server for tests: a local AWS in memory, with
// CloudFormation, IAM, Lambda, S3, SQS and logs behind one URL. It does not import
// the AWS SDK.
//
// A test passes the URL to the SDK as the base endpoint, with any credentials,
// and uses path-style addresses for S3. All tests of a package can share one
// server if each uses its own stack name or region.
//
// The pinned version of moto completes a stack at once, creates no alarms, runs no
// functions, reads no event sources, and checks no permissions.
package moto

import "github.com/zeroae/zae-limiter-go/internal/engine"

// EndpointVariable is the environment variable with the URL of a running server.
// If it is set, Start uses that server.
const EndpointVariable = "ZAEL_TEST_MOTO_ENDPOINT"

// Start starts a server and waits until it is ready. The first call installs it.
func Start() (*engine.Server, error) { return engine.Start("moto-local", EndpointVariable) }

// Share returns a server for all tests of a package. The first test that needs it
// starts it.
func Share() *engine.Shared { return engine.Share(Start) }
