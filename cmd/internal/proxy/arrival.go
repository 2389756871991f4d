package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// A body has to make progress: each part within bodyTimeout of the one before, and
// bodyRate bytes a second after the first such time. A body that the proxy keeps
// until it is complete has to be so within keptTimeout.
const (
	bodyTimeout = 10 * time.Second
	bodyRate    = 8 << 10
	keptTimeout = time.Minute
)

// arriving is the body of a request while it arrives.
type arriving struct {
	io.ReadCloser
	control *http.ResponseController
	started time.Time
	due     time.Time // the deadline that is set
	bytes   int64
	passes  bool        // the body is passed on as it arrives
	slow    atomic.Bool // the client did not send in time
}

// arrive begins to read a body. A client that sends little, or nothing, would
// otherwise hold memory and its connection for long.
func (c *call) arrive(w http.ResponseWriter, r *http.Request) {
	c.arriving = &arriving{ReadCloser: r.Body, control: http.NewResponseController(w), started: time.Now()}
	if r.Body == nil || r.Body == http.NoBody {
		// Nothing has to arrive, so no deadline may end the wait for the
		// answer.
		c.arriving.ReadCloser = http.NoBody
		c.arriving.end()
	}
}

// Read reads the body.
func (a *arriving) Read(p []byte) (int, error) {
	// Setting a deadline costs a timer, so it stays while it is right to within
	// a second.
	if due := a.deadline(time.Now()); due.Sub(a.due).Abs() >= time.Second {
		_ = a.control.SetReadDeadline(due)
		a.due = due
	}

	n, err := a.ReadCloser.Read(p)
	a.bytes += int64(n)

	// A slow upstream is a timeout too. The mark says which of the two sides
	// was slow.
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.slow.Store(true)
	}
	return n, err
}

// deadline returns when the next part must have arrived. After 80 KiB, for example,
// that is 20 seconds after the start of the body, or 10 seconds from now if that is
// earlier.
func (a *arriving) deadline(now time.Time) time.Time {
	at := a.started.Add(bodyTimeout + time.Duration(a.bytes/bodyRate)*time.Second)

	// Bytes that came fast do not buy a pause: the next part is still due
	// within bodyTimeout.
	if next := now.Add(bodyTimeout); next.Before(at) {
		at = next
	}

	// A body that the proxy keeps takes memory, so it has a bound however fast
	// it arrives.
	if last := a.started.Add(keptTimeout); !a.passes && last.Before(at) {
		at = last
	}
	return at
}

// end lifts the deadline of the request, since its answer may take longer.
func (a *arriving) end() { _ = a.control.SetReadDeadline(time.Time{}) }

// readError reports that a body could not be read, usually because the client has
// gone or is too slow.
type readError struct{ cause error }

func (e *readError) Error() string { return "read the request: " + e.cause.Error() }

func (e *readError) Unwrap() []error {
	problem := &httplimit.Problem{Status: http.StatusBadRequest, Detail: "the body could not be read"}
	if errors.Is(e.cause, os.ErrDeadlineExceeded) {
		problem = tooSlow()
	}
	return []error{e.cause, problem}
}

// tooSlow returns the answer to a client that does not send its body in time.
func tooSlow() *httplimit.Problem {
	return &httplimit.Problem{Status: http.StatusRequestTimeout, Detail: "the body arrived too slowly"}
}

// startBytes is the part of a body that must have arrived, if the body is as long,
// before its call has a place and the upstream hears of it.
const startBytes = 64 << 10

// receive prepares the body of a call that is not about a model. A body that is
// short is read to its end. The rest of a longer one is passed on as it arrives.
func (c *call) receive(r *http.Request) error {
	// Without a body nothing shows when the transport has sent the request, so
	// the request counts as sent from here on.
	if c.arriving.ReadCloser == http.NoBody {
		c.written.Store(true)
		return nil
	}

	var start [][]byte
	var err error
	rest := io.LimitedReader{R: c.arriving, N: startBytes}

	listen.Receive(r, func() { start, err = c.hold.read(&rest, -1, startBytes) })
	if err != nil {
		return err
	}

	// The body ended before the limit of the reader, so start is all of it.
	if rest.N > 0 {
		c.arriving.end()
		return c.setBody(r, start)
	}

	// The rest may take long. Uploads have a small part of the places, so that
	// they leave most for other calls.
	if err := c.proxy.uploads.take(c.client, 1); err != nil {
		return err
	}

	c.uploading.Store(true)
	c.arriving.passes = true
	// The trailer is dropped, because it could hold a field that must not reach
	// the upstream.
	r.Body, r.Trailer = &passedBody{start: start, call: c}, nil
	return nil
}

// endUpload gives back the place among the uploads.
func (c *call) endUpload() {
	if c.uploading.CompareAndSwap(true, false) {
		c.proxy.uploads.give(c.client, 1)
	}
}

// passedBody is a body that is passed on as it arrives. Its call holds a place
// among the uploads until the body has arrived.
type passedBody struct {
	start net.Buffers
	call  *call
}

// Read reads the body.
func (b *passedBody) Read(p []byte) (int, error) {
	if len(b.start) > 0 {
		// The end of start is not the end of the body, so the io.EOF of start
		// is dropped.
		n, _ := b.start.Read(p)
		return n, nil
	}

	n, err := b.call.arriving.Read(p)
	// The upstream may take long to answer. Meanwhile the call is not an upload
	// and has no deadline for reading.
	if errors.Is(err, io.EOF) {
		b.call.written.Store(true)
		b.call.arriving.end()
		b.call.endUpload()
	}
	return n, err
}

// Close ends the body.
func (b *passedBody) Close() error { return b.call.arriving.Close() }
