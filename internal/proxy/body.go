package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// budget bounds the bytes of bodies in memory.
type budget struct {
	used  atomic.Int64
	total int64
}

// take reserves n bytes. The caller gives them back with give.
func (b *budget) take(n int64) error {
	if b.used.Add(n) > b.total {
		b.used.Add(-n)
		return &httplimit.Problem{Status: http.StatusServiceUnavailable, Detail: "too many large requests are under way", RetryAfter: time.Second}
	}
	return nil
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// content is the body of a request about a model.
type content struct {
	sent  []byte // as the client sent it
	plain []byte // decompressed
	held  int64  // bytes of the budget
}

// readContent reads the body of a request, decompressed too, up to MaxBody. The
// caller must give back what the content holds of the budget.
func (p *Proxy) readContent(r *http.Request) (*content, error) {
	limit := p.opts.MaxBody
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	c := &content{held: r.ContentLength}
	if c.held < 0 {
		c.held = limit
	}
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	if encoding == "gzip" {
		c.held += limit
	}
	if err := p.budget.take(c.held); err != nil {
		return nil, err
	}
	err := c.read(r.Body, r.ContentLength, encoding, limit)
	if err != nil {
		p.budget.give(c.held)
		return nil, err
	}
	return c, nil
}

func (c *content) read(body io.Reader, size int64, encoding string, limit int64) (err error) {
	if size >= 0 {
		c.sent = make([]byte, size)
		if _, err := io.ReadFull(body, c.sent); err != nil {
			return &readError{err}
		}
	} else if c.sent, err = readAtMost(body, limit); err != nil {
		return err
	}
	switch encoding {
	case "", "identity":
		c.plain = c.sent
		return nil
	case "gzip":
		unzipped, err := gzip.NewReader(bytes.NewReader(c.sent))
		if err != nil {
			return badRequest("the body is not valid gzip")
		}
		c.plain, err = readAtMost(unzipped, limit)
		if _, damaged := errors.AsType[*readError](err); damaged {
			return badRequest("the body is not valid gzip")
		}
		return err
	}
	return &httplimit.Problem{Status: http.StatusUnsupportedMediaType, Detail: "the body must be plain or gzip, since its model decides about the limits"}
}

// readAtMost reads everything, or returns an *http.MaxBytesError.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(all)) > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	if err != nil {
		return nil, &readError{err}
	}
	return all, nil
}

// readError reports that a body could not be read, usually because the client has
// gone or is too slow.
type readError struct{ cause error }

func (e *readError) Error() string { return "read the request: " + e.cause.Error() }

func (e *readError) Unwrap() []error {
	return []error{e.cause, &httplimit.Problem{Status: http.StatusBadRequest, Detail: "the body could not be read"}}
}

// sentBody is a body in memory. It notes when the transport has read all of it,
// which it does only on an open connection.
type sentBody struct {
	bytes.Reader
	call *call
}

// Read reads the body.
func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.call.noteSent(b.Len())
	return n, err
}

// WriteTo writes the rest of the body.
func (b *sentBody) WriteTo(w io.Writer) (int64, error) {
	n, err := b.Reader.WriteTo(w)
	b.call.noteSent(b.Len())
	return n, err
}

// Close does nothing.
func (b *sentBody) Close() error { return nil }

func (c *call) noteSent(left int) {
	if left == 0 {
		c.written.Store(true)
	}
}

// bodyTimeout bounds the time between two parts of a body that is passed on.
const bodyTimeout = time.Minute

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
	r.Body = &passedBody{r.Body, c, control}
}

// passedBody is a body that is passed on as it arrives.
type passedBody struct {
	io.ReadCloser
	call    *call
	control *http.ResponseController
}

// Read reads the body.
func (b *passedBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(bodyTimeout))
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.call.written.Store(true)
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
