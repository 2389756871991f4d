package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Answer is an answer that is complete before it is sent.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// NewAnswer returns an answer, and completes its header.
func NewAnswer(h http.Header, status int, contentType string, body []byte) *Answer {
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	return &Answer{status, h, body}
}

// NewJSON returns an answer with a JSON value.
func NewJSON(h http.Header, status int, value any) (*Answer, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return NewAnswer(h, status, TypeJSON, append(body, '\n')), nil
}

// NewFailure returns the answer that httplimit.WriteError writes. It is kept out of
// caches.
func NewFailure(h http.Header, err error, f *httplimit.Fields) *Answer {
	c := &captured{header: h}
	httplimit.WriteError(c, err, f)
	return NewAnswer(h, c.status, h.Get("Content-Type"), c.body)
}

// Write sends the answer, whose header w has already.
func (a *Answer) Write(w http.ResponseWriter) error {
	w.WriteHeader(a.Status)
	_, err := w.Write(a.Body)
	return err
}

// captured is a ResponseWriter that keeps what is written.
type captured struct {
	status int
	header http.Header
	body   []byte
}

// Header returns the header.
func (c *captured) Header() http.Header { return c.header }

// WriteHeader keeps the status.
func (c *captured) WriteHeader(status int) { c.status = status }

// Write keeps b.
func (c *captured) Write(b []byte) (int, error) {
	c.body = append(c.body, b...)
	return len(b), nil
}

// WriteJSON answers with a JSON value. The error says that the value has no form in
// JSON, and that nothing was sent. A client that has gone needs no answer, so that a
// failed write is none.
func WriteJSON(w http.ResponseWriter, status int, value any) error {
	answer, err := NewJSON(w.Header(), status, value)
	if err != nil {
		return err
	}
	_ = answer.Write(w)
	return nil
}

// Panicked returns the error of a call that panicked with p. It is for a function
// that recovers: net/http would end the connection without an answer, and write to a
// log of its own.
func Panicked(path string, p any) error {
	return fmt.Errorf("%s panicked: %v\n%s", path, p, debug.Stack())
}

// Handlers has the handlers of an API by path and method.
type Handlers map[string]map[string]http.HandlerFunc

// Add adds the handler of a method of a path.
func (h Handlers) Add(method, path string, serve http.HandlerFunc) {
	if h[path] == nil {
		h[path] = map[string]http.HandlerFunc{}
	}
	h[path][method] = serve
}

// ByMethod returns a handler that selects one of a path's by the method of the
// request. It passes the fault of another method to fail, which answers.
func (r *Rules) ByMethod(
	methods map[string]http.HandlerFunc, fail func(http.ResponseWriter, error),
) http.HandlerFunc {
	allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	return func(w http.ResponseWriter, req *http.Request) {
		serve := methods[req.Method]
		// Package http drops the body of an answer to HEAD.
		if req.Method == http.MethodHead && !r.NoHead {
			serve = methods[http.MethodGet]
		}
		if serve != nil {
			serve(w, req)
			return
		}

		// RFC 9110 requires Allow with this status.
		w.Header().Set("Allow", allowed)
		fail(w, r.mustRefuse(&Fault{
			Kind: OtherMethod, Want: allowed, Problem: httplimit.Problem{Status: http.StatusMethodNotAllowed},
		}))
	}
}

// Fail answers with the problem of an error.
func Fail(w http.ResponseWriter, err error) { httplimit.NewProblem(err).ServeHTTP(w, nil) }

// Protect sets the fields that keep an answer of a program with pages from being
// used by other pages. The policy says what its own pages may load.
func Protect(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// IsNavigation reports whether a browser opens what it asks for as a document, such
// as by a link on another site. A page there cannot read the answer.
func IsNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}
