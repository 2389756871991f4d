package dashboard

import (
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// streamTimes are the times of a stream.
type streamTimes struct {
	// heartbeat is the time between comments, which keep proxies from closing a
	// stream that is quiet.
	heartbeat time.Duration
	// write is the time for an event.
	write time.Duration
}

var usualTimes = streamTimes{heartbeat: 15 * time.Second, write: 10 * time.Second}

// sessionCheck is how often the token of a session is checked, whether the session is
// in use or not.
const sessionCheck = time.Second

// stream sends events until the viewer, the session, the namespace or the handler
// is gone.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) error {
	by, err := h.sessions.find(r)
	if err != nil {
		return err
	}
	listen.Vouch(r)
	// A stream changes nothing, so the empty route stands for it.
	if err := h.permits(by, &route{}); err != nil {
		return err
	}

	if _, err := parseQuery(r, nil); err != nil {
		return err
	}

	if err := h.streams.enter(by); err != nil {
		return err
	}
	defer h.streams.leave(by)

	s, err := h.space(r.Context(), by.Namespace)
	if err != nil {
		return err
	}

	if err := s.exists(r.Context()); err != nil {
		return err
	}

	v, err := s.hub.join(by)
	if err != nil {
		return err
	}
	defer s.hub.leave(v)

	out := &eventWriter{w: w, control: http.NewResponseController(w), timeout: h.times.write}
	if out.begin(v.id) == nil {
		h.pump(r, s, v, out)
	}
	return nil
}

// pump sends the events of a viewer.
func (h *Handler) pump(r *http.Request, s *space, v *viewer, out *eventWriter) {
	beat := time.NewTicker(h.times.heartbeat)
	defer beat.Stop()
	check := time.NewTicker(sessionCheck)
	defer check.Stop()

	for {
		var event []byte
		select {
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		case <-v.by.ended:
			// Without a session the channel is nil, which is never ready.
			return
		case <-check.C:
			// The token may be revoked while nothing is sent.
			if !h.sessions.alive(v.by) {
				return
			}
			continue
		case <-beat.C:
			event = []byte(":\n\n")
		case <-v.notify:
			event = s.hub.collect(v)
		}

		if out.write(event) != nil {
			return
		}
	}
}

// eventWriter writes events to a viewer.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// begin sends the header and the first event. It removes the read deadline of the
// server, which is for answers that end.
func (o *eventWriter) begin(id string) error {
	// Where the writer has no deadlines, the server set none either.
	_ = o.control.SetReadDeadline(time.Time{})
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	// nginx would keep events until its buffer is full.
	h.Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)

	return o.write(newEvent("hello", struct {
		ID string `json:"id"`
	}{id}))
}

// write sends an event, and fails if the viewer does not take it in time. Afterwards
// it removes the deadline: over HTTP/2, a deadline that passes ends the stream even
// while nothing is being written.
func (o *eventWriter) write(event []byte) error {
	_ = o.control.SetWriteDeadline(time.Now().Add(o.timeout))

	if _, err := o.w.Write(event); err != nil {
		return err
	}

	if err := o.control.Flush(); err != nil {
		return err
	}

	_ = o.control.SetWriteDeadline(time.Time{})
	return nil
}

// Bounds of what a viewer watches.
const (
	maxWatched   = 500
	maxWatchBody = 512 << 10
	maxEntity    = 1024 // in bytes; more than a valid ID has
	maxResource  = 512
)

type watchRequest struct {
	ID   string     `json:"id"`
	Keys [][]string `json:"keys"`
}

func watch(c *call) (any, error) {
	var body watchRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}

	if len(body.Keys) > maxWatched {
		return nil, badInput("body: field keys: must have at most %d pairs", maxWatched)
	}

	keys := make([]limiter.Scope, 0, len(body.Keys))
	for _, pair := range body.Keys {
		if len(pair) != 2 || pair[0] == "" || pair[1] == "" || len(pair[0]) > maxEntity || len(pair[1]) > maxResource {
			return nil, badInput("body: field keys: must be pairs of an entity and a resource")
		}
		keys = append(keys, limiter.Scope{Entity: pair[0], Resource: pair[1]})
	}

	if !c.hub.watch(body.ID, c.by, keys) {
		return nil, &httplimit.Problem{
			Status: http.StatusNotFound, Detail: "there is no such stream of this session; connect again",
		}
	}

	return struct{}{}, nil
}
