package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// call is one request to a route.
type call struct {
	*view
	server *Server
	ctx    context.Context //nolint:containedctx // it lives as long as the request
	by     Identity
	r      *http.Request
	body   []byte      // of a POST
	header http.Header // of the answer
	undo   func()      // takes the call back if its answer cannot be delivered; nil if nothing is left open
}

// dispatch finds the route of a request. It answers as the mux would, but with a
// problem document.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	handler, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	probe := &statusProbe{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
	}
	httplimit.WriteError(w, &httplimit.Problem{Status: probe.status}, nil)
}

// statusProbe is a ResponseWriter that keeps only the status and the header.
type statusProbe struct {
	header http.Header
	status int
}

// Header returns the header.
func (p *statusProbe) Header() http.Header { return p.header }

// WriteHeader keeps the status.
func (p *statusProbe) WriteHeader(status int) { p.status = status }

// Write drops the body.
func (p *statusProbe) Write(b []byte) (int, error) { return len(b), nil }

// serve answers the requests of a route.
func (s *Server) serve(rt *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := s.prepare(w, r, rt)
		if err != nil {
			s.fail(w.Header(), err).write(w)
			return
		}
		if key, given := r.Header["Idempotency-Key"]; given && rt.keyed {
			s.serveOnce(w, c, rt, key)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		c.ctx = ctx
		answer := s.run(c, rt)
		if c.undo != nil && r.Context().Err() != nil {
			c.undo()
			return
		}
		if err := answer.write(w); err != nil && c.undo != nil {
			c.undo()
		}
	})
}

// callTimeout bounds a call. It is far above the timeout of the store.
const callTimeout = 30 * time.Second

// prepare authenticates a request and reads its body.
func (s *Server) prepare(w http.ResponseWriter, r *http.Request, rt *route) (*call, error) {
	by, err := s.authenticate(r.Header)
	if err != nil {
		return nil, err
	}
	if !by.Role.Allows(rt.role) {
		return nil, &httplimit.Problem{Status: http.StatusForbidden, Detail: "this call needs a token with the role " + string(rt.role) + " or admin"}
	}
	c := &call{server: s, by: by, r: r, header: w.Header()}
	if r.Method == http.MethodPost {
		if err := requireJSON(r.Header); err != nil {
			return nil, err
		}
		if c.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBody)); err != nil {
			return nil, unreadable(err)
		}
	}
	if c.view, err = s.view(r.Context(), by); err != nil {
		return nil, err
	}
	return c, nil
}

// unreadable returns the error of a body that could not be read.
func unreadable(err error) error {
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLong
	}
	return &httplimit.Problem{Status: http.StatusBadRequest, Detail: "the body ended early or came too slowly"}
}

// serveOnce answers a request with an idempotency key. It does not end with its
// client, who may come back for the answer.
func (s *Server) serveOnce(w http.ResponseWriter, c *call, rt *route, values []string) {
	key, err := parseKey(values)
	if err != nil {
		s.fail(w.Header(), err).write(w)
		return
	}
	digest := sha256.Sum256(append([]byte(c.r.Method+" "+c.r.URL.Path+"\n"), c.body...))
	earlier, err := s.keys.begin(c.by.owner, key, digest)
	if err != nil {
		s.fail(w.Header(), err).write(w)
		return
	}
	if earlier != nil {
		earlier.write(w)
		return
	}
	var kept *reply
	defer func() { s.keys.finish(c.by.owner, key, kept) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), callTimeout)
	defer cancel()
	c.ctx = ctx
	answer := s.run(c, rt)
	if answer.status < http.StatusMultipleChoices {
		kept = answer
	}
	answer.write(w)
}

// parseKey checks an Idempotency-Key.
func parseKey(values []string) (string, error) {
	const longest = 255
	if len(values) == 1 && len(values[0]) > 0 && len(values[0]) <= longest {
		visible := true
		for _, b := range []byte(values[0]) {
			visible = visible && b >= ' ' && b <= '~'
		}
		if visible {
			return values[0], nil
		}
	}
	return "", &httplimit.Problem{Status: http.StatusBadRequest, Detail: "Idempotency-Key: must be one value of 1 to 255 printable ASCII characters"}
}

// run calls the route and encodes its answer.
func (s *Server) run(c *call, rt *route) *reply {
	answer, err := rt.do(c)
	if err != nil {
		if errors.Is(err, limiter.ErrNotFound) && c.view != s.home {
			s.forgetView(c.by)
		}
		return s.fail(c.header, err)
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return s.fail(c.header, err)
	}
	return newReply(c.header, http.StatusOK, "application/json", append(body, '\n'))
}

// newReply returns an answer with a copy of the header, which a key may keep.
func newReply(h http.Header, status int, kind string, body []byte) *reply {
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	return &reply{status, h.Clone(), body}
}

// write sends the answer, and reports whether the connection took it.
func (a *reply) write(w http.ResponseWriter) error {
	h := w.Header()
	for name, values := range a.header {
		h[name] = values
	}
	w.WriteHeader(a.status)
	if _, err := w.Write(a.body); err != nil {
		return err
	}
	if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
