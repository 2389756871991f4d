package envoy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/engine"
	"github.com/zeroae/zae-limiter-go/internal/engine/envoy"
)

// build builds the program of the root module.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "zae-limiter")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/zae-limiter")
	command.Dir = filepath.Join("..", "..")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// serve starts the server and returns the address of its rate limit service. The
// server must end well when the test does.
func serve(t *testing.T, program, store string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	command := exec.CommandContext(ctx, program, "serve", "--store", store, "--listen", "127.0.0.1:0",
		"--grpc-listen", "127.0.0.1:0", "--rules", "rules.yaml")
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	t.Cleanup(func() {
		defer cancel()
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		for lines.Scan() {
			t.Log(lines.Text())
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "rate limit service on "); ok {
			return addr
		}
		t.Log(lines.Text())
	}
	t.Fatal("the server names no address")
	return ""
}

// configure returns envoy.yaml with addresses of this machine.
func configure(t *testing.T, upstream, limits string) string {
	t.Helper()
	text, err := os.ReadFile("envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for old, addr := range map[string]string{
		"address: 0.0.0.0, port_value: 8080":     "127.0.0.1:0",
		"address: upstream, port_value: 80}":     upstream,
		"address: zae-limiter, port_value: 8081": limits,
	} {
		if strings.Count(config, old) != 1 {
			t.Fatalf("envoy.yaml does not have %q once", old)
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		fresh := "address: " + host + ", port_value: " + port
		if strings.HasSuffix(old, "}") {
			fresh += "}"
		}
		config = strings.Replace(config, old, fresh, 1)
	}
	return config
}

// answer is an answer that was read to its end.
type answer struct {
	code       int
	retryAfter string
	body       string
}

// get sends a request with a key.
func get(t *testing.T, addr, key string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Retry-After"), string(body)}
}

// untilRefused sends requests until one is refused, and returns how many were
// admitted before it.
func untilRefused(t *testing.T, addr, key string) (admitted int, refusal answer) {
	t.Helper()
	for admitted = range 100 {
		switch got := get(t, addr, key); got.code {
		case http.StatusOK:
		case http.StatusTooManyRequests:
			return admitted, got
		default:
			t.Fatalf("%+v", got)
		}
	}
	t.Fatal("100 requests were admitted")
	return 0, answer{}
}

// seconds returns how long a refused client has to wait.
func seconds(t *testing.T, refusal answer) int {
	t.Helper()
	n, err := strconv.Atoi(refusal.retryAfter)
	if err != nil {
		t.Fatalf("%v: %+v", err, refusal)
	}
	return n
}

// TestAsANewUser follows the README.
func TestAsANewUser(t *testing.T) {
	program, store := build(t), "sqlite:"+filepath.Join(t.TempDir(), "limits.db")
	if out, err := exec.CommandContext(
		t.Context(), program, "limits", "apply", "limits.yaml", "--store", store, "--yes",
	).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") == "downloads" {
			_, _ = io.WriteString(w, strings.Repeat("x", 6000))
		}
	}))
	defer upstream.Close()
	server, err := envoy.Start(configure(t, upstream.Listener.Addr().String(), serve(t, program, store)))
	engine.Require(t, err)
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()

	admitted, refusal := untilRefused(t, server.Addr("front"), "requests")
	if admitted < 20 || refusal.retryAfter == "" || !strings.Contains(refusal.body, `"violated-policies":["rpm"]`) {
		t.Errorf("%d admitted, then %+v", admitted, refusal)
	}
	admitted, refusal = untilRefused(t, server.Addr("front"), "downloads")
	if admitted < 1 || admitted >= 20 || !strings.Contains(refusal.body, `"violated-policies":["bytes"]`) {
		t.Errorf("%d downloads, then %+v", admitted, refusal)
	}
	// A refusal costs nothing: after a hundred of them the key owes what was
	// downloaded, with at most 500 bytes of headers each. The bodies of the refusals
	// have 200 bytes or more, 20,000 together. Envoy charges a download after its
	// answer, so one that was admitted may be charged while the key polls.
	for range 100 {
		var more int
		more, refusal = untilRefused(t, server.Addr("front"), "downloads")
		admitted += more
	}
	const secondsPerByte = 3600.0 / 5000
	if got, most := seconds(t, refusal), int(float64(admitted*6500-5000)*secondsPerByte); got > most {
		t.Errorf("after %d downloads and 100 refusals, a client has to wait %d s, want at most %d s", admitted, got,
			most)
	}
	// Envoy would admit all if the call failed
	for name, key := range map[string]string{"not UTF-8": "k\xff\xfey", "long": strings.Repeat("k", 50_000)} {
		if admitted, refusal = untilRefused(t, server.Addr("front"), key); admitted < 20 ||
			!strings.Contains(refusal.body, `"violated-policies":["rpm"]`) {
			t.Errorf("a key that is %s: %d admitted, then %+v", name, admitted, refusal)
		}
	}
}

// TestComposeNamesFilesThatExist checks what can be checked without Docker.
func TestComposeNamesFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Volumes []string `yaml:"volumes"`
			Build   struct {
				Context string `yaml:"context"`
			} `yaml:"build"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	mounts := 0
	for name, service := range file.Services {
		for _, volume := range service.Volumes {
			if source, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(source, "./") {
				mounts++
				if _, err := os.Stat(source); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if service.Build.Context != "" {
			if _, err := os.Stat(filepath.Join(service.Build.Context, "Dockerfile")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if len(file.Services) != 4 || mounts != 3 {
		t.Errorf("%d services with %d files", len(file.Services), mounts)
	}
}
