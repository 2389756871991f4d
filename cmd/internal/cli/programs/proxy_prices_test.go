package programs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProxyChargesCost runs the proxy with prices, and a budget for all models that
// two calls exceed. New prices take effect while it runs.
func TestProxyChargesCost(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":30,"completion_tokens":12}}`)
	}))
	defer upstream.Close()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	prices := file("prices.yaml", `models: {"m*": {input: 1000000, output: 10000000}}`)
	mapping := file("mapping.yaml", `models: {"*": models}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "zae-limiter", "proxy", "--upstream", upstream.URL, "--listen", "127.0.0.1:0",
		"--store", "memory:",
		"--prices", prices, "--mapping", mapping, "-l", "spend:200@month", "-l", "rpm:1000")
	var log bytes.Buffer
	cmd.Stdout = &log
	talk, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	messages := bufio.NewReader(talk)
	say := func(want string) string {
		line, err := messages.ReadString('\n')
		for strings.Contains(line, "above its maximum of 3") || // the answers here are longer than they may be
			strings.Contains(line, "has no price") && !strings.Contains(want, "has no price") { // repeated each second
			line, err = messages.ReadString('\n')
		}
		_, rest, ok := strings.Cut(strings.TrimSpace(line), want)
		if !ok {
			t.Fatalf("it says %q, %v; want %q", line, err, want)
		}
		return rest
	}
	say("loses its data")
	at := say(" on ")
	call := func(key, model string) int {
		body := `{"model":"` + model + `","max_tokens":3}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for i, want := range []int{200, 200, 429} { // at 150, 300, and in debt
		if got := call("test", []string{"m-1", "m-2", "m-1"}[i]); got != want {
			t.Errorf("call %d: status %d, want %d", i+1, got, want)
		}
	}
	if got := call("other", "new"); got != http.StatusInternalServerError {
		t.Errorf("a model without a price: status %d", got)
	}
	say(`invalid model "new": has no price in ` + prices + `; add the model, or a default named "*"`)
	if err := os.WriteFile(prices, []byte(`models: {"*": {input: 0, output: 0, request: 1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	status := http.StatusInternalServerError
	for status == http.StatusInternalServerError && ctx.Err() == nil { // until the file is read again, within a second
		status = call("other", "new")
	}
	if status != http.StatusOK {
		t.Errorf("with new prices: status %d", status)
	}
	say("prices.yaml: the prices were read again")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	checkCosts(t, &log)
}

// checkCosts checks the costs of the calls that were served, in the access log.
func checkCosts(t *testing.T, log io.Reader) {
	t.Helper()
	var costs []int64
	for decoder := json.NewDecoder(log); ; {
		var line struct {
			Outcome string
			Cost    int64 `json:"cost_microdollars"`
		}
		if err := decoder.Decode(&line); err != nil {
			break
		}
		if line.Outcome == "served" {
			costs = append(costs, line.Cost)
		}
	}
	if len(costs) != 3 || costs[0] != 150 || costs[1] != 150 || costs[2] != 1 {
		t.Errorf("costs %v", costs)
	}
}
