package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// call is one request to a route.
type call struct {
	*web.Call
	*view
	server *Server
	ctx    context.Context //nolint:containedctx // it lives as long as the request
	by     Identity
	// answered keeps what the call took, or gives it back if the answer was not
	// delivered. It is nil if the call took nothing.
	answered func(delivered bool)
}

// serve answers the requests of a route.
func (s *Server) serve(rt *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := s.prepare(w, r, rt)
		if err != nil {
			_ = s.fail(w.Header(), err).Write(w)
			return
		}

		if key, given := r.Header["Idempotency-Key"]; given && rt.keyed {
			s.serveOnce(w, c, rt, key)
			return
		}

		ctx, cancel := rt.context(r)
		defer cancel()
		c.ctx = ctx
		answer := s.run(c, rt)

		if c.answered == nil {
			_ = answer.Write(w)
			return
		}
		c.answered(!isReset(r) && deliver(answer, w, r))
	}
}

// context returns the context of a call. A client that has surely left stops a call
// that reads. It does not stop a call of a keyed route, which writes: a write that is
// cut off may be stored or not, so that it could not be taken back. The timeouts of the
// limiter bound those.
func (rt *route) context(r *http.Request) (context.Context, context.CancelFunc) {
	ctx := r.Context()
	if rt.keyed || r.ProtoMajor < 2 {
		ctx = context.WithoutCancel(ctx)
	}

	if rt.keyed {
		return ctx, func() {}
	}
	// A list may need many calls of the store, each with a timeout of its own.
	return context.WithTimeout(ctx, readTimeout)
}

// isReset reports whether a client has surely left: it reset its HTTP/2 stream, on
// which nothing can be delivered any more. The context of an HTTP/1.1 request also
// ends when a client closes its sending side, and the client may read on.
func isReset(r *http.Request) bool { return r.ProtoMajor >= 2 && r.Context().Err() != nil }

// readTimeout bounds a call that reads.
const readTimeout = 30 * time.Second

// prepare authenticates a request and reads its body.
func (s *Server) prepare(w http.ResponseWriter, r *http.Request, rt *route) (*call, error) {
	// The token and its role come before the body, which a stranger must not make
	// the server hold.
	by, err := s.authenticate(r.Header)
	if err != nil {
		return nil, err
	}

	listen.Vouch(r)

	if !by.Role.Allows(rt.role) {
		return nil, &httplimit.Problem{
			Status: http.StatusForbidden,
			Detail: "this call needs a token with the role " + rt.role.including(),
		}
	}

	c := &call{Call: &web.Call{Request: r, Header: w.Header()}, server: s, by: by}
	if rt.Request != nil {
		if c.Body, err = rules.ReadBody(w, r, s.opts.MaxBody); err != nil {
			return nil, err
		}
	}

	// The view is kept for other calls, so the end of this request must not cut
	// its opening off.
	if c.view, err = s.view(context.WithoutCancel(r.Context()), by); err != nil {
		return nil, err
	}
	return c, nil
}

// serveOnce answers a request with an idempotency key. The call goes on without its
// client, which may come back for the answer.
func (s *Server) serveOnce(w http.ResponseWriter, c *call, rt *route, values []string) {
	key, err := parseKey(values)
	if err != nil {
		_ = s.fail(w.Header(), err).Write(w)
		return
	}

	// The digest ties the key to its request, since a client may use a key
	// twice by mistake.
	digest := sha256.Sum256(append([]byte(c.Request.Method+" "+c.Request.URL.Path+"\n"), c.Body...))
	earlier, err := s.keys.begin(c.by.owner, key, digest)
	if err != nil {
		_ = s.fail(w.Header(), err).Write(w)
		return
	}

	if earlier != nil {
		maps.Copy(w.Header(), earlier.Header)
		_ = earlier.Write(w)
		return
	}

	var kept *web.Answer
	defer func() { s.keys.finish(c.by.owner, key, kept) }()

	c.ctx = context.WithoutCancel(c.Request.Context())
	answer := s.run(c, rt)

	// A refusal and a failure had no effect, so they leave the key to the next
	// try.
	if answer.Status < http.StatusMultipleChoices {
		kept = &web.Answer{Status: answer.Status, Header: answer.Header.Clone(), Body: answer.Body}
	}
	// A client that does not get this answer gets it at its next try.
	if c.answered != nil {
		c.answered(true)
	}

	_ = answer.Write(w)
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

	return "", &httplimit.Problem{
		Status: http.StatusBadRequest,
		Detail: "Idempotency-Key: must be one value of 1 to 255 printable ASCII characters",
	}
}

// run calls the route and encodes its answer, if there is a place for the call.
func (s *Server) run(c *call, rt *route) (result *web.Answer) {
	if err := s.running.Take(1, s.allCalls); err != nil {
		return s.fail(c.Header, err)
	}
	defer s.running.Give(1, s.allCalls)

	// A panic becomes an answer and an error for the operator. net/http would only
	// close the connection.
	defer func() {
		if p := recover(); p != nil {
			result = s.fail(c.Header, web.Panicked(rt.Path, p))
		}
	}()

	answer, err := rt.do(c)
	if err != nil {
		// A record may be missing because its namespace is gone.
		if errors.Is(err, limiter.ErrNotFound) {
			err = s.checkNamespace(c.ctx, c.by, err)
		}
		return s.fail(c.Header, err)
	}

	if result, err = web.NewJSON(c.Header, http.StatusOK, answer); err != nil {
		return s.fail(c.Header, err)
	}
	return result
}

// do checks the query of a call, and then makes the call.
func (rt *route) do(c *call) (any, error) {
	if err := rt.CheckQuery(c); err != nil {
		return nil, err
	}
	return rt.Run(c)
}

// deliver sends an answer, and reports whether the client may have a part of it: the
// status alone says that a request was admitted. On HTTP/1.1, a failed answer is not
// delivered if the network took no byte of it. On HTTP/2, a write can fail after the
// status was sent, so that a failure proves nothing.
func deliver(a *web.Answer, w http.ResponseWriter, r *http.Request) bool {
	before := listen.Sent(r)
	err := a.Write(w)
	// A small answer only fills a buffer, so a flush has to show that the connection
	// takes it. Where there is no flush, the buffer counts as sent.
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}

	return err == nil || errors.Is(err, http.ErrNotSupported) || r.ProtoMajor >= 2 || listen.Sent(r) != before
}
