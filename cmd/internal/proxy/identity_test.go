package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func TestHashKey(t *testing.T) {
	if got := HashKey("test"); got != "9f86d081884c7d65" {
		t.Errorf("HashKey(test) = %s", got)
	}
}

func TestKeysOfRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		headers []string
		want    string
	}{
		"bearer":           {[]string{"Authorization", "Bearer k"}, "k"},
		"lower case":       {[]string{"authorization", "bearer k"}, "k"},
		"anthropic":        {[]string{"x-api-key", "k"}, "k"},
		"azure":            {[]string{"api-key", "k"}, "k"},
		"the same twice":   {[]string{"Authorization", "Bearer k", "x-api-key", "k"}, "k"},
		"two keys":         {[]string{"Authorization", "Bearer k", "x-api-key", "l"}, ""},
		"one header twice": {[]string{"Authorization", "Bearer k", "Authorization", "Bearer l"}, ""},
		"basic":            {[]string{"Authorization", "Basic azpr"}, ""},
		"empty":            {[]string{"Authorization", "Bearer "}, ""},
		"empty and a key":  {[]string{"x-api-key", "", "api-key", "k"}, "k"},
		"none":             {nil, ""},
	} {
		h := http.Header{}
		for i := 0; i < len(tc.headers); i += 2 {
			h.Add(tc.headers[i], tc.headers[i+1])
		}
		got, err := apiKey(h)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: apiKey = %q, %v; want %q", name, got, err, tc.want)
		}
	}
}

func TestMappedKeys(t *testing.T) {
	mapping, err := ParseMapping([]byte(
		"keys:\n- {sha256: " + HashKey(aliceKey) + ", entity: alice, parent: team}\nmodels: {m-latest: m}\n",
	))
	if err != nil {
		t.Fatal(err)
	}
	current := func() *Mapping { return mapping }
	r := newRig(t, answerJSON(plainChat), func(o *Options) { o.Mapping, o.Identify = current, ByMapping(current) })
	if err := mapping.EnsureEntities(context.Background(), r.lim); err != nil {
		t.Fatal(err)
	}
	if err := mapping.EnsureEntities(context.Background(), r.lim); err != nil {
		t.Errorf("a second time: %v", err)
	}
	resp, _ := r.post(chatPath, strings.Replace(plainCall, `"m"`, `"m-latest"`, 1))
	r.wantStatus(resp, 200)
	for _, entity := range []string{"alice", "team"} {
		if requests, tokens := r.used(entity, "m"); requests != 1 || tokens != 42 {
			t.Errorf("%s paid %d requests and %d tokens", entity, requests, tokens)
		}
	}
	resp, _ = r.post(chatPath, plainCall, "Authorization", "Bearer sk-mallory")
	r.wantStatus(resp, 401)
	if got := resp.Header.Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("the challenge is %q", got)
	}
	if r.calls() != 1 {
		t.Errorf("%d calls reached the upstream", r.calls())
	}
	mapping.Keys[0].Parent = "another"
	if err := mapping.EnsureEntities(context.Background(), r.lim); err == nil ||
		!strings.Contains(err.Error(), `stored with parent "team"`) {
		t.Errorf("another parent: %v", err)
	}
}

func TestMappingProblems(t *testing.T) {
	for text, want := range map[string]string{
		"keyz: []": "field keyz is unknown; the fields are keys " +
			"(sha256, entity, parent) and models",
		"keys: [{sha256: sk-secret, entity: a}]":                                                          "keys, entry 1: sha256 must be the first 16 or more hex digits of the SHA-256 of the key, not the key itself",
		"keys: [{sha256: 9f86d081884c7d65}]":                                                              "keys, entry 1: entity is missing; it names who pays",
		"keys: [{sha256: 9f86d081884c7d65, entity: 'a b'}]":                                               `keys, entry 1: invalid entity_id "a b"`,
		"keys: [{sha256: 9f86d081884c7d65, entity: a}, {sha256: 9F86D081884C7D65, entity: b}]":            "keys, entry 2: the key 9f86d081884c7d65 is listed twice, for a and for b",
		"keys: [{sha256: 9f86d081884c7d65, entity: a, parent: p}, {sha256: 8f86d081884c7d65, entity: a}]": `entity a has two parents, "p" and ""`,
		"models: {x: 'not valid'}":                                                                        `models, "x": invalid resource "not valid"`,
		"keys: []\n---\nkeys: []":                                                                         "the mapping must be one YAML document",
		"keys: 5":                                                                                         "line 1: cannot unmarshal",
		"models: {a: m, a: m}":                                                                            "already defined",
	} {
		_, err := ParseMapping([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sk-secret") {
			t.Errorf("the error shows a key: %v", err)
		}
	}
	for _, text := range []string{
		"", "# keys:\n", "{}", "keys:\n# - all\n", "keys: []", "keys: []\nmodels: {a: m}", "keys: null",
		"models: {}",
	} {
		if _, err := ParseMapping([]byte(text)); err == nil || !strings.Contains(err.Error(), "would admit every key") {
			t.Errorf("the empty mapping %q: error %v", text, err)
		}
	}
	if m, err := ParseMapping([]byte("models: {a: m}")); err != nil || m.HasKeys() {
		t.Errorf("a mapping of models: %v, %v", m, err)
	}
}

func TestTrustedHeader(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), func(o *Options) { o.Identify = ByHeader("X-User") })
	resp, _ := r.post(chatPath, plainCall, "X-User", "bob")
	r.wantStatus(resp, 200)
	if r.lastHeader().Get("X-User") != "" {
		t.Error("the header reached the upstream")
	}
	if requests, _ := r.used("bob", "m"); requests != 1 {
		t.Errorf("bob paid %d requests", requests)
	}
	resp, _ = r.post(chatPath, plainCall)
	r.wantStatus(resp, 401)
	resp, _ = r.post(chatPath, plainCall, "X-User", "not valid!")
	r.wantStatus(resp, 401)
}

func TestHeadersAreNotTrustedByDefault(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	r.post(chatPath, plainCall, "X-User", "bob", "X-Forwarded-User", "bob", "X-Forwarded-For", "1.2.3.4")
	r.wantUsed("m", 1, 42)
	if got := r.lastHeader().Get("X-Forwarded-For"); got != "" {
		t.Errorf("X-Forwarded-For %q reached the upstream", got)
	}
}

func TestJWT(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, _ := x509.MarshalPKIXPublicKey(&key.PublicKey)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	identify, err := ByJWT(JWTOptions{Key: public, Audience: "proxy", Issuer: "us", Now: func() time.Time {
		return noon
	}})
	if err != nil {
		t.Fatal(err)
	}
	good := jwt.MapClaims{"sub": "alice", "aud": "proxy", "iss": "us", "exp": noon.Add(time.Minute).Unix()}
	sign := func(method jwt.SigningMethod, key any, change func(jwt.MapClaims)) string {
		claims := jwt.MapClaims{}
		maps.Copy(claims, good)
		if change != nil {
			change(claims)
		}
		text, err := jwt.NewWithClaims(method, claims).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	extended := jwt.NewWithClaims(jwt.SigningMethodES256, good)
	extended.Header["crit"] = []string{"b64"}
	critical, _ := extended.SignedString(key)
	encode := base64.RawURLEncoding.EncodeToString
	twice := encode([]byte(`{"alg":"ES256"}`)) + "." + encode(fmt.Appendf(nil,
		`{"sub":"alice","x":{"sub":1},"aud":"proxy","iss":"us","exp":%d,"sub":"bob"}`, noon.Unix()+60))
	signature, err := jwt.SigningMethodES256.Sign(twice, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ token, want string }{
		"unknown crit": {critical, ""},
		"two subjects": {twice + "." + encode(signature), ""},
		"good":         {sign(jwt.SigningMethodES256, key, nil), "alice"},
		"nested subject": {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) {
			c["x"] = map[string]any{"sub": "bob"}
		}), "alice"},
		"another key":      {sign(jwt.SigningMethodES256, other, nil), ""},
		"none":             {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil), ""},
		"public as secret": {sign(jwt.SigningMethodHS256, public, nil), ""},
		"expired": {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) {
			c["exp"] = noon.Add(-time.Second).Unix()
		}), ""},
		"never expires": {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { delete(c, "exp") }), ""},
		"not yet": {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) {
			c["nbf"] = noon.Add(time.Hour).Unix()
		}), ""},
		"other audience":  {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { c["aud"] = "another" }), ""},
		"no audience":     {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { delete(c, "aud") }), ""},
		"other issuer":    {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { c["iss"] = "them" }), ""},
		"no subject":      {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { delete(c, "sub") }), ""},
		"strange subject": {sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { c["sub"] = "a b" }), ""},
		"no JWT":          {"sk-secret", ""},
		"nothing":         {"", ""},
	} {
		req := &http.Request{Header: http.Header{"Authorization": {"Bearer " + tc.token}}}
		got, err := identify(req)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
		if err != nil && tc.token != "" && strings.Contains(err.Error(), tc.token) {
			t.Errorf("%s: the error shows the token: %v", name, err)
		}
	}
	for _, bad := range [][]byte{
		nil, []byte("secret"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}),
	} {
		if _, err := ByJWT(JWTOptions{Key: bad, Audience: "proxy"}); err == nil {
			t.Errorf("key %q was accepted", bad)
		}
	}
	if _, err := ByJWT(JWTOptions{Key: public}); err == nil {
		t.Error("no audience was accepted")
	}
}

func TestNewKeysAreCapped(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}, func(o *Options) { o.NewEntities = 2 })
	r.post(chatPath, plainCall)
	r.wantUsed("m", 0, 0)
	for name, want := range map[string]int{"sk-1": 401} {
		resp, _ := r.post(chatPath, plainCall, "Authorization", "Bearer "+name)
		r.wantStatus(resp, want)
	}
	resp, _ := r.post(chatPath, plainCall, "Authorization", "Bearer sk-2")
	r.wantStatus(resp, 429)
	if resp.Header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
	}
	resp, _ = r.post(chatPath, plainCall) // seen before
	r.wantStatus(resp, 401)
	r.start(func(o *Options) { o.NewEntities = 1 }) // another process: the store knows Alice
	for range 2 {
		resp, _ = r.post(chatPath, plainCall)
		r.wantStatus(resp, 401)
	}
	resp, _ = r.post(chatPath, plainCall, "Authorization", "Bearer sk-3")
	r.wantStatus(resp, 401)
}

// TestRefusedCallsAreNoNewKeys checks that keys whose calls the proxy refuses leave
// room for the keys of others.
func TestRefusedCallsAreNoNewKeys(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), func(o *Options) { o.NewEntities = 1 })
	for range 3 {
		resp, _ := r.post(chatPath, `{"model":"unknown"}`, "Authorization", "Bearer sk-1")
		r.wantStatus(resp, 500)
	}
	resp, _ := r.post(chatPath, plainCall)
	r.wantStatus(resp, 200)
	resp, _ = r.post(chatPath, plainCall, "Authorization", "Bearer sk-2")
	r.wantStatus(resp, 429)
}

func TestEmptyCredentialsDoNotReachTheUpstream(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	resp, _ := r.post(chatPath, plainCall, "X-Api-Key", "")
	r.wantStatus(resp, 200)
	if values, sent := r.lastHeader()["X-Api-Key"]; sent {
		t.Errorf("the upstream got X-Api-Key %q", values)
	}
}

func TestCredentialsOfTheProxyReplaceTheClients(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), func(o *Options) {
		o.Identify, o.Credentials = ByHeader("X-User"), Credentials{"Authorization", "Bearer sk-upstream"}
	})
	r.post(chatPath, plainCall, "X-User", "bob", "X-Api-Key", "sk-client")
	if h := r.lastHeader(); h.Get("Authorization") != "Bearer sk-upstream" || h.Get("X-Api-Key") != "" {
		t.Errorf("the upstream got %v", h)
	}
}
