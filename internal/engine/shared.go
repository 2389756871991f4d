package engine

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// test is the part of testing.TB that this package uses. Package testing itself
// would bring the flags of tests.
type test interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Require ends a test whose engine did not start. If programs are missing, Require
// skips the test, or fails it in CI, where a skipped test would hide that nothing
// was tested. It fails the test for any other error, and does nothing if err is nil.
func Require(tb test, err error) {
	tb.Helper()
	if errors.Is(err, ErrMissing) && os.Getenv("CI") != "true" {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Shared is a server for all tests of a package. The first test that needs it
// starts it, and TestMain stops it. Use [Share] to create one.
type Shared struct {
	start   func() (*Server, error)
	running atomic.Pointer[Server]
}

// Share returns a shared server that start starts.
func Share(start func() (*Server, error)) *Shared {
	s := &Shared{}
	s.start = sync.OnceValues(func() (*Server, error) {
		server, err := start()
		s.running.Store(server)
		return server, err
	})
	return s
}

// URL returns the base URL of the server. It ends the test like [Require] if the
// server did not start.
func (s *Shared) URL(tb test) string {
	tb.Helper()
	server, err := s.start()
	Require(tb, err)
	return server.URL()
}

// Stop stops the server if a test has started it. TestMain calls it with the exit
// code of the tests, and exits with the code that Stop returns.
func (s *Shared) Stop(code int) int {
	if server := s.running.Load(); server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop a server:", err)
			return max(code, 1)
		}
	}
	return code
}
