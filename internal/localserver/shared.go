package localserver

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// test is what a Shared needs of a testing.TB.
type test interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Shared is a server for all tests of a package: the first that asks starts it,
// and TestMain stops it. Make one with [Share].
type Shared struct {
	start   func() (*Server, error)
	running atomic.Pointer[Server]
}

// Share is a server that start starts, once.
func Share(start func() (*Server, error)) *Shared {
	s := &Shared{}
	s.start = sync.OnceValues(func() (*Server, error) {
		server, err := start()
		s.running.Store(server)
		return server, err
	})
	return s
}

// URL is that of the server. The test is skipped where the programs for it are
// missing, and fails there in CI.
func (s *Shared) URL(tb test) string {
	tb.Helper()
	server, err := s.start()
	if errors.Is(err, ErrMissing) && os.Getenv("CI") != "true" {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return server.URL()
}

// Stop is for TestMain, with the code of its tests: it stops the server, if any
// test asked for it, and returns the code to exit with.
func (s *Shared) Stop(code int) int {
	if server := s.running.Load(); server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping a server:", err)
			return max(code, 1)
		}
	}
	return code
}
