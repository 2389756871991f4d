// Package motolocal starts moto's server for the tests of this module: a local
// AWS in memory, with CloudFormation, IAM, Lambda, S3, SQS and logs behind one
// URL. It does not import the AWS SDK.
//
// A test passes the URL to the SDK as the base endpoint, with any credentials,
// and uses path-style addresses for S3. All tests of a package can share one
// server if each uses its own stack name or region.
//
// The pinned version of moto completes a stack at once, creates no alarms, runs no
// functions, reads no event sources, and checks no permissions.
package motolocal

import "github.com/zeroae/zae-limiter-go/internal/localserver"

// EndpointVariable is the environment variable with the URL of a running server.
// If it is set, Start uses that server.
const EndpointVariable = "ZAEL_TEST_MOTO_ENDPOINT"

// ErrMissing is returned by Start if the programs or the script of the server are
// missing. The wrapping error names them. Tests should skip then, but fail if the
// environment has CI=true.
var ErrMissing = localserver.ErrMissing

// Server is a running server. If Start started it, it stops when this process
// dies.
type Server = localserver.Server

// Start starts a server and waits until it is ready. The first call installs it.
// Start works in any directory of the module, and leaves no goroutine behind. The
// caller must stop the server.
func Start() (*Server, error) {
	return localserver.Start("moto-local", EndpointVariable)
}

// Share returns a server for all tests of a package. The first test that needs it
// starts it.
func Share() *localserver.Shared { return localserver.Share(Start) }
