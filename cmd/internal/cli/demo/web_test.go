package demo_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/demo"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// The web demo prints its URL, answers, is loaded by the load test, and ends with
// Ctrl-C, also while streams are open. It leaves no file.
func TestWebDemo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "zae-limiter", "demo", "--web", "--listen", "127.0.0.1:0",
		"--no-browser", "--seed", "1")
	cmd.Env = append(os.Environ(), "TMPDIR="+folder)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, _ := lines.ReadString('\n')
	match := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+/)dashboard/\n$`).FindStringSubmatch(line)
	if match == nil {
		_ = cmd.Wait()
		t.Fatalf("it prints %q: %s", line, &talk)
	}
	base := match[1]
	for path, want := range map[string]string{
		"": "<title>zae-limiter demo</title>", "health": `{"status":"healthy"}`,
		"dashboard/":         "<title>zae-limiter</title>",
		"dashboard/api/info": `"kind":"demo"`, "api/limits/key-alice": `"capacity":3000`,
	} {
		if got := getBody(t, base+path); !strings.Contains(got, want) {
			t.Errorf("/%s: %s", path, got)
		}
	}
	if got := getBody(t, base); !strings.Contains(got, "--url "+strings.TrimSuffix(base, "/")+"<") {
		t.Errorf("the first page does not show its address: %s", got)
	}
	useless := exec.CommandContext(t.Context(), "zae-limiter", "loadtest", "local", "--url", base, "--api-keys",
		"wrong", "--duration", "50ms")
	figures, err := useless.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != kit.ExitFailed ||
		!strings.Contains(string(figures), "ok\t0\n") ||
		!regexp.MustCompile(
			`(?m)^! \d+ calls? failed: status 401\nzae-limiter: no call succeeded or was refused with status 429: status 401\n$`,
		).Match(exit.Stderr) {
		t.Errorf("load test with a wrong key: %v, %s", err, figures)
	}
	load := exec.CommandContext(t.Context(), "zae-limiter", "loadtest", "local", "--url", base, "--duration",
		"500ms", "--users", "2", "--delay", "0s", "--max-tokens", "50", "--json")
	report, err := load.Output()
	if err != nil || !regexp.MustCompile(
		`^\{"url":"http://[^"]+","users":2,.*"ok":[1-9][0-9]*,.*"total_failures":0,"cancelled":0,"total_tokens":[1-9]`,
	).Match(report) {
		t.Errorf("load test: %s, %v", report, err)
	}
	for _, path := range []string{"api/dashboard/stream", "dashboard/api/stream"} {
		stream := openStream(t, base+path)
		t.Cleanup(func() { _ = stream.Close() })
	}
	begun := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(lines)
	if err := cmd.Wait(); err != nil || len(rest) > 0 || time.Since(begun) > demo.WebDemoDrain {
		t.Errorf("after %v: %v, %q", time.Since(begun), err, rest)
	}
	if want := "The demo runs on sqlite (temporary file); Ctrl-C stops it.\n"; talk.String() != want {
		t.Errorf("it says %q", &talk)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

// getBody returns the body of a successful answer.
func getBody(t *testing.T, url string) string {
	t.Helper()
	body := openStream(t, url)
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	_ = body.Close()
	return string(text)
}

// openStream returns the body of a successful answer that has begun.
func openStream(t *testing.T, url string) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", url, resp.Status)
	}
	return resp.Body
}

func TestWebDemoAddressInUse(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	var out, talk bytes.Buffer
	c := kit.NewConsole(strings.NewReader(""), &out, &talk)
	at := taken.Addr().String()
	if code := cli.Run(
		t.Context(), c, []string{"demo", "--web", "--listen", at},
	); code != kit.ExitFailed || out.Len() > 0 || !strings.HasPrefix(
		talk.String(), "zae-limiter: --listen "+at+": the address is in use",
	) {
		t.Errorf("code %d: %s%s", code, &out, &talk)
	}
}
