package proxy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/zeroae/zae-limiter-go"
)

// JWTOptions configures ByJWT.
type JWTOptions struct {
	Key      []byte // PEM of a public key: RSA, ECDSA or Ed25519
	Audience string // required in "aud"
	Issuer   string // required in "iss", if not ""
	Claim    string // names the entity; default "sub"
	Now      func() time.Time
}

// ByJWT maps a request to a claim of its bearer token. The token must be signed
// with the algorithm of the key's type, name the audience, and not be expired. The
// error describes what is wrong with the options.
func ByJWT(opts JWTOptions) (Identifier, error) {
	key, algorithms, err := parsePublicKey(opts.Key)
	if err != nil {
		return nil, err
	}

	if opts.Audience == "" {
		return nil, errors.New(
			"the audience of the tokens is missing; without it, a token for another service would pass",
		)
	}

	if opts.Claim == "" {
		opts.Claim = "sub"
	}

	rules := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms), jwt.WithExpirationRequired(), jwt.WithAudience(opts.Audience),
	}

	if opts.Issuer != "" {
		rules = append(rules, jwt.WithIssuer(opts.Issuer))
	}
	if opts.Now != nil {
		rules = append(rules, jwt.WithTimeFunc(opts.Now))
	}

	parser := jwt.NewParser(rules...)
	return func(r *http.Request) (string, error) {
		text, err := bearerToken(r.Header)
		if err != nil {
			return "", err
		}

		claims := jwt.MapClaims{}
		token, err := parser.ParseWithClaims(text, claims, func(*jwt.Token) (any, error) { return key, nil })
		if err != nil {
			return "", unauthorized("the token is not valid: " + tokenReason(err))
		}

		if err := checkToken(token, opts.Claim); err != nil {
			return "", err
		}

		entity, _ := claims[opts.Claim].(string)
		if (limiter.Entity{ID: entity}).Validate() != nil {
			return "", unauthorized(fmt.Sprintf("the token has no valid claim %q", opts.Claim))
		}
		return entity, nil
	}, nil
}

// checkToken rejects what the parser ignores: extensions that every reader must
// understand, and a claim that occurs twice, which readers understand differently.
func checkToken(token *jwt.Token, claim string) error {
	if _, extended := token.Header["crit"]; extended {
		return unauthorized("the token is not valid: it has critical extensions, which are not supported")
	}

	_, payload, _ := strings.Cut(token.Raw, ".")
	payload, _, _ = strings.Cut(payload, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || countField(text, claim) > 1 {
		return unauthorized(fmt.Sprintf("the token has the claim %q more than once", claim))
	}
	return nil
}

// countField counts how often a valid JSON object has a field.
func countField(object []byte, name string) int {
	decoder := json.NewDecoder(bytes.NewReader(object))
	// The first token is the brace of the object.
	if _, err := decoder.Token(); err != nil {
		return 0
	}

	count := 0
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return count
		}
		if field == name {
			count++
		}
		// Decode reads the whole value, so that a field of the same name inside
		// of it does not count.
		if err := decoder.Decode(&json.RawMessage{}); err != nil {
			return count
		}
	}
	return count
}

// bearerToken returns the only bearer token of a request.
func bearerToken(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", unauthorized("a bearer token is required in one Authorization header")
	}

	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", unauthorized("the Authorization header must be Bearer and a token")
	}
	return strings.TrimSpace(token), nil
}

// tokenReason returns a fixed text for an error, which never contains the token.
func tokenReason(err error) string {
	for _, known := range []struct {
		err  error
		text string
	}{
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
		{jwt.ErrTokenInvalidAudience, "it is for another audience"},
		{jwt.ErrTokenInvalidIssuer, "it is from another issuer"},
		{jwt.ErrTokenRequiredClaimMissing, "it needs the claims exp and aud"},
		{jwt.ErrTokenMalformed, "it is not a JWT"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	return "its signature does not match"
}

// parsePublicKey returns a key and the algorithms that belong to it, so that a
// token cannot choose another one.
func parsePublicKey(text []byte) (key any, algorithms []string, err error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, nil, errors.New("the file must hold a public key in PEM form (BEGIN PUBLIC KEY)")
	}

	key, err = x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, nil, errors.New("the file holds no public key: " + err.Error())
	}

	switch key := key.(type) {
	case *rsa.PublicKey:
		return key, []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, nil
	case *ecdsa.PublicKey:
		// ES512 goes with the curve P-521, whose size is not that of its hash.
		return key, []string{fmt.Sprintf("ES%d", map[int]int{256: 256, 384: 384, 521: 512}[key.Params().BitSize])}, nil
	case ed25519.PublicKey:
		return key, []string{"EdDSA"}, nil
	}
	return nil, nil, fmt.Errorf("the file holds a key of type %T; RSA, ECDSA and Ed25519 are supported", key)
}
