package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/listen"
)

// content is the body of a request about a model.
type content struct {
	sent  []byte // as the client sent it
	plain []byte // decompressed
}

// readContent reads the body of a request, decompressed too, up to MaxBody. The
// call holds the memory.
func (c *call) readContent(r *http.Request) (*content, error) {
	limit := c.proxy.opts.MaxBody
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	if encoding != "" && encoding != "identity" && encoding != "gzip" {
		return nil, &httplimit.Problem{Status: http.StatusUnsupportedMediaType, Detail: "the body must be plain or gzip, since its model decides about the limits"}
	}
	var sent []byte
	var err error
	listen.Receive(r, func() { sent, err = c.hold.read(r.Body, r.ContentLength, limit) })
	if err != nil {
		return nil, err
	}
	if encoding != "gzip" {
		return &content{sent, sent}, nil
	}
	plain, err := c.unzip(sent, limit)
	return &content{sent, plain}, err
}

// unzip decompresses a body.
func (c *call) unzip(sent []byte, limit int64) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(sent))
	if err != nil {
		return nil, badRequest("the body is not valid gzip")
	}
	plain, err := c.hold.read(unzipped, -1, limit)
	if _, damaged := errors.AsType[*readError](err); damaged {
		return nil, badRequest("the body is not valid gzip")
	}
	return plain, err
}

// readError reports that a body could not be read, usually because the client has
// gone or is too slow.
type readError struct{ cause error }

func (e *readError) Error() string { return "read the request: " + e.cause.Error() }

func (e *readError) Unwrap() []error {
	return []error{e.cause, &httplimit.Problem{Status: http.StatusBadRequest, Detail: "the body could not be read"}}
}

// keptBody is the size up to which a body stays in memory after it was sent. The
// transport needs it if a connection turns out to be closed before the first byte.
const keptBody = 64 << 10

// setBody replaces the body of a request.
func (c *call) setBody(r *http.Request, body []byte) {
	again := func() (io.ReadCloser, error) { return &sentBody{*bytes.NewReader(body), c}, nil }
	r.Body, _ = again()
	if r.GetBody = nil; len(body) <= keptBody {
		r.GetBody = again
	}
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	r.Trailer = nil
}

// sentBody is a body in memory. It notes when the transport has read all of it,
// which it does only on an open connection. A large body is dropped then.
type sentBody struct {
	bytes.Reader
	call *call
}

// Read reads the body.
func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.note()
	return n, err
}

// WriteTo writes the rest of the body.
func (b *sentBody) WriteTo(w io.Writer) (int64, error) {
	n, err := b.Reader.WriteTo(w)
	b.note()
	return n, err
}

func (b *sentBody) note() {
	if b.Len() > 0 {
		return
	}
	b.call.written.Store(true)
	if b.Size() > keptBody {
		b.Reset(nil)
		b.call.hold.release()
	}
}

// Close does nothing.
func (b *sentBody) Close() error { return nil }

// bodyTimeout bounds the time between two parts of a body that is passed on, and
// bodyRate the bytes a second that have to arrive after the first such time.
const (
	bodyTimeout = time.Minute
	bodyRate    = 8 << 10
)

// watchBody notes when a body that is not in memory has been sent. A large body
// may take long as long as it moves, and the deadline of reading the request is
// lifted at its end, since the answer may take longer.
func (c *call) watchBody(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.Body == nil || r.Body == http.NoBody {
		c.written.Store(true)
		_ = control.SetReadDeadline(time.Time{})
		return
	}
	r.Body = &passedBody{ReadCloser: r.Body, call: c, control: control, started: time.Now()}
}

// passedBody is a body that is passed on as it arrives.
type passedBody struct {
	io.ReadCloser
	call    *call
	control *http.ResponseController
	started time.Time
	bytes   int64
}

// Read reads the body.
func (b *passedBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(b.deadline(time.Now()))
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	if errors.Is(err, io.EOF) {
		b.call.written.Store(true)
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// deadline returns when the next part must have arrived: a client that sends
// little for long would hold its place without end.
func (b *passedBody) deadline(now time.Time) time.Time {
	slowest := b.started.Add(bodyTimeout + time.Duration(b.bytes/bodyRate)*time.Second)
	if next := now.Add(bodyTimeout); next.Before(slowest) {
		return next
	}
	return slowest
}
