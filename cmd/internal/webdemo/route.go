package webdemo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// route is a call of the API, for the mux and the OpenAPI document.
type route struct {
	method, path, summary string
	query                 []parameter
	request, answer       reflect.Type // the JSON; nil for none
	status                int          // of a success
	media                 string       // of the answer, if it is not JSON
	serve                 http.HandlerFunc
}

// parameter is a parameter of a query.
type parameter struct {
	name, doc string
	kind      string // string or integer
	fallback  string
}

// get returns a route that reads.
func get[A any](h *Handler, path, summary string, query []parameter, do func(*http.Request) (A, error)) route {
	return route{
		method: http.MethodGet, path: path, summary: summary, query: query, answer: reflect.TypeFor[A](),
		status: http.StatusOK,
		serve: func(w http.ResponseWriter, r *http.Request) {
			err := checkQuery(r, query)
			if err == nil {
				var answer A
				if answer, err = do(r); err == nil {
					writeJSON(w, http.StatusOK, answer)
					return
				}
			}
			h.fail(w, r, err)
		},
	}
}

// change returns a route whose requests carry a body of type B.
func change[B, A any](
	h *Handler, method, path, summary string, status int, query []parameter,
	do func(*http.Request, B) (A, error),
) route {
	return route{
		method: method, path: path, summary: summary, query: query, request: reflect.TypeFor[B](),
		answer: reflect.TypeFor[A](), status: status,
		serve: func(w http.ResponseWriter, r *http.Request) {
			answer, err := decodeAnd(w, r, query, do)
			if err != nil {
				h.fail(w, r, err)
				return
			}
			writeJSON(w, status, answer)
		},
	}
}

func decodeAnd[B, A any](
	w http.ResponseWriter, r *http.Request, query []parameter, do func(*http.Request, B) (A, error),
) (answer A, err error) {
	if err := checkQuery(r, query); err != nil {
		return answer, err
	}
	text, err := readBody(w, r)
	if err != nil {
		return answer, err
	}
	body, err := decode[B](text)
	if err != nil {
		return answer, err
	}
	return do(r, body)
}

// remove returns a route that deletes.
func remove(h *Handler, path, summary string, query []parameter, do func(*http.Request) error) route {
	return route{
		method: http.MethodDelete, path: path, summary: summary, query: query, status: http.StatusNoContent,
		serve: func(w http.ResponseWriter, r *http.Request) {
			err := checkQuery(r, query)
			if err == nil {
				err = do(r)
			}
			if err != nil {
				h.fail(w, r, err)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		},
	}
}

// decode parses a body: one object with no other fields than those of B.
func decode[B any](text []byte) (body B, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&body)
	// Field is empty if the body itself has the wrong type.
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return body, invalidf("body: field %s must not be a JSON %s", wrong.Field, wrong.Value)
	}

	if name, ok := unknownField(err); ok {
		return body, invalidf("body: field %.40s is unknown; /docs lists the fields", name)
	}

	// Decode accepts null, and leaves the body empty.
	if err != nil || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return body, invalidf("body: must be one JSON object")
	}

	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return body, invalidf("body: must be one JSON object, with nothing after it")
	}
	return body, nil
}

func unknownField(err error) (string, bool) {
	if err == nil {
		return "", false
	}

	// Package json has no type for this error.
	return strings.CutPrefix(err.Error(), "json: unknown field ")
}

// checkQuery rejects parameters that are unknown or repeated.
func checkQuery(r *http.Request, allowed []parameter) error {
	for name, values := range r.URL.Query() {
		if !slices.ContainsFunc(allowed, func(p parameter) bool { return p.name == name }) {
			return invalidf("parameter %.40q is unknown; /docs lists the parameters", name)
		}
		if len(values) > 1 {
			return invalidf("parameter %s is given twice; give it once", name)
		}
	}
	return nil
}

// numberOf returns a whole parameter from least to most.
func numberOf(r *http.Request, p parameter, least, most int64) (int64, error) {
	text := r.URL.Query().Get(p.name)
	if text == "" {
		text = p.fallback
	}

	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, invalidf("parameter %s must be a whole number from %d to %d", p.name, least, most)
	}
	return n, nil
}

// addRoutes registers all routes and pages.
func (h *Handler) addRoutes() error {
	h.routes = slices.Concat(h.gatewayRoutes(), h.entityRoutes(), h.limitRoutes(), h.stateRoutes(), h.trafficRoutes())

	// dispatch answers a wrong method with a problem document, and the mux would
	// answer in plain text.
	byPath := map[string]map[string]http.HandlerFunc{}
	for _, rt := range h.routes {
		if byPath[rt.path] == nil {
			byPath[rt.path] = map[string]http.HandlerFunc{}
		}
		byPath[rt.path][rt.method] = rt.serve
	}

	pages, err := h.pages()
	if err != nil {
		return err
	}

	for path, page := range pages {
		byPath[path] = map[string]http.HandlerFunc{http.MethodGet: page}
	}

	for path, methods := range byPath {
		h.mux.Handle(path, h.guarded(dispatch(methods)))
	}

	byPath["/api/entities/{$}"] = byPath["/api/entities"]
	h.mux.Handle("/api/entities/{$}", h.guarded(dispatch(byPath["/api/entities"])))

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

// dispatch selects the handler of a method. GET answers HEAD too.
func dispatch(methods map[string]http.HandlerFunc) http.Handler {
	allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Package http drops the body of an answer to HEAD.
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}

		serve, ok := methods[method]
		if !ok {
			w.Header().Set("Allow", allowed)
			(&httplimit.Problem{
				Status: http.StatusMethodNotAllowed, Detail: "this path allows " + allowed,
			}).ServeHTTP(w, r)
			return
		}
		serve(w, r)
	})
}
