package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Identifier maps a request to the entity that pays. Its error is a problem for
// the client.
type Identifier func(*http.Request) (entity string, err error)

// credentialFields lists the headers in which APIs take their keys.
var credentialFields = []string{"Authorization", "X-Api-Key", "Api-Key"}

// hashDigits is the number of hex digits of the hash of a key that are kept.
const hashDigits = 16

// HashKey returns the first 16 hex digits of the SHA-256 of an API key. Nothing
// else of a key is stored or logged.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])[:hashDigits]
}

func unauthorized(detail string) error {
	return &httplimit.Problem{Status: http.StatusUnauthorized, Detail: detail, Challenge: "Bearer"}
}

// apiKey returns the key of a request. A request with several keys is rejected:
// the upstream might use another one than the proxy. Empty headers do not count,
// and do not reach the upstream.
func apiKey(h http.Header) (string, error) {
	var keys []string
	for _, name := range credentialFields {
		for _, value := range h.Values(name) {
			if name == "Authorization" {
				scheme, token, ok := strings.Cut(value, " ")
				if !ok || !strings.EqualFold(scheme, "Bearer") {
					return "", unauthorized("the Authorization header must be Bearer and a key")
				}
				value = token
			}
			if value = strings.TrimSpace(value); value != "" {
				keys = append(keys, value)
			}
		}
	}

	switch {
	case slices.ContainsFunc(keys, func(key string) bool { return strings.ContainsFunc(key, splits) }):
		return "", unauthorized("the API key has a character that no key has")
	case len(keys) == 0:
		return "", unauthorized("an API key is required, in the header Authorization (Bearer) or X-Api-Key")
	// Compact removes equal neighbors only, which is enough: keys that differ
	// leave at least two.
	case len(slices.Compact(keys)) > 1:
		return "", unauthorized("the request has several API keys; send one")
	}

	return keys[0], nil
}

// splits reports whether a server may end a key before a character, and so read
// another key than the proxy.
func splits(r rune) bool { return r <= ' ' || r >= 0x7f || r == ',' || r == ';' || r == '"' }

// byKey maps a request to the hash of its API key.
func byKey(r *http.Request) (string, error) {
	key, err := apiKey(r.Header)
	if err != nil {
		return "", err
	}
	return HashKey(key), nil
}

// ByMapping maps a request to the entity that the mapping gives its API key. It
// rejects keys that the mapping does not have.
func ByMapping(mapping MappingFunc) Identifier {
	return func(r *http.Request) (string, error) {
		hash, err := byKey(r)
		if err != nil {
			return "", err
		}
		if entity, ok := mapping().entity(hash); ok {
			return entity, nil
		}
		return "", unauthorized("the API key is not known here")
	}
}

// ByHeader maps a request to the value of a header, which a trusted proxy in
// front must set.
func ByHeader(name string) Identifier {
	return func(r *http.Request) (string, error) {
		values := r.Header.Values(name)
		if len(values) != 1 || (limiter.Entity{ID: values[0]}).Validate() != nil {
			return "", unauthorized("the request is not identified")
		}

		// The header is a matter between the proxy in front and this one.
		r.Header.Del(name)
		return values[0], nil
	}
}
