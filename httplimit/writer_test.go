package httplimit_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// The four optional interfaces of a response writer.
type (
	plain   struct{ http.ResponseWriter }
	flushes struct{}
	hijacks struct{}
	copies  struct{}
	pushes  struct{}
)

func (flushes) Flush()                                       {}
func (hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }

func (copies) ReadFrom(src io.Reader) (int64, error)               { return io.Copy(io.Discard, src) }
func (pushes) Push(target string, options *http.PushOptions) error { return http.ErrNotSupported }

// interfaces reports which of the four w implements.
func interfaces(w http.ResponseWriter) (has [4]bool) {
	_, has[0] = w.(http.Flusher)
	_, has[1] = w.(http.Hijacker)
	_, has[2] = w.(io.ReaderFrom)
	_, has[3] = w.(http.Pusher)
	return has
}

// TestWriterHasTheInterfacesOfTheWriterBelow passes all sixteen kinds of writers.
func TestWriterHasTheInterfacesOfTheWriterBelow(t *testing.T) {
	base := plain{httptest.NewRecorder()}
	kinds := []http.ResponseWriter{
		base,
		struct {
			plain
			flushes
		}{plain: base},
		struct {
			plain
			hijacks
		}{plain: base},
		struct {
			plain
			copies
		}{plain: base},
		struct {
			plain
			pushes
		}{plain: base},
		struct {
			plain
			flushes
			hijacks
		}{plain: base},
		struct {
			plain
			flushes
			copies
		}{plain: base},
		struct {
			plain
			flushes
			pushes
		}{plain: base},
		struct {
			plain
			hijacks
			copies
		}{plain: base},
		struct {
			plain
			hijacks
			pushes
		}{plain: base},
		struct {
			plain
			copies
			pushes
		}{plain: base},
		struct {
			plain
			flushes
			hijacks
			copies
		}{plain: base},
		struct {
			plain
			flushes
			hijacks
			pushes
		}{plain: base},
		struct {
			plain
			flushes
			copies
			pushes
		}{plain: base},
		struct {
			plain
			hijacks
			copies
			pushes
		}{plain: base},
		struct {
			plain
			flushes
			hijacks
			copies
			pushes
		}{plain: base},
	}
	seen := map[[4]bool]bool{}
	for _, below := range kinds {
		r := newRig(t)
		r.handler(func(w http.ResponseWriter, _ *http.Request) {
			r.equal("interfaces", interfaces(w), interfaces(below))
			inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
			r.equal("unwrapped", ok && inner.Unwrap() == below, true)
		}, nil).ServeHTTP(below, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		seen[interfaces(below)] = true
		r.ended(1)
	}
	if len(seen) != 16 {
		t.Errorf("%d kinds, want 16", len(seen))
	}
}

// TestCloseNotifyDoesNotPanic calls what frameworks still call on writers with and
// without the method.
func TestCloseNotifyDoesNotPanic(t *testing.T) {
	r := newRig(t)
	serve(t.Context(), r.handler(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-w.(http.CloseNotifier).CloseNotify(): //nolint:staticcheck // frameworks call it
			t.Error("the client is not gone")
		default:
		}
	}, nil))
	r.ended(1)
}

var _ http.Handler = (*httplimit.Problem)(nil)

// TestCopyBeginsTheAnswer copies a body before the client leaves.
func TestCopyBeginsTheAnswer(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.handler(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.Copy(w, io.LimitReader(strings.NewReader("text"), 4))
		r.works(err)
		cancel()
	}, nil).ServeHTTP(struct {
		plain
		copies
	}{plain: plain{httptest.NewRecorder()}}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	r.available(2, 900)
}
