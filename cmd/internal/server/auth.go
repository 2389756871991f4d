package server

import (
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
