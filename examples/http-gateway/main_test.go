package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// start builds and runs the program and returns its address.
func start(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "http-gateway.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	command := exec.CommandContext(ctx, program, "-listen", "127.0.0.1:0")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
}

// answer is an answer that was read to its end.
type answer struct {
	http.Response
	body []byte
}

// get sends a request with a key.
func get(t *testing.T, url, key string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
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
	return answer{*resp, body}
}

// TestAsANewUser follows the README.
func TestAsANewUser(t *testing.T) {
	url := start(t)
	for i := range 5 {
		resp := get(t, url, "key-1")
		if resp.StatusCode != http.StatusOK || string(resp.body) != "hello\n" {
			t.Fatalf("answer %d: %s %q", i, resp.Status, resp.body)
		}
		member := state(t, resp)
		if r, _ := member.Params.Get("r"); r != int64(4-i) {
			t.Errorf("answer %d: r = %v, want %d", i, r, 4-i)
		}
	}
	resp := get(t, url, "key-1")
	var problem struct {
		Type     string   `json:"type"`
		Status   int      `json:"status"`
		Violated []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(resp.body, &problem); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusTooManyRequests || problem.Status != 429 || len(problem.Violated) != 1 ||
		problem.Violated[0] != "rpm" {
		t.Errorf("the sixth answer: %s %s", resp.Status, resp.body)
	}
	wait, _ := state(t, resp).Params.Get("t")
	if got := resp.Header.Get("Retry-After"); got != strconv.Itoa(int(wait.(int64))) {
		t.Errorf("Retry-After %s, t = %v", got, wait)
	}
	if resp := get(t, url, "key-2"); resp.StatusCode != http.StatusOK {
		t.Errorf("another key: %s", resp.Status)
	}
	if resp := get(t, url, ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("no key: %s", resp.Status)
	}
}

// state returns the member of RateLimit.
func state(t *testing.T, resp answer) httpsfv.Item {
	t.Helper()
	list, err := httpsfv.UnmarshalList(resp.Header.Values("RateLimit"))
	if err != nil || len(list) != 1 {
		t.Fatalf("RateLimit %q: %v", resp.Header.Values("RateLimit"), err)
	}
	return list[0].(httpsfv.Item)
}
