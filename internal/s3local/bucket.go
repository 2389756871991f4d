// Package s3local is the part of S3 that tests of this module need, served on
// loopback: objects that are read whole, and written if nobody else has.
package s3local

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Server is a server that runs, made by Start.
type Server struct {
	server *httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	headers map[string]http.Header
	refusal string
}

// Start starts a server without objects, in which every bucket exists.
func Start() *Server {
	s := &Server{objects: map[string][]byte{}, headers: map[string]http.Header{}}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// URL is where it answers.
func (s *Server) URL() string { return s.server.URL }

// Stop ends it.
func (s *Server) Stop() { s.server.Close() }

// Objects are those there are, by "/bucket/key".
func (s *Server) Objects() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// Header is what an object was written with.
func (s *Server) Header(name string) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[name]
}

// Refuse answers every request with an error of that code, until it is "".
func (s *Server) Refuse(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = code
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, there := s.objects[r.URL.Path]
	wanted := r.Header.Get("If-Match")
	switch {
	case s.refusal != "":
		refuse(w, http.StatusForbidden, s.refusal)
	case !there && (r.Method == http.MethodGet || wanted != ""):
		refuse(w, http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", etag(content))
		w.Header().Set("Content-Encoding", s.headers[r.URL.Path].Get("Content-Encoding"))
		_, _ = w.Write(content)
	case r.Header.Get("If-None-Match") == "*" && there, wanted != "" && wanted != etag(content):
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
