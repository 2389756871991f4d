package webdemo

import (
	"net/http"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// call is a call under way, which has no more than its request.
type call = web.Call

// route is a call of the API, for the mux and the OpenAPI document.
type route struct {
	web.Route[*call]
	status int    // of a success
	media  string // of the answer, if it is not JSON
	// serve replaces the handler of a call that writes its answer itself.
	serve http.HandlerFunc
}

// get returns a route that reads.
func get[A any](path, summary string, query []web.Parameter, do func(*call) (A, error)) route {
	return route{Route: web.Get(rules, path, summary, query, do), status: http.StatusOK}
}

// change returns a route whose requests carry a body of type B.
func change[B, A any](
	method, path, summary string, status int, query []web.Parameter, do func(*call, B) (A, error),
) route {
	rt := route{Route: web.Post(rules, path, summary, do), status: status}
	rt.Method, rt.Parameters = method, query
	return rt
}

// remove returns a route that deletes.
func remove(path, summary string, query []web.Parameter, do func(*call) error) route {
	rt := get(path, summary, query, func(c *call) (any, error) { return nil, do(c) })
	rt.Method, rt.Answer, rt.status = http.MethodDelete, nil, http.StatusNoContent
	return rt
}

// handler returns the handler of a route.
func (h *Handler) handler(rt *route) http.HandlerFunc {
	if rt.serve != nil {
		return rt.serve
	}

	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, Header: w.Header()}
		err := rt.CheckQuery(c)
		if err == nil && rt.Request != nil {
			c.Body, err = rules.ReadBody(w, r, maxBody)
		}

		var answer any
		if err == nil {
			answer, err = rt.Run(c)
		}

		switch {
		case err != nil:
			h.fail(w, r, err)
		case rt.Answer == nil:
			w.WriteHeader(rt.status)
		default:
			h.send(w, r, rt.status, answer)
		}
	}
}

// send answers with a JSON value.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, status int, value any) {
	if err := web.WriteJSON(w, status, value); err != nil {
		h.fail(w, r, err)
	}
}

// addRoutes registers all routes and pages.
func (h *Handler) addRoutes() error {
	h.routes = slices.Concat(h.gatewayRoutes(), h.entityRoutes(), h.limitRoutes(), h.stateRoutes(), h.trafficRoutes())

	handlers := web.Handlers{}
	for i := range h.routes {
		handlers.Add(h.routes[i].Method, h.routes[i].Path, h.handler(&h.routes[i]))
	}
	handlers["/api/entities/{$}"] = handlers["/api/entities"]

	pages, err := h.pages()
	if err != nil {
		return err
	}
	for path, page := range pages {
		handlers.Add(http.MethodGet, path, page)
	}

	for path, methods := range handlers {
		h.mux.Handle(path, h.guarded(rules.ByMethod(methods, web.Fail)))
	}
	h.mux.Handle("/",
		h.guarded(&httplimit.Problem{
			Status: http.StatusNotFound, Detail: "there is no such path; /docs lists the paths",
		}))

	// The dashboard checks the hosts and origins of its requests itself.
	if h.opts.Dashboard != nil {
		h.mux.Handle("/dashboard/", http.StripPrefix("/dashboard", h.opts.Dashboard))
	}
	return nil
}

func (h *Handler) guarded(next http.Handler) http.Handler { return guard(next, &h.opts.Hosts) }
