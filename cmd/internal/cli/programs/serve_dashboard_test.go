package programs_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
)

// page returns a browser with the dashboard of a server.
func (s *served) page(transport http.RoundTripper) viewer {
	s.t.Helper()
	return newViewer(s.t, s.URL+server.DashboardPath+"/", transport)
}

// dashboardTokens writes a file of tokens, one for each name and role, and returns
// the tokens by name.
func dashboardTokens(t *testing.T, path string, entries ...[3]string) map[string]string {
	t.Helper()
	tokens, text := map[string]string{}, "tokens:\n"
	for _, e := range entries {
		token, hash := server.NewToken()
		tokens[e[0]] = token
		text += fmt.Sprintf("  - {name: %s, sha256: %s, role: %s, namespace: %s}\n", e[0], hash, e[1], e[2])
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// A role decides what the dashboard of a server shows and changes, in the token's
// namespace alone. The session of a revoked token ends, and the streams of others
// do not delay the end of the server.
func TestServeDashboard(t *testing.T) {
	store, dir := serveStore(t), t.TempDir()
	zael(t, "namespace", "register", "tenant-a", "--store", store)
	zael(t, "acquire", "key", "gpt-4", "rpd=1", "--store", store)
	file := filepath.Join(dir, "tokens.yaml")
	tokens := dashboardTokens(t, file, [3]string{"gateway", "acquire", "default"},
		[3]string{"reader", "read", "default"},
		[3]string{"boss", "admin", "default"}, [3]string{"tenant", "admin", "tenant-a"},
		[3]string{"leaver", "read", "default"})
	pool := writeCertificate(t, dir+"/cert.pem", dir+"/key.pem")
	s := startServe(t, store, "--listen", "127.0.0.1:0", "--tokens", file, "--tls-cert", dir+"/cert.pem",
		"--tls-key", dir+"/key.pem",
		"--dashboard", "--dashboard-write", "--max-requests", "2", "--read-timeout", "1s", "--drain-timeout", "20s")
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()

	const change = `{"action":"create_entity","entity":"by-%s"}`
	for _, c := range []struct {
		name                    string
		login, overview, change int
		sees                    bool // the bucket of key
	}{
		{"gateway", http.StatusForbidden, http.StatusUnauthorized, http.StatusUnauthorized, false},
		{"reader", http.StatusOK, http.StatusOK, http.StatusForbidden, true},
		{"boss", http.StatusOK, http.StatusOK, http.StatusOK, true},
		{"tenant", http.StatusOK, http.StatusOK, http.StatusOK, false},
		{"stranger", http.StatusUnauthorized, http.StatusUnauthorized, http.StatusUnauthorized, false},
	} {
		page := s.page(transport)
		if status := page.login(tokens[c.name] + map[bool]string{true: "x"}[c.name == "stranger"]); status != c.login {
			t.Errorf("%s: the token gets status %d, want %d", c.name, status, c.login)
		}
		status, rows := page.call("api/overview", "")
		if status != c.overview || strings.Contains(rows, `"entity":"key"`) != c.sees {
			t.Errorf("%s: the overview: %d %s", c.name, status, rows)
		}
		if status, answer := page.call("api/change", fmt.Sprintf(change, c.name)); status != c.change {
			t.Errorf("%s: a change: %d %s", c.name, status, answer)
		}
	}
	if audit := zael(
		t, "audit", "list", "-e", "by-boss", "-o", "json", "--store", store,
	); !strings.Contains(audit, `"boss"`) {
		t.Errorf("the audit trail: %s", audit)
	}
	if got := zael(
		t, "entity", "list", "--store", store, "--namespace", "tenant-a",
	); !strings.HasPrefix(got, "by-tenant\t") {
		t.Errorf("entities of the tenant: %s", got)
	}

	leaver := s.page(transport)
	leaver.login(tokens["leaver"])
	cut := leaver.stream()
	var kept []viewer
	var watch []string
	for range 5 { // more than --max-requests
		v := s.page(transport)
		v.login(tokens["reader"])
		kept = append(kept, v)
		watch = append(watch, watchBody(t, v.stream()))
	}
	revoke(t, file, "leaver")
	if _, err := io.Copy(io.Discard, cut); err != nil {
		t.Errorf("the stream of a revoked token ends with %v", err)
	}
	if status, answer := leaver.call("api/overview", ""); status != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d %s", status, answer)
	}
	for i, v := range kept { // their streams are older than --read-timeout
		if status, answer := v.call("api/watch", watch[i]); status >= http.StatusMultipleChoices {
			t.Errorf("the stream of another token is gone: %d %s", status, answer)
		}
	}
	begun := time.Now()
	code, said := s.stop()
	if took := time.Since(begun); code != kit.ExitDone || took > 5*time.Second ||
		strings.Contains(said, "still under way") {
		t.Errorf("code %d after %v: %s", code, took, said)
	}
}

// watchBody returns the call that watches a bucket on a stream, whose first event
// follows.
func watchBody(t *testing.T, events *bufio.Reader) string {
	t.Helper()
	line, err := events.ReadString('\n')
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(line)
	if id == nil {
		t.Fatalf("the first event is %q, %v", line, err)
	}
	return fmt.Sprintf(`{"id":%q,"keys":[["key","gpt-4"]]}`, id[1])
}

// revoke removes a token from a file.
func revoke(t *testing.T, file, name string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "name: "+name+",") {
			kept.WriteString(line)
		}
	}
	if err := os.WriteFile(file+".new", []byte(kept.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// Without tokens the dashboard of a server needs no session, as the API does. It
// still refuses the pages of others, and the API refuses all pages.
func TestServeDashboardWithoutTokens(t *testing.T) {
	store := serveStore(t)
	zael(t, "acquire", "key", "gpt-4", "rpd=1", "--store", store)
	s := startServe(t, store, "--listen", "127.0.0.1:0", "--dashboard")
	page := s.page(nil)
	if status, answer := page.call("api/overview", ""); status != http.StatusOK ||
		!strings.Contains(answer, `"entity":"key"`) {
		t.Errorf("the overview: %d %s", status, answer)
	}
	if status, answer := page.call(
		"api/change", `{"action":"create_entity","entity":"new"}`,
	); status != http.StatusForbidden {
		t.Errorf("a change: %d %s", status, answer)
	}
	for _, c := range []struct {
		path, field, value string
		status             int
	}{
		{server.DashboardPath + "/api/overview", "Origin", "http://evil.example", http.StatusForbidden},
		{server.DashboardPath + "/api/overview", "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		{server.DashboardPath + "/api/overview", "Host", "evil.example", http.StatusMisdirectedRequest},
		{"/v1/entities", "Origin", s.URL, http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.field, c.value)
		if c.field == "Host" {
			req.Host = c.value
		}
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s with %s %s: status %d, want %d", c.path, c.field, c.value, res.StatusCode, c.status)
		}
	}
	if code, said := s.stop(); code != kit.ExitDone || !strings.Contains(
		said, "Serving the dashboard at "+s.URL+server.DashboardPath+"/\n",
	) {
		t.Errorf("code %d: %s", code, said)
	}
}
