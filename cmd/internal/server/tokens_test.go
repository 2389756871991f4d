package server

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/memory"
)

func TestTokensAreRequired(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"})
	r := newMemoryRig(t, Options{Tokens: tokens})
	for name, header := range map[string]map[string]string{
		"none":    {"Authorization": ""},
		"wrong":   {"Authorization": "Bearer " + secret[0] + "x"},
		"shorter": {"Authorization": "Bearer " + secret[0][:20]},
		"hash":    {"Authorization": "Bearer " + strings.Repeat("0", 64)},
		"scheme":  {"Authorization": "Basic " + secret[0]},
		"empty":   {"Authorization": "Bearer "},
		"huge":    {"Authorization": "Bearer " + strings.Repeat("a", 5000)},
	} {
		w := r.send(request{path: "/v1/acquire", header: header, body: acquireJSON("key", `{"rpm":1}`)})
		if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if strings.Contains(w.Body.String(), secret[0][:10]) {
			t.Errorf("%s: the answer repeats the token: %s", name, w.Body)
		}
	}
	twice := request{path: "/v1/acquire", token: secret[0], body: acquireJSON("key", `{"rpm":1}`)}.http(t)
	twice.Header.Add("Authorization", "Bearer other")
	if _, ok := tokens.CheckBearer(twice.Header.Values("Authorization")); ok {
		t.Error("two values of Authorization are accepted")
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		if w := r.send(request{method: "GET", path: path}); w.Code != 200 {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
	r.acquire(secret[0], "key", `{"rpm":1}`)
}

func TestRoles(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"},
		TokenEntry{Role: RoleRead, Namespace: "default"}, TokenEntry{Role: RoleAdmin, Namespace: "default"})
	r := newMemoryRig(t, Options{Tokens: tokens})
	body := acquireJSON("key", `{"rpm":1}`)
	override := `{"entity_id":"key","resource":"gpt-4","consume":{"big":1},"limits":[{"name":"big","capacity":9,"refill_amount":9,"refill_period_seconds":60}]}`
	for _, test := range []struct {
		q    request
		want [3]int // acquire, read, admin
	}{
		{request{path: "/v1/acquire", body: body}, [3]int{200, 403, 200}},
		{request{path: "/v1/acquire", body: override}, [3]int{403, 403, 200}},
		{request{path: "/v1/leases/0/commit", body: `{}`}, [3]int{410, 403, 410}},
		{request{path: "/v1/explain", body: body}, [3]int{403, 200, 200}},
		{request{path: "/v1/explain", body: override}, [3]int{403, 403, 200}},
		{request{method: "GET", path: "/v1/entities"}, [3]int{403, 200, 200}},
		{request{method: "GET", path: "/v1/namespaces"}, [3]int{403, 403, 200}},
	} {
		for i, token := range secret {
			test.q.token = token
			if w := r.send(test.q); w.Code != test.want[i] {
				t.Errorf("%s %s as %d: %d, want %d: %s", test.q.path, test.q.body, i, w.Code, test.want[i], w.Body)
			}
		}
	}
}

// A token reaches its namespace and no other.
func TestNamespaces(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAdmin, Namespace: "default"},
		TokenEntry{Role: RoleAdmin, Namespace: "tenant-a"}, TokenEntry{Role: RoleAdmin, Namespace: "missing"})
	repo := memory.New(nil)
	r := newRig(t, repo, Options{Tokens: tokens})
	if _, err := r.lim.RegisterNamespaces(context.Background(), "tenant-a"); err != nil {
		t.Fatal(err)
	}
	body := acquireJSON("key", `{"rpm":1}`)
	r.want(200, request{path: "/v1/acquire", token: secret[0], body: body})
	r.want(500, request{path: "/v1/acquire", token: secret[1], body: body}) // no limits there
	r.want(403, request{path: "/v1/acquire", token: secret[2], body: body})
	tenant, err := r.lim.Namespace(context.Background(), "tenant-a")
	if err != nil {
		t.Fatal(err)
	}
	limits, err := r.lim.ResourceDefaults(context.Background(), "gpt-4")
	if err != nil {
		t.Fatal(err)
	}
	if err := tenant.SetResourceDefaults(context.Background(), "gpt-4", limits...); err != nil {
		t.Fatal(err)
	}
	r.want(200, request{path: "/v1/acquire", token: secret[1], body: acquireJSON("key", `{"rpm":3}`)})
	if got := r.left("key"); got != "rpm=9 tpm=1000" {
		t.Errorf("%s is left in the default namespace", got)
	}
	// A namespace that was deleted and registered again is found again.
	if err := r.lim.DeleteNamespace(context.Background(), "tenant-a"); err != nil {
		t.Fatal(err)
	}
	r.want(403, request{path: "/v1/acquire", token: secret[1], body: body})
	r.want(403, request{path: "/v1/acquire", token: secret[1], body: body})
}

// A lease and a key stay in the namespace where they were made, when their token
// moves to another one.
func TestTokenMoves(t *testing.T) {
	path, secret := tokensFile(t, TokenEntry{Role: RoleAcquire, Namespace: "default"})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		tokens, err := OpenTokens(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := newMemoryRig(t, Options{Tokens: tokens})
		if _, err := r.lim.RegisterNamespaces(context.Background(), "tenant-a"); err != nil {
			t.Fatal(err)
		}
		id := r.acquire(secret[0], "key", `{"tpm":100}`)
		once := request{path: "/v1/acquire", token: secret[0], key: "k", body: acquireJSON("key", `{"rpm":1}`)}
		r.want(200, once)
		if err := os.WriteFile(
			path, []byte(strings.Replace(string(content), "default", "tenant-a", 1)), 0o600,
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		r.want(410, request{path: "/v1/leases/" + id + "/rollback", token: secret[0], body: `{}`})
		r.want(500, once) // there are no limits
		if err := r.Settle(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Changes of the file apply within a second, and a broken file changes nothing.
func TestTokensFollowTheirFile(t *testing.T) {
	old, before := tokensFile(t, TokenEntry{Role: RoleAcquire, Namespace: "default"})
	next, after := tokensFile(t, TokenEntry{Role: RoleRead, Namespace: "default"})
	content, err := os.ReadFile(next)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var reports []error
		tokens, err := OpenTokens(t.Context(), old, func(err error) { reports = append(reports, err) })
		if err != nil {
			t.Fatal(err)
		}
		expect := func(token string, role Role) {
			t.Helper()
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if id, ok := tokens.Check(token); id.Role != role || ok != (role != "") {
				t.Errorf("the role is %q, %v, want %q", id.Role, ok, role)
			}
		}
		expect(before[0], RoleAcquire)
		good, err := os.ReadFile(old)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			text string
			want Role
		}{
			{"tokens: [{name: x}]", RoleAcquire},
			{"tokens: []", ""},
			{string(good), RoleAcquire},
			{"", ""},
			{string(good), RoleAcquire},
		} {
			if err := os.WriteFile(old, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
			expect(before[0], step.want)
		}
		if err := os.Remove(old); err != nil {
			t.Fatal(err)
		}
		expect(before[0], RoleAcquire)
		if err := os.WriteFile(old, content, 0o600); err != nil {
			t.Fatal(err)
		}
		expect(before[0], "")
		expect(after[0], RoleRead)
		for i, failed := range []bool{true, false, false, false, false, true, false} {
			if len(reports) != 7 || (reports[i] != nil) != failed {
				t.Fatalf("reports %v", reports)
			}
		}
	})
}

func TestParseTokens(t *testing.T) {
	hash, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	good := "{name: a, role: read, namespace: default, sha256: " + hash + "}"
	for name, text := range map[string]string{
		"plain token":    `zael_secret`,
		"token as list":  `tokens: zael_secret`,
		"token as entry": `tokens: [zael_secret]`,
		"token as key":   `tokens: [{zael_secret: x}]`,
		"two documents":  "tokens: []\n---\ntokens: [" + good + "]",
		"unknown key":    `tokens: [{nam: a, role: read, namespace: default, sha256: ` + hash + `}]`,
		"unknown top":    "tokens: [" + good + "]\nother: 1",
		"role":           `tokens: [{name: a, role: owner, namespace: default, sha256: ` + hash + `}]`,
		"no role":        `tokens: [{name: a, namespace: default, sha256: ` + hash + `}]`,
		"name":           `tokens: [{name: "", role: read, namespace: default, sha256: ` + hash + `}]`,
		"namespace":      `tokens: [{name: a, role: read, namespace: "_", sha256: ` + hash + `}]`,
		"no namespace":   `tokens: [{name: a, role: read, sha256: ` + hash + `}]`,
		"token itself":   `tokens: [{name: a, role: read, namespace: default, sha256: zael_secret}]`,
		"short hash":     `tokens: [{name: a, role: read, namespace: default, sha256: abcd}]`,
		"name twice":     "tokens: [" + good + ", {name: a, role: read, namespace: default, sha256: " + other + "}]",
		"hash twice":     "tokens: [" + good + ", {name: b, role: read, namespace: default, sha256: " + hash + "}]",
		"too many":       "tokens:\n" + strings.Repeat("- "+good+"\n", maxTokens+1),
		"not a document": "\x00",
	} {
		if got, err := parseTokens([]byte(text)); err == nil {
			t.Errorf("%s: parsed as %v", name, got)
		} else if strings.Contains(err.Error(), "zael_secret") {
			t.Errorf("%s: the error repeats a token: %v", name, err)
		}
	}
	if got, err := parseTokens([]byte("tokens: [" + good + "]")); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
