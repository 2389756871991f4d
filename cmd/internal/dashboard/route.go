package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// callTimeout bounds a call, which may have to wait for the read budget.
const callTimeout = 30 * time.Second

// route is a call that the page can make.
type route struct {
	web.Route[*call]
	// write reports whether the call needs Options.Write and the role admin.
	write bool
	// body is the most bytes of a body; 0 for a call without one.
	body int64
}

// call is a call under way.
type call struct {
	*web.Call
	*space
	h   *Handler
	ctx context.Context //nolint:containedctx // it lives as long as the request
	by  *login
}

func (h *Handler) addRoutes() {
	handlers := web.Handlers{}
	// These calls find their sessions themselves.
	handlers.Add(http.MethodPost, "/api/session", h.guarded(h.openSession))
	handlers.Add(http.MethodDelete, "/api/session", h.guarded(h.closeSession))
	handlers.Add(http.MethodGet, "/api/stream", h.guarded(h.stream))

	for _, rt := range routes() {
		handlers.Add(rt.Method, rt.Path, h.guarded(func(w http.ResponseWriter, r *http.Request) error {
			answer, err := h.call(w, r, &rt)
			if err != nil {
				return err
			}
			return web.WriteJSON(w, http.StatusOK, answer)
		}))
	}

	for path, methods := range handlers {
		h.routes[path] = rules.ByMethod(methods, h.fail)
	}
}

// routes returns the calls that need a session.
func routes() []route {
	return []route{
		newGet("/api/info", info),
		newGet("/api/overview", overview, named("order", "name", "tightest"), named("after"), named("limit"),
			named("prefix"), named("search")),
		newGet("/api/entity", entity, named("id")),
		newGet("/api/children", children, named("id"), named("after"), named("limit")),
		newGet("/api/usage", usage, named("entity"), named("resource"), named("window", windows...), named("from"),
			named("to")),
		newGet("/api/audit", audit, named("entity"), named("after"), named("limit")),
		newGet("/api/resources", resources, named("with", "names", "limits")),
		newGet("/api/resource", resource, named("name")),
		newPost("/api/watch", maxWatchBody, watch),
		newPost("/api/explain", maxBody, explain),
		newPost("/api/what-if", maxManifest, whatIf),
		newPost("/api/preview", maxBody, preview),
		{Route: web.Post(rules, "/api/change", "", change), body: maxBody, write: true},
	}
}

// maxBody bounds the body of most calls.
const maxBody = 64 << 10

func newGet(path string, do func(*call) (any, error), parameters ...web.Parameter) route {
	return route{Route: web.Get(rules, path, "", parameters, do)}
}

func newPost[B any](path string, most int64, do func(*call, B) (any, error)) route {
	return route{Route: web.Post(rules, path, "", do), body: most}
}

// named returns a parameter. If there are words, it has one of them.
func named(name string, words ...string) web.Parameter {
	return web.Parameter{Name: name, Words: words}
}

// guarded returns the handler of a call, which answers its error and its panic.
func (h *Handler) guarded(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				h.fail(w, web.Panicked(r.URL.Path, p))
			}
		}()

		if err := do(w, r); err != nil {
			h.fail(w, err)
		}
	}
}

// call runs a route for the session of a request, if there is a place for it.
func (h *Handler) call(w http.ResponseWriter, r *http.Request, rt *route) (any, error) {
	by, err := h.sessions.find(r)
	if err != nil {
		return nil, err
	}

	// The session is valid, so strangers may not displace the connection.
	listen.Vouch(r)

	if err := h.permits(by, rt); err != nil {
		return nil, err
	}

	c := &call{Call: &web.Call{Request: r, Header: w.Header()}, h: h, by: by}
	if err := rt.CheckQuery(c); err != nil {
		return nil, err
	}

	// One token may hold few calls, even while their bodies are on the way.
	own := by.bounds(maxCallsEach)
	if err := h.calls.Take(1, own...); err != nil {
		return nil, err
	}
	defer h.calls.Give(1, own...)

	if rt.body > 0 {
		if c.Body, err = rules.ReadBody(w, r, rt.body); err != nil {
			return nil, err
		}
	}
	// A body that does not arrive takes no place among those of all tokens.
	all := web.Bound{Most: maxCalls, Full: web.ErrTooMany}
	if err := h.calls.Take(1, all); err != nil {
		return nil, err
	}
	defer h.calls.Give(1, all)

	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	c.ctx = ctx

	if c.space, err = h.space(ctx, by.Namespace); err != nil {
		return nil, err
	}

	// A change is not rationed.
	if !rt.write {
		c.ctx = c.space.paid(ctx)
	}

	h.gate.enter()
	defer h.gate.leave()

	answer, err := rt.Run(c)
	// A record may be missing because its namespace is gone.
	if errors.Is(err, limiter.ErrNotFound) {
		err = c.space.explain(ctx, err)
	}

	return answer, err
}

// permits rejects a session that may not make a call.
func (h *Handler) permits(by *login, rt *route) error {
	switch {
	case by.Role != RoleRead && by.Role != RoleAdmin:
		return errRole
	case rt.write && !h.opts.Write:
		return errNeedsWrite
	case rt.write && by.Role != RoleAdmin:
		return errNeedsAdmin
	}
	return nil
}

// bounds returns what bounds the places of a session's token, so that no viewer takes
// the places of others. Viewers without a session have no token by which to count.
func (l *login) bounds(most int64) []web.Bound {
	if l.ended == nil {
		return nil
	}
	return []web.Bound{{Group: "token", Name: l.bearer, Most: most, Full: errGreedy}}
}

func (c *call) param(name string) string { return c.Query.Get(name) }

// limit returns the parameter limit, from 1 to most.
func (c *call) limit(fallback, most int) (int, error) {
	n, err := rules.Whole(c.Query, web.Parameter{Name: "limit", Default: strconv.Itoa(fallback)}, 1, int64(most))
	return int(n), err
}
