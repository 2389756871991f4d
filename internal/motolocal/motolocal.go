// Package motolocal starts moto's server for the tests of this module: a local
// AWS in memory, with CloudFormation, IAM, Lambda, S3, SQS and logs behind one
// URL. It does not know how to talk to it.
//
// A test gives the URL to the SDK as the base endpoint, with any credentials,
// and asks S3 for path-style addresses. All tests of a package may share one
// server if each takes a stack name, or a region, of its own.
//
// What moto does not do, as of the pinned version: it finishes a stack at once,
// makes no alarms, runs no function, reads no event source, and checks no
// permission.
package motolocal

import "github.com/zeroae/zae-limiter-go/internal/localserver"

// EndpointVariable names the environment variable that has the URL of a server
// that runs already. Where it is set, Start starts nothing.
const EndpointVariable = "ZAEL_TEST_MOTO_ENDPOINT"

// ErrMissing is the error of Start where the programs for a server, or its
// script, are missing. The text around it says which. A test is to be skipped
// then, and to fail where the environment has CI=true.
var ErrMissing = localserver.ErrMissing

// Server is a server that runs, made by Start. It stops when this process dies,
// in whatever way, unless it ran before.
type Server = localserver.Server

// Start starts a server and waits until it answers; the very first time it is
// installed. It works in the folder of any package of the module, which is where
// tests run, and leaves no goroutine behind. Whoever starts a server stops it.
func Start() (*Server, error) {
	return localserver.Start("moto-local", EndpointVariable)
}

// Share is a server for all tests of a package, which the first that asks starts.
func Share() *localserver.Shared { return localserver.Share(Start) }
