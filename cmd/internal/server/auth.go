package server

import (
	"mime"
	"net/http"
	"strings"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// anonymous is every caller of a server without tokens.
var anonymous = Identity{Name: "anonymous", Role: RoleAdmin}

// authenticate returns the caller of a request.
func (s *Server) authenticate(h http.Header) (Identity, error) {
	if s.opts.Tokens == nil {
		return anonymous, nil
	}
	if by, ok := s.opts.Tokens.CheckBearer(h.Values("Authorization")); ok {
		return by, nil
	}

	return Identity{}, &httplimit.Problem{
		Status: http.StatusUnauthorized, Challenge: "Bearer",
		Detail: "a valid token is required: Authorization: Bearer TOKEN",
	}
}

// CheckBearer returns the identity of the token in the values of the field
// Authorization, or of the metadata of that name.
func (t *Tokens) CheckBearer(values []string) (Identity, bool) {
	const longest = 512
	if len(values) != 1 || len(values[0]) > longest {
		return Identity{}, false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Identity{}, false
	}
	return t.Check(token)
}

// requireJSON rejects a request whose body is not plain JSON. A web page of another
// origin cannot send this content type without a preflight request, which fails.
func requireJSON(h http.Header) error {
	values := h["Content-Type"]
	if len(values) != 1 || !isJSON(values[0]) {
		return &httplimit.Problem{
			Status: http.StatusUnsupportedMediaType, Detail: "Content-Type: must be application/json",
		}
	}

	if h.Get("Content-Encoding") != "" {
		return &httplimit.Problem{Status: http.StatusUnsupportedMediaType, Detail: "Content-Encoding: must be absent"}
	}
	return nil
}

func isJSON(contentType string) bool {
	if contentType == typeJSON {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == typeJSON
}
