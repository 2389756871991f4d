package programs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestProxy runs the program as a user would, calls it, and ends it with a signal
// while a stream is under way.
func TestProxy(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	streaming := make(chan bool)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":30,"completion_tokens":12}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		streaming <- true
		<-r.Context().Done()
	}))
	defer upstream.Close()
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	zael := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "zae-limiter", append(args, "--store", store)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	zael("resource", "set-defaults", "gpt-4", "-l", "rpm:100/day", "-l", "tpm:100000/day")
	cmd := exec.CommandContext(t.Context(), "zae-limiter", "proxy", "--upstream", upstream.URL, "--listen",
		"127.0.0.1:0", "--store", store, "--drain-timeout", "2s")
	log, _ := cmd.StdoutPipe()
	talk, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	messages := bufio.NewReader(talk)
	line, err := messages.ReadString('\n')
	_, at, ok := strings.Cut(strings.TrimSpace(line), " on ")
	if !ok {
		t.Fatalf("it says %q, %v", line, err)
	}
	call := func(body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, at+"/v1/chat/completions",
			strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer test")
		return http.DefaultClient.Do(req)
	}
	resp, err := call(`{"model":"gpt-4","messages":[]}`)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
	resp, err = call(`{"model":"gpt-4","stream":true,"max_tokens":1000}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-streaming
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the client takes the cut stream for a whole one")
	}
	checkProxyLog(t, log)
	rest, _ := io.ReadAll(messages)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the proxy ended with %v: %s", err, rest)
	}
	if got := zael("entity", "buckets", "9f86d081884c7d65"); !strings.Contains(got, "\trpm\t98.") ||
		!strings.Contains(got, "\ttpm\t989") {
		t.Errorf("buckets %s; want 98 of rpm and 100000 - 42 - 1000 of tpm", got)
	}
}

// checkProxyLog checks the two lines of the access log.
func checkProxyLog(t *testing.T, log io.Reader) {
	t.Helper()
	decoder := json.NewDecoder(log)
	for _, want := range []string{"served", "cut"} {
		var line struct {
			Outcome, Entity, Model string
			Status                 int
		}
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Outcome != want || line.Entity != "9f86d081884c7d65" || line.Model != "gpt-4" ||
			line.Status != http.StatusOK {
			t.Errorf("log %+v, want %s", line, want)
		}
	}
}
