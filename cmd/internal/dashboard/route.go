package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// callTimeout bounds a call, which may have to wait for the read budget.
const callTimeout = 30 * time.Second

// route is a call that the page can make.
type route struct {
	// params has the names of the parameters of the query.
	params []string
	// write reports whether the call needs Options.Write and the role admin.
	write bool
	// body is the most bytes of a body; 0 for a call without one.
	body int64
	do   func(*call) (any, error)
	// raw replaces do in a call that finds its session itself.
	raw func(http.ResponseWriter, *http.Request) error
}

// call is a call under way.
type call struct {
	*space
	h      *Handler
	ctx    context.Context //nolint:containedctx // it lives as long as the request
	by     *login
	values url.Values
	body   []byte
}

func (h *Handler) addRoutes() {
	h.routes = map[string]map[string]*route{
		"/api/session": {http.MethodPost: {raw: h.openSession}, http.MethodDelete: {raw: h.closeSession}},
		"/api/stream":  {http.MethodGet: {raw: h.stream}},
	}

	for path, rt := range readRoutes() {
		h.routes[path] = map[string]*route{http.MethodGet: rt}
	}
	for path, rt := range postRoutes() {
		h.routes[path] = map[string]*route{http.MethodPost: rt}
	}
}

// readRoutes returns the calls that only read.
func readRoutes() map[string]*route {
	return map[string]*route{
		"/api/info":      {do: info},
		"/api/overview":  {params: []string{"order", "after", "limit", "prefix", "search"}, do: overview},
		"/api/entity":    {params: []string{"id"}, do: entity},
		"/api/children":  {params: []string{"id", "after", "limit"}, do: children},
		"/api/usage":     {params: []string{"entity", "resource", "window", "from", "to"}, do: usage},
		"/api/audit":     {params: []string{"entity", "after", "limit"}, do: audit},
		"/api/resources": {params: []string{"with"}, do: resources},
		"/api/resource":  {params: []string{"name"}, do: resource},
	}
}

// postRoutes returns the calls with a body.
func postRoutes() map[string]*route {
	return map[string]*route{
		"/api/watch":   {body: maxWatchBody, do: watch},
		"/api/explain": {body: maxBody, do: explain},
		"/api/what-if": {body: maxManifest, do: whatIf},
		"/api/preview": {body: maxBody, do: preview},
		"/api/change":  {body: maxBody, write: true, do: change},
	}
}

// dispatch calls the route of a request.
func (h *Handler) dispatch(w http.ResponseWriter, r *http.Request) {
	methods := h.routes[r.URL.Path]
	if methods == nil {
		h.fail(w, &httplimit.Problem{Status: http.StatusNotFound})
		return
	}

	rt := methods[r.Method]
	if rt == nil {
		allowed := []string{}
		for method := range methods {
			allowed = append(allowed, method)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		h.fail(w, &httplimit.Problem{Status: http.StatusMethodNotAllowed})
		return
	}

	// net/http would end the connection without an answer, and write to a log
	// of its own.
	defer func() {
		if p := recover(); p != nil {
			h.fail(w, fmt.Errorf("%s panicked: %v\n%s", r.URL.Path, p, debug.Stack()))
		}
	}()

	if rt.raw != nil {
		if err := rt.raw(w, r); err != nil {
			h.fail(w, err)
		}
		return
	}

	answer, err := h.call(w, r, rt)
	if err != nil {
		h.fail(w, err)
		return
	}
	h.send(w, answer)
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

	c := &call{h: h, by: by}
	if c.values, err = parseQuery(r, rt.params); err != nil {
		return nil, err
	}

	// One token may hold few calls, even while their bodies are on the way.
	if err := h.calls.reserve(by); err != nil {
		return nil, err
	}
	defer h.calls.release(by)

	if rt.body > 0 {
		if c.body, err = receive(w, r, rt.body); err != nil {
			return nil, err
		}
	}
	// A body that does not arrive takes no place among those of all tokens.
	if err := h.calls.begin(); err != nil {
		return nil, err
	}
	defer h.calls.end()

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

	answer, err := rt.do(c)
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

// send answers with JSON.
func (h *Handler) send(w http.ResponseWriter, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		h.fail(w, err)
		return
	}

	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)+1))
	// A viewer that has gone needs no answer, so the error does not matter.
	_, _ = w.Write(append(body, '\n'))
}

// parseQuery returns the parameters of a request. It rejects parameters that the
// call does not have, and parameters that occur twice. An empty parameter counts
// as absent.
func parseQuery(r *http.Request, known []string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badInput("the query is not valid; escape its values")
	}

	for name, given := range values {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return nil, badInput("parameter %q: is unknown; the call has no parameters", clip(name))
		case !slices.Contains(known, name):
			return nil, badInput("parameter %q: is unknown; the parameters are %s", clip(name),
				strings.Join(known, ", "))
		case len(given) != 1:
			return nil, badInput("parameter %s: must have one value", name)
		case len(given[0]) > maxParameter:
			return nil, badInput("parameter %s: must have at most %d bytes", name, maxParameter)
		}
	}

	return values, nil
}

// maxParameter bounds a parameter. A cursor of a store is the longest.
const maxParameter = 2048

func (c *call) param(name string) string { return c.values.Get(name) }

// limit returns the parameter limit, from 1 to most.
func (c *call) limit(fallback, most int) (int, error) {
	text := c.param("limit")
	if text == "" {
		return fallback, nil
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badInput("parameter limit: must be a whole number from 1 to %d", most)
	}

	return n, nil
}

// word returns a parameter that must be one of some words; the first is its
// default.
func (c *call) word(name string, words ...string) (string, error) {
	text := c.param(name)
	if text == "" {
		return words[0], nil
	}

	if !slices.Contains(words, text) {
		return "", badInput("parameter %s: must be %s", name, strings.Join(words, " or "))
	}
	return text, nil
}
