package httplimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// writer observes an answer on its way to the client and changes nothing of it.
type writer struct {
	http.ResponseWriter
	request  *http.Request
	status   int  // the final status, 0 before the header
	accepted bool // the connection or its buffer took a part of the answer
	gone     bool // the first part failed, so that nothing was delivered
	returned bool // the handler did not panic
}

// begin records the header. Only the first call counts.
func (w *writer) begin(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
}

// wrote records whether a part of the answer was accepted. The end of the request
// says nothing about that: net/http ends it when a client closes its sending side,
// and the client may read on.
func (w *writer) wrote(accepted bool, err error) {
	switch {
	case w.gone || isRejected(err):
	case accepted || err == nil:
		w.accepted = true
	case !w.accepted:
		// Nothing was delivered. What follows stays in a buffer, so it proves
		// nothing.
		w.gone = true
	}
}

// isRejected reports whether an error is the handler's mistake: it sent what it must
// not send. Such an error says nothing about the client.
func isRejected(err error) bool {
	return errors.Is(err, http.ErrBodyNotAllowed) || errors.Is(err, http.ErrContentLength) ||
		errors.Is(err, http.ErrHijacked) || errors.Is(err, http.ErrNotSupported)
}

// result describes the answer after its handler has ended.
func (w *writer) result() Result {
	// Before begin, since a client cannot leave an answer that has not begun.
	left := w.status != 0 && !w.gone && w.request.Context().Err() != nil

	// If a handler sends nothing, net/http sends status 200.
	w.begin(http.StatusOK)
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
	n, err := w.ResponseWriter.Write(b)
	w.wrote(w.tookBody(int64(n)), err)
	return n, err
}

// WriteString sends a part of the body.
func (w *writer) WriteString(s string) (int, error) {
	w.begin(http.StatusOK)
	n, err := io.WriteString(w.ResponseWriter, s)
	w.wrote(w.tookBody(int64(n)), err)
	return n, err
}

// tookBody reports whether a write of n bytes may have sent some. A write to an
// HTTP/2 stream that is reset reports none, whatever the client has received.
func (w *writer) tookBody(n int64) bool { return n > 0 || w.request.ProtoMajor >= 2 }

// flusher adds Flush to a writer.
type flusher struct{ w *writer }

// Flush sends what is buffered.
func (f flusher) Flush() { _ = f.FlushError() }

// FlushError sends what is buffered, for [http.ResponseController].
func (f flusher) FlushError() error {
	f.w.begin(http.StatusOK)
	err := http.NewResponseController(f.w.ResponseWriter).Flush()
	f.w.wrote(false, err)
	return err
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
	n, err := io.Copy(r.w.ResponseWriter, src)

	// An error may come from src, and then says nothing about the client.
	r.w.wrote(true, err)
	return n, err
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
