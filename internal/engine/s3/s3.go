// Package s3 serves the part of S3 that tests need on the loopback interface: whole
// reads and conditional writes of objects. It runs in the process of the test.
package s3

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Server is a running server. Use Start to create one.
type Server struct {
	server *httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	headers map[string]http.Header
	refusal string
}

// Start starts a server without objects. Every bucket exists.
func Start() *Server {
	s := &Server{objects: map[string][]byte{}, headers: map[string]http.Header{}}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// URL returns the base URL of the server.
func (s *Server) URL() string { return s.server.URL }

// Stop stops the server.
func (s *Server) Stop() { s.server.Close() }

// Objects returns the stored objects by "/bucket/key".
func (s *Server) Objects() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// Header returns the request header that an object was written with.
func (s *Server) Header(name string) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[name]
}

// Refuse makes every request fail with an error code. An empty code ends this.
func (s *Server) Refuse(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = code
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	content, there := s.objects[r.URL.Path]
	version := r.Header.Get("If-Match")

	switch {
	case s.refusal != "":
		refuse(w, http.StatusForbidden, s.refusal)
	// As in S3, a write on condition of a version fails like a read if there is
	// no object.
	case !there && (r.Method == http.MethodGet || version != ""):
		refuse(w, http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", etag(content))
		w.Header().Set("Content-Encoding", s.headers[r.URL.Path].Get("Content-Encoding"))
		_, _ = w.Write(content)
	case r.Header.Get("If-None-Match") == "*" && there, version != "" && version != etag(content):
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")

	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			refuse(w, http.StatusBadRequest, "IncompleteBody")
			return
		}

		s.objects[r.URL.Path], s.headers[r.URL.Path] = body, r.Header
	}
}

func etag(content []byte) string {
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>refused</Message></Error>")
}
