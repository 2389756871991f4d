package web

import (
	"errors"
	"net/http"
	"time"
)

// Events is an answer of server-sent events.
type Events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// NewEvents sets the header of an answer of events. A client has timeout to take
// each. NewEvents removes the read deadline of the server, which is for answers that
// end.
func NewEvents(w http.ResponseWriter, timeout time.Duration) *Events {
	e := &Events{w, http.NewResponseController(w), timeout}
	// Where the writer has no deadlines, the server set none either.
	_ = e.control.SetReadDeadline(time.Time{})

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	// nginx would keep events until its buffer is full.
	h.Set("X-Accel-Buffering", "no")
	return e
}

// Send sends an event, and fails if the client does not take it in time. Afterwards it
// removes the deadline: over HTTP/2, a deadline that passes ends the stream even while
// nothing is being written.
func (e *Events) Send(event []byte) error {
	// A writer without deadlines, such as that of a test, has no such bound.
	err := e.control.SetWriteDeadline(time.Now().Add(e.timeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}

	if _, err := e.w.Write(event); err != nil {
		return err
	}
	if err := e.control.Flush(); err != nil {
		return err
	}

	_ = e.control.SetWriteDeadline(time.Time{})
	return nil
}
