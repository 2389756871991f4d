package server

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// rules refuses every fault of a request, and accepts 2.0 as a whole number.
var rules = &web.Rules{WholeNumbers: true}

// route is a call that clients can make.
type route struct {
	web.Route[*call]
	id    string // the operationId
	role  Role
	keyed bool // an Idempotency-Key is honoured
}

// post returns a route whose calls carry a body of type B.
func post[B, A any](id, path, summary string, role Role, keyed bool, do func(*call, B) (A, error)) route {
	return route{web.Post(rules, path, summary, do), id, role, keyed}
}

// get returns a route that only reads.
func get[A any](id, path, summary string, role Role, query []web.Parameter, do func(*call) (A, error)) route {
	return route{web.Get(rules, path, summary, query, do), id, role, false}
}

// addRoutes registers all routes, the probes and the OpenAPI document.
func (s *Server) addRoutes() error {
	s.routes = slices.Concat(leaseRoutes(), switchRoutes(), fillRoutes(), readRoutes(), historyRoutes())

	handlers := web.Handlers{}
	for i := range s.routes {
		rt := &s.routes[i]
		handlers.Add(rt.Method, rt.Path, s.serve(rt))
	}

	document, err := s.openAPI()
	if err != nil {
		return fmt.Errorf("openapi: %w", err)
	}
	handlers.Add(http.MethodGet, "/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		_ = web.NewAnswer(w.Header(), http.StatusOK, web.TypeJSON, document).Write(w)
	})
	handlers.Add(http.MethodGet, "/healthz", func(w http.ResponseWriter, _ *http.Request) {
		answerProbe(w, http.StatusOK, "alive")
	})
	handlers.Add(http.MethodGet, "/readyz", s.serveReady)

	for path, methods := range handlers {
		s.mux.Handle(path, rules.ByMethod(methods, web.Fail))
	}
	// The 404 of the mux itself is not a problem document.
	s.mux.Handle("/", &httplimit.Problem{Status: http.StatusNotFound})

	return nil
}
