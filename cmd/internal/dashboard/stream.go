package dashboard

import (
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
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

	if _, err := rules.ParseQuery(r, nil); err != nil {
		return err
	}

	bounds := append(by.bounds(maxStreamsEach), web.Bound{Most: maxStreams, Full: errTooManyOpen})
	if err := h.streams.Take(1, bounds...); err != nil {
		return err
	}
	defer h.streams.Give(1, bounds...)

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

	out := web.NewEvents(w, h.times.write)
	if out.Send(newEvent("hello", hello{v.id})) == nil {
		h.pump(r, s, v, out)
	}
	return nil
}

// pump sends the events of a viewer.
func (h *Handler) pump(r *http.Request, s *space, v *viewer, out *web.Events) {
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

		if out.Send(event) != nil {
			return
		}
	}
}

// hello is the first event, as JSON.
type hello struct {
	ID string `json:"id"`
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

func watch(c *call, body watchRequest) (any, error) {
	if len(body.Keys) > maxWatched {
		return nil, web.Bad("body: field keys: must have at most %d pairs", maxWatched)
	}

	keys := make([]limiter.Scope, 0, len(body.Keys))
	for _, pair := range body.Keys {
		if len(pair) != 2 || pair[0] == "" || pair[1] == "" || len(pair[0]) > maxEntity || len(pair[1]) > maxResource {
			return nil, web.Bad("body: field keys: must be pairs of an entity and a resource")
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
