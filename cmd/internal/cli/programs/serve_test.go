package programs_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
)

// served is the program as a server.
type served struct {
	t      *testing.T
	cmd    *exec.Cmd
	client *http.Client
	token  string
	URL    string
	mu     sync.Mutex
	said   strings.Builder // all of stderr
	lines  chan string
	ended  chan struct{}
}

// startServe starts the program and waits for its address.
func startServe(t *testing.T, store string, args ...string) *served {
	t.Helper()
	s := &served{
		t: t, client: &http.Client{Timeout: 30 * time.Second}, lines: make(chan string, 100),
		ended: make(chan struct{}),
	}
	s.cmd = exec.CommandContext(t.Context(), "zae-limiter", append([]string{"serve", "--store", store}, args...)...)
	messages, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		for scan := bufio.NewScanner(messages); scan.Scan(); {
			s.mu.Lock()
			s.said.WriteString(scan.Text() + "\n")
			s.mu.Unlock()
			s.lines <- scan.Text()
		}
	}()
	s.URL = regexp.MustCompile(`https?://\S+`).FindString(s.await("Serving http"))
	return s
}

// await returns the next line of stderr that contains text.
func (s *served) await(text string) string {
	s.t.Helper()
	for {
		select {
		case line := <-s.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-s.ended:
			s.t.Fatalf("the program ended without saying %q: %s", text, s.said.String())
		case <-time.After(time.Minute):
			s.t.Fatalf("the program does not say %q: %s", text, s.said.String())
		}
	}
}

// stop sends a signal, and returns the exit code and all messages.
func (s *served) stop() (int, string) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	<-s.ended
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode(), s.said.String()
}

// call sends a request, a POST if there is a body, and decodes the answer.
func (s *served) call(path, body string, into any) int {
	s.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	return res.StatusCode
}

// zael runs a command and returns its output.
func zael(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "zae-limiter", args...).Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

func serveStore(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	zael(t, "resource", "set-defaults", "gpt-4", "-l", "rpd:1000/day", "-l", "tpd:100000/day", "--store", store)
	return store
}

// The server settles what its clients left when it receives a signal, and ends well.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--escrow"}} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			store := serveStore(t)
			s := startServe(t, store,
				append(args, "--listen", "127.0.0.1:0", "--drain-timeout", "2s", "--metrics-listen", "127.0.0.1:0")...)
			var lease struct {
				ID string `json:"lease_id"`
			}
			const acquire = `{"entity_id":"key","resource":"gpt-4","consume":{"rpd":1,"tpd":500}}`
			for range 20 {
				if status := s.call("/v1/acquire", acquire, &lease); status != http.StatusOK {
					t.Fatalf("status %d", status)
				}
			}
			var done map[string]any
			if status := s.call(
				"/v1/leases/"+lease.ID+"/adjust", `{"used":{"tpd":800}}`, &done,
			); status != http.StatusOK {
				t.Fatalf("status %d: %v", status, done)
			}
			metrics := s.await("/metrics")
			s.URL = strings.TrimSuffix(regexp.MustCompile(`http://\S+`).FindString(metrics), "/metrics")
			if text := s.text("/metrics"); !strings.Contains(text, "zae_limiter_server_leases 20\n") {
				t.Errorf("metrics:\n%s", text)
			}
			code, said := s.stop()
			if code != kit.ExitDone || !strings.Contains(said, "Draining: 20 leases open") ||
				strings.Contains(said, "!") {
				t.Errorf("code %d: %s", code, said)
			}
			want := "gpt-4\trpd\t980\t1000\t1000/day\tresource\ngpt-4\ttpd\t89700\t100000\t100000/day\tresource\n"
			got := regexp.MustCompile(`\.\d+`).ReplaceAllString(zael(t, "entity", "buckets", "key", "--store", store),
				"")
			if !strings.HasPrefix(got, "gpt-4\trpd\t980\t") ||
				!regexp.MustCompile(`\ttpd\t897\d\d\t`).MatchString(got) {
				t.Errorf("left are\n%swant\n%s", got, want)
			}
		})
	}
}

// A collector that hangs delays the end no longer than the drain time, and makes
// no failure of it.
func TestServeEndsWithoutItsCollector(t *testing.T) {
	hang := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer collector.Close()
	defer close(hang)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	s := startServe(t, serveStore(t), "--listen", "127.0.0.1:0", "--drain-timeout", "500ms")
	var answer map[string]any
	if status := s.call(
		"/v1/acquire", `{"entity_id":"key","resource":"gpt-4","consume":{"rpd":1},"commit":true}`, &answer,
	); status != http.StatusOK {
		t.Fatalf("status %d: %v", status, answer)
	}
	code, said := s.stop()
	if code != kit.ExitDone || !strings.Contains(said, `"msg":"not all telemetry was sent"`) {
		t.Errorf("code %d: %s", code, said)
	}
}

// text returns the body of a GET.
func (s *served) text(path string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// writeCertificate writes a certificate of 127.0.0.1 and its key, and returns a
// pool with it.
func writeCertificate(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// With tokens and TLS the server may listen on all addresses. It follows the file
// of tokens, and never shows a token.
func TestServeWithTokensAndTLS(t *testing.T) {
	t.Parallel()
	store, dir := serveStore(t), t.TempDir()
	token, hash := server.NewToken()
	tokens := filepath.Join(dir, "tokens.yaml")
	entry := "tokens:\n  - {name: gateway, sha256: " + hash + ", role: %s, namespace: default}\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf(entry, "acquire"))
	pool := writeCertificate(t, dir+"/cert.pem", dir+"/key.pem")
	config := filepath.Join(dir, "serve.yaml")
	settings := fmt.Sprintf(
		"listen: 0.0.0.0:0\ntokens: %s\ntls_cert: %s/cert.pem\ntls_key: %s/key.pem\nallowed_host: "+
			"[a.example, b.example]\n",
		tokens, dir, dir,
	)
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, store, "--config", config)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}
	s.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	s.URL = "https://127.0.0.1:" + port
	const acquire = `{"entity_id":"key","resource":"gpt-4","consume":{"rpd":1},"commit":true}`
	var answer map[string]any
	if status := s.call("/v1/acquire", acquire, &answer); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %v", status, answer)
	}
	s.token = token
	if status := s.call("/v1/acquire", acquire, &answer); status != http.StatusOK {
		t.Errorf("with a token: %d %v", status, answer)
	}
	awaitStatus := func(want int) {
		t.Helper()
		deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for s.call("/v1/leases/none/commit", `{}`, &answer) != want {
			if deadline.Err() != nil {
				t.Fatalf("the status does not become %d: %v", want, answer)
			}
		}
	}
	write("tokens: broken")
	for line := ""; !strings.Contains(line, "the tokens stay as they were"); {
		awaitStatus(http.StatusGone)
		select {
		case line = <-s.lines:
		default:
		}
	}
	write(fmt.Sprintf(entry, "read"))
	awaitStatus(http.StatusForbidden)
	transport.CloseIdleConnections()
	code, said := s.stop()
	if code != kit.ExitDone || strings.Contains(said, token) || strings.Contains(said, hash) {
		t.Errorf("code %d: %s", code, said)
	}
}

// A server without calls reports changes of its rules and certificates, and a
// mistake in them. The port of gRPC has the renewed certificate.
func TestServeFollowsItsFiles(t *testing.T) {
	store, dir := serveStore(t), t.TempDir()
	write := func(rules string) {
		t.Helper()
		if err := os.WriteFile(dir+"/rules.yaml", []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules: [{answer: allow}]")
	first := writeCertificate(t, dir+"/cert.pem", dir+"/key.pem")
	s := startServe(t, store, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--rules", dir+"/rules.yaml",
		"--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem")
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(s.await("rate limit service"))
	trusts := func(pool *x509.CertPool) bool {
		dialer := tls.Dialer{Config: &tls.Config{
			RootCAs: pool, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		}}
		conn, err := dialer.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}

	write("rules: [{answer: refuse}]")
	s.await("Read the rules again")
	write("rules: broken")
	s.await("the rules stay as they were")

	if !trusts(first) || trusts(x509.NewCertPool()) {
		t.Error("the first certificate is not the one in use")
	}
	renewed := writeCertificate(t, dir+"/cert.pem", dir+"/key.pem")
	s.await("Read the certificates again")
	if !trusts(renewed) || trusts(first) {
		t.Error("the renewed certificate is not the one in use")
	}

	if code, said := s.stop(); code != kit.ExitDone {
		t.Errorf("code %d: %s", code, said)
	}
}

// The reads of the server are the reads of the command line.
func TestServeAnswersAsTheCommands(t *testing.T) {
	t.Parallel()
	store := serveStore(t)
	zael(t, "entity", "create", "team", "--store", store)
	zael(t, "entity", "create", "key", "--parent", "team", "--cascade", "--metadata", "a=b", "--store", store)
	zael(t, "entity", "set-limits", "key", "-r", "gpt-5", "-l", "rpd:7/day", "--store", store)
	zael(t, "system", "set-defaults", "-l", "rpd:9/day", "--on-unavailable", "block", "--store", store)
	zael(t, "acquire", "key", "gpt-4", "rpd=1", "--store", store)
	s := startServe(t, store, "--listen", "127.0.0.1:0")
	for path, args := range map[string]string{
		"/v1/entities":                                "entity list",
		"/v1/entities/key":                            "entity show key",
		"/v1/entities/team/children":                  "entity children team",
		"/v1/entities/key/limits?resource=gpt-5":      "entity get-limits key -r gpt-5",
		"/v1/limited-entities?resource=gpt-5":         "entity list --with-custom-limits gpt-5",
		"/v1/limited-resources":                       "entity list-resources",
		"/v1/resources":                               "resource list",
		"/v1/resources/gpt-4/limits":                  "resource get-defaults gpt-4",
		"/v1/system/limits":                           "system get-defaults",
		"/v1/namespaces":                              "namespace list",
		"/v1/usage?window=daily":                      "usage list --window daily",
		"/v1/usage/summary?entity_id=key":             "usage summary -e key",
		"/v1/audit?entity_id=key":                     "audit list -e key",
		"/v1/audit?entity_id=%24RESOURCE%3Agpt-4":     "audit list -r gpt-4",
		"/v1/entities/key/buckets":                    "entity buckets key",
		"/v1/entities/key/status":                     "entity status key",
		"/v1/resources/gpt-4/capacity?limit_name=rpd": "resource capacity gpt-4 rpd",
	} {
		var got, want any
		if status := s.call(path, "", &got); status != http.StatusOK {
			t.Errorf("%s: %d %v", path, status, got)
			continue
		}
		if err := json.Unmarshal(
			[]byte(zael(t, append(strings.Fields(args), "-o", "json", "--store", store)...)), &want,
		); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(settled(want), settled(got)); diff != "" {
			t.Errorf("%s and %s (-command +server):\n%s", args, path, diff)
		}
	}
	if code, said := s.stop(); code != kit.ExitDone {
		t.Errorf("code %d: %s", code, said)
	}
}

// settled removes the values that change with time.
func settled(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = settled(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = settled(v[key])
		}
		for _, key := range []string{"tokens", "full_after_seconds", "available", "used"} {
			if _, ok := v[key].(float64); ok {
				v[key] = "number"
			}
		}
	}
	return v
}
