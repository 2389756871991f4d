package proxy

import (
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// content is the body of a request about a model.
type content struct {
	sent  [][]byte // as the client sent it
	plain []byte   // decompressed
}

// readContent reads the body of a request, decompressed too, up to MaxBody. The
// call holds the memory.
func (c *call) readContent(r *http.Request) (*content, error) {
	limit := c.proxy.opts.MaxBody
	// A body that announces too much is refused before any of it takes memory.
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}

	encoding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	if encoding != "" && encoding != "identity" && encoding != "gzip" {
		return nil, &httplimit.Problem{
			Status: http.StatusUnsupportedMediaType,
			Detail: "the body must be plain or gzip, since its model decides about the limits",
		}
	}

	var sent [][]byte
	var err error
	listen.Receive(r, func() { sent, err = c.hold.read(c.arriving, r.ContentLength, limit) })
	if err != nil {
		return nil, err
	}

	c.arriving.end()
	if encoding != "gzip" {
		plain, err := c.hold.join(sent)
		return &content{[][]byte{plain}, plain}, err
	}

	plain, err := c.unzip(sent, limit)
	return &content{sent, plain}, err
}

// unzip decompresses a body.
func (c *call) unzip(sent [][]byte, limit int64) ([]byte, error) {
	// Reading consumes a net.Buffers, and the compressed parts may still have
	// to be sent.
	compressed := net.Buffers(slices.Clone(sent))
	unzipped, err := gzip.NewReader(&compressed)
	if err != nil {
		return nil, badRequest("the body is not valid gzip")
	}

	// hold takes memory for what comes out: 16 KB of gzip can become hundreds
	// of megabytes.
	parts, err := c.hold.read(unzipped, -1, limit)
	// The compressed bytes are all in memory, so only damaged data fail here.
	if _, damaged := errors.AsType[*readError](err); damaged {
		return nil, badRequest("the body is not valid gzip")
	}

	if err != nil {
		return nil, err
	}
	return c.hold.join(parts)
}

// keptBody is the size up to which a body stays in memory after it was sent. The
// transport needs it if a connection turns out to be closed before the first byte.
const keptBody = 64 << 10

// setBody replaces the body of a request with parts. The call then holds the memory
// of these parts, and of nothing else.
func (c *call) setBody(r *http.Request, parts [][]byte) error {
	var size int64
	for _, p := range parts {
		size += int64(len(p))
	}

	// An empty body is never read, so nothing else would mark the request as
	// sent.
	if size == 0 {
		c.written.Store(true)
		r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = http.NoBody, 0, nil, nil
		return c.hold.resize(0)
	}

	again := func() (io.ReadCloser, error) { return &sentBody{slices.Clone(parts), size, c}, nil }
	r.Body, _ = again()
	// The transport may need the body again on another connection. A large body
	// cannot be sent again, since it leaves memory once it was read.
	if r.GetBody = nil; size <= keptBody {
		r.GetBody = again
	}

	r.ContentLength, r.TransferEncoding = size, nil
	r.Trailer = nil
	return c.hold.resize(heldBytes(parts))
}

// heldBytes returns the memory of parts.
func heldBytes(parts [][]byte) (held int64) {
	for _, p := range parts {
		held += int64(cap(p))
	}
	return held
}

// sentBody is a body in memory. It notes when the transport has read all of it,
// which it does only on an open connection. A large body is dropped then.
type sentBody struct {
	rest net.Buffers
	size int64
	call *call
}

// Read reads the body.
func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.rest.Read(p)
	b.note()
	return n, err
}

// WriteTo writes the rest of the body.
func (b *sentBody) WriteTo(w io.Writer) (int64, error) {
	n, err := b.rest.WriteTo(w)
	b.note()
	return n, err
}

func (b *sentBody) note() {
	if len(b.rest) > 0 {
		return
	}
	b.call.written.Store(true)
	if b.size > keptBody {
		b.call.hold.release()
	}
}

// Close does nothing.
func (b *sentBody) Close() error { return nil }
