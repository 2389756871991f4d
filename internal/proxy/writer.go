package proxy

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// writeTimeout bounds how long a client may take to receive a part of an answer.
const writeTimeout = time.Minute

// statusWriter notes the status of an answer, and bounds the time of each write,
// so that a client that stops reading does not hold its lease forever.
type statusWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap returns the writer below, for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status < 200 { // an informational status may come before
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the answer.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status < 200 {
		w.status = http.StatusOK
	}
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// freeDeadlineAfter lifts the deadline of reading a request once its body has
// arrived, since the answer may take longer.
func freeDeadlineAfter(w http.ResponseWriter, r *http.Request) {
	free := func() { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
	if r.Body == nil || r.Body == http.NoBody {
		free()
		return
	}
	r.Body = &endedBody{r.Body, free}
}

// endedBody calls a function at the end of a body.
type endedBody struct {
	io.ReadCloser
	ended func()
}

// Read reads the body.
func (b *endedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		b.ended()
	}
	return n, err
}

// buffers is a pool of buffers for copying.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

// Get returns a buffer.
func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

// Put takes a buffer back.
func (b *buffers) Put(p []byte) {
	if len(p) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(p))
	}
}
