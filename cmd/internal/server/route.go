package server

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// route is a call that clients can make. It is also the source of the OpenAPI
// document.
type route struct {
	id                    string // the operationId
	method, path, summary string
	role                  Role
	keyed                 bool // an Idempotency-Key is honoured
	query                 []parameter
	request, answer       reflect.Type // of the JSON; request is nil for a GET
	do                    func(*call) (any, error)
}

// parameter is a parameter of a query.
type parameter struct {
	name, doc string
	schema    string   // the name of its schema; "" for words
	words     []string // the values that are allowed; nil for any
	required  bool
}

// post returns a route whose calls carry a body of type B.
func post[B, A any](id, path, summary string, role Role, keyed bool, do func(*call, B) (A, error)) route {
	allowed := shapeOf(reflect.TypeFor[B]())
	return route{
		id: id, method: http.MethodPost, path: path, summary: summary, role: role, keyed: keyed,
		request: reflect.TypeFor[B](), answer: reflect.TypeFor[A](),
		do: func(c *call) (any, error) {
			if err := c.checkQuery(nil); err != nil {
				return nil, err
			}

			body, err := decode[B](c.body, allowed)
			if err != nil {
				return nil, err
			}

			return do(c, body)
		},
	}
}

// get returns a route that only reads.
func get[A any](id, path, summary string, role Role, query []parameter, do func(*call) (A, error)) route {
	return route{
		id: id, method: http.MethodGet, path: path, summary: summary, role: role, query: query,
		answer: reflect.TypeFor[A](),
		do: func(c *call) (any, error) {
			if err := c.checkQuery(query); err != nil {
				return nil, err
			}

			return do(c)
		},
	}
}

// addRoutes registers all routes, the probes and the OpenAPI document.
func (s *Server) addRoutes() error {
	s.routes = slices.Concat(leaseRoutes(), switchRoutes(), fillRoutes(), readRoutes(), historyRoutes())

	for i := range s.routes {
		rt := &s.routes[i]
		s.handle(rt.method, rt.path, s.serve(rt))
	}
	// The 404 of the mux itself is not a problem document.
	s.mux.Handle("/", &httplimit.Problem{Status: http.StatusNotFound})

	document, err := s.openAPI()
	if err != nil {
		return fmt.Errorf("openapi: %w", err)
	}

	s.handle(http.MethodGet, "/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		_ = newReply(w.Header(), http.StatusOK, typeJSON, document).write(w)
	})
	s.handle(http.MethodGet, "/healthz", func(w http.ResponseWriter, _ *http.Request) {
		answerProbe(w, http.StatusOK, "alive")
	})
	s.handle(http.MethodGet, "/readyz", s.serveReady)

	return nil
}

// handle registers a path with its only method. Other methods get a problem
// document.
func (s *Server) handle(method, path string, handler http.HandlerFunc) {
	s.mux.HandleFunc(method+" "+path, handler)
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		(&httplimit.Problem{Status: http.StatusMethodNotAllowed}).ServeHTTP(w, r)
	})
}
