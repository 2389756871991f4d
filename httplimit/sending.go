package httplimit

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// sending observes whether a request left this process.
type sending struct {
	traced, wrote atomic.Bool
}

// watch returns a context for the request. Hooks of the caller run as well.
func (s *sending) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { s.traced.Store(true) },
		WroteHeaders: func() { s.wrote.Store(true) },
	})
}

// possible reports whether the server may have seen the request. A RoundTripper
// that reports no events may have sent anything.
func (s *sending) possible() bool { return s.wrote.Load() || !s.traced.Load() }
