package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// writer observes an answer on its way to the client and changes nothing of it.
type writer struct {
	http.ResponseWriter
	request  *http.Request
	status   int  // the final status, 0 before the header
	gone     bool // the request had ended before the header
	returned bool // the handler did not panic
}

// begin records the header. Only the first call counts.
func (w *writer) begin(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.gone = w.request.Context().Err() != nil
}

// result describes the answer after its handler has ended.
func (w *writer) result() Result {
	w.begin(http.StatusOK) // net/http sends 200 where a handler sends nothing
	left := !w.gone && w.request.Context().Err() != nil
	return Result{Status: w.status, Panicked: !w.returned, Gone: w.gone, Left: left}
}

// Unwrap returns the writer below, for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the header. Informational ones come before the final one.
func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (w *writer) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// WriteString sends a part of the body.
func (w *writer) WriteString(s string) (int, error) {
	w.begin(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// flusher adds Flush to a writer.
type flusher struct{ w *writer }

// Flush sends what is buffered.
func (f flusher) Flush() { _ = f.FlushError() }

// FlushError sends what is buffered, for [http.ResponseController].
func (f flusher) FlushError() error {
	f.w.begin(http.StatusOK)
	return http.NewResponseController(f.w.ResponseWriter).Flush()
}

// CloseNotify returns the channel of the writer below, for frameworks that still
// expect one. If the writer has none, nothing is ever sent.
func (f flusher) CloseNotify() <-chan bool {
	if below, ok := f.w.ResponseWriter.(http.CloseNotifier); ok { //nolint:staticcheck // see above
		return below.CloseNotify()
	}
	return make(chan bool)
}

// hijacker adds Hijack to a writer.
type hijacker struct{ w *writer }

// Hijack hands over the connection.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.w.ResponseWriter).Hijack()
	if err == nil {
		h.w.begin(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// readerFrom adds ReadFrom to a writer, which lets a file go out without a copy.
type readerFrom struct{ w *writer }

// ReadFrom sends everything from src.
func (r readerFrom) ReadFrom(src io.Reader) (int64, error) {
	r.w.begin(http.StatusOK)
	return io.Copy(r.w.ResponseWriter, src)
}

// pusher adds Push to a writer.
type pusher struct{ w *writer }

// Push starts an HTTP/2 server push.
func (p pusher) Push(target string, opts *http.PushOptions) error {
	below, ok := p.w.ResponseWriter.(http.Pusher)
	if !ok {
		return http.ErrNotSupported
	}
	return below.Push(target, opts)
}
