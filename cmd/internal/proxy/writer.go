package proxy

import (
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
	status   int
	bytes    int64
	deadline time.Time // of writes, as it was last set
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

	w.extend()
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// extend moves the deadline of writes, unless most of it is still ahead: setting a
// deadline costs a timer.
func (w *statusWriter) extend() {
	if now := time.Now(); w.deadline.Sub(now) < writeTimeout*3/4 {
		w.deadline = now.Add(writeTimeout)
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.deadline)
	}
}

// flush sends what has been written.
func (w *statusWriter) flush() {
	w.extend()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
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
