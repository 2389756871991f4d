package programs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

const (
	attackBudget   = 5_000_000 // millionths of a dollar
	unboundedReply = 66_667    // tokens of an answer without a maximum, which cost a dollar
	attackContext  = 128_000
	attackPrices   = `models: {m: {input: $1, output: $15, context: 128000}}`
)

// paidAPI generates as much as a request lets it, and counts what that costs.
type paidAPI struct {
	decided chan struct{} // receives a value for each call that arrives

	mu      sync.Mutex
	release chan struct{} // closed when calls may end
	cost    int64
	largest int64 // the cost of the dearest call
	calls   int
}

// hold makes the API wait with its answers until the result is closed.
func (a *paidAPI) hold() chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.release = make(chan struct{})
	return a.release
}

// bill returns the tokens of a call, and adds their cost.
func (a *paidAPI) bill(body []byte, text map[string]any) (input, output int64) {
	number := func(names ...string) (int64, bool) {
		for _, name := range names {
			if n, ok := text[name].(float64); ok {
				return int64(n), true
			}
		}
		return 0, false
	}
	output, set := number("max_tokens", "max_completion_tokens", "max_output_tokens")
	if !set || output < 1 {
		output = unboundedReply
	}
	choices, _ := number("best_of", "n")
	output *= max(choices, 1)
	const other = 40 // bytes of names, also of the maximum that the proxy writes
	input = int64(max(0, len(body)-other) / 3)
	if strings.Contains(string(body), "https://") || text["previous_response_id"] != nil {
		input = attackContext
	}
	cost := input + 15*output
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	a.cost += cost
	a.largest = max(a.largest, cost)
	return input, output
}

func (a *paidAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var text map[string]any
	if err := json.Unmarshal(body, &text); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	input, output := a.bill(body, text)
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, input, output)
	a.mu.Lock()
	release := a.release
	a.mu.Unlock()
	switch {
	case text["background"] == true:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"queued","usage":null}`)
		a.decided <- struct{}{}
	case text["stream"] == true:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		a.decided <- struct{}{}
		<-release
		_, _ = io.WriteString(w, `data: {"choices":[],"usage":`+usage+"}\n\ndata: [DONE]\n\n")
	default:
		a.decided <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":`+usage+`}`)
	}
}

// attack is one client with one key against a proxy with a budget.
type attack struct {
	t     *testing.T
	api   *paidAPI
	cmd   *exec.Cmd
	at    string
	store string
}

func startAttack(t *testing.T, flags ...string) *attack {
	t.Helper()
	a := &attack{
		t: t, api: &paidAPI{decided: make(chan struct{}, 10_000)},
		store: filepath.Join(t.TempDir(), "limits.db"),
	}
	upstream := httptest.NewServer(a.api)
	t.Cleanup(upstream.Close)
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte(attackPrices), 0o600); err != nil {
		t.Fatal(err)
	}
	a.withLimits(func(lim *limiter.RateLimiter) {
		if err := lim.SetResourceDefaults(
			t.Context(), "m", limiter.Quota("spend", attackBudget, limiter.EveryMonth),
		); err != nil {
			t.Fatal(err)
		}
	})
	args := append([]string{
		"proxy", "--upstream", upstream.URL, "--listen", "127.0.0.1:0", "--store", "sqlite:" + a.store, "--prices",
		prices, "--drain-timeout", "1m",
	}, flags...)
	a.cmd = exec.CommandContext(t.Context(), "zae-limiter", args...)
	talk, _ := a.cmd.StderrPipe()
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	messages := bufio.NewReader(talk)
	line, err := messages.ReadString('\n')
	var ok bool
	if _, a.at, ok = strings.Cut(strings.TrimSpace(line), " on "); !ok {
		t.Fatalf("it says %q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, messages) }()
	return a
}

// withLimits opens the store, which the proxy does not use meanwhile.
func (a *attack) withLimits(use func(*limiter.RateLimiter)) {
	a.t.Helper()
	repo, err := sqlite.Open(a.t.Context(), a.store, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer repo.Close()
	lim, err := limiter.New(repo, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	use(lim)
}

// call sends a body, and returns the status of the answer, or 0 if it left.
func (a *attack) call(ctx context.Context, path, body string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.at+path, strings.NewReader(body))
	if err != nil {
		a.t.Error(err)
		return 0
	}
	req.Header.Set("Authorization", "Bearer test")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// flood sends n calls at once. When the API or the proxy has decided about each,
// the clients leave, if they do, and the API answers. It returns how many were
// admitted.
func (a *attack) flood(n int, path, body string, leave bool) (admitted int) {
	release := a.api.hold()
	ctx, cancel := context.WithCancel(a.t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if status := a.call(ctx, path, body); status >= 300 {
				a.api.decided <- struct{}{}
			}
		})
	}
	before := a.api.count()
	for range n {
		<-a.api.decided
	}
	if leave {
		cancel()
		all.Wait()
	}
	close(release)
	all.Wait()
	return a.api.count() - before
}

func (a *paidAPI) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

// check ends the proxy, and compares what the calls cost with the budget and with
// what the store says.
func (a *attack) check() {
	a.t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		a.t.Fatal(err)
	}
	if err := a.cmd.Wait(); err != nil {
		a.t.Error(err)
	}
	var spent int64
	a.withLimits(func(lim *limiter.RateLimiter) {
		left, err := lim.Available(a.t.Context(), "9f86d081884c7d65", "m")
		if err != nil {
			a.t.Fatal(err)
		}
		spent = attackBudget - left.Get("spend")
	})
	a.t.Logf("%d calls cost $%.4f of $%.2f, and $%.4f are charged", a.api.calls, float64(a.api.cost)/1e6,
		attackBudget/1e6, float64(spent)/1e6)
	if a.api.calls == 0 || a.api.cost > attackBudget+a.api.largest {
		a.t.Errorf("%d calls cost %d of a budget of %d", a.api.calls, a.api.cost, attackBudget)
	}
	if spent < a.api.cost {
		a.t.Errorf("%d are charged for calls that cost %d", spent, a.api.cost)
	}
}

// TestBudgetHolds attacks the program with one key: no flood of calls costs more
// than the budget and one call, whatever the calls say or leave out.
func TestBudgetHolds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	if testing.Short() {
		t.Skip("hundreds of calls")
	}
	const chat, text, responses = "/v1/chat/completions", "/v1/completions", "/v1/responses"
	long := strings.Repeat("word ", 20_000)
	for name, tc := range map[string]struct {
		path, body string
		calls      int
		leave      bool
		flags      []string
	}{
		"no maximum": {path: chat, body: `{"model":"m"}`, calls: 300},
		"no maximum, kept": {
			path: chat, body: `{"model":"m"}`, calls: 300, flags: []string{"--max-tokens-rewrite", "off"},
		},
		"no maximum, escrow": {path: chat, body: `{"model":"m"}`, calls: 300, flags: []string{"--escrow"}},
		"new field": {
			path: chat, body: `{"model":"m"}`, calls: 300,
			flags: []string{"--max-tokens-rewrite", "max_completion_tokens"},
		},
		"large maximum":   {path: chat, body: `{"model":"m","max_tokens":60000}`, calls: 300},
		"huge maximum":    {path: chat, body: `{"model":"m","max_tokens":5000000000}`, calls: 30},
		"lifted maximum":  {path: chat, body: `{"model":"m","max_tokens":-1}`, calls: 300},
		"escaped maximum": {path: chat, body: `{"model":"m","m\u0061x_tokens":0}`, calls: 300},
		"null maximum": {
			path: chat, body: `{"model":"m","max_tokens":null,"max_completion_tokens":null}`, calls: 300,
		},
		"two maxima": {
			path: chat, body: `{"model":"m","max_completion_tokens":1,"max_tokens":60000}`, calls: 300,
		},
		"n":                  {path: chat, body: `{"model":"m","n":128}`, calls: 300},
		"n with an exponent": {path: chat, body: `{"model":"m","n":1.28e2,"max_tokens":500}`, calls: 300},
		"best_of":            {path: text, body: `{"model":"m","prompt":"x","n":1,"best_of":64}`, calls: 300},
		"leaving":            {path: chat, body: `{"model":"m"}`, calls: 200, leave: true},
		"leaving, cut": {
			path: chat, body: `{"model":"m"}`, calls: 200, leave: true,
			flags: []string{"--follow-timeout", "0s"},
		},
		"leaving a stream": {path: chat, body: `{"model":"m","stream":true}`, calls: 200, leave: true},
		"stream, cut": {
			path: chat, body: `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, calls: 200,
			leave: true, flags: []string{"--follow-timeout", "0s"},
		},
		"background": {path: responses, body: `{"model":"m","background":true,"input":"x"}`, calls: 200},
		"previous_response_id": {
			path: responses, body: `{"model":"m","previous_response_id":"resp_1","max_output_tokens":1}`,
			calls: 300,
		},
		"image by URL": {
			path: chat, calls: 300,
			body: `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":` +
				`[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]}]}`,
		},
		"tool output": {
			path: chat, calls: 300,
			body: `{"model":"m","max_tokens":1,"messages":[{"role":"tool","content":"` + long + `"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startAttack(t, tc.flags...)
			for range 40 { // tiny calls, which teach the proxy that answers are short
				a.flood(1, chat, `{"model":"m","max_tokens":1}`, false)
			}
			for range 3 {
				a.flood(tc.calls/3, tc.path, tc.body, tc.leave)
			}
			a.check()
		})
	}
}

// TestBudgetIsSharedByParallelCalls checks that calls without a maximum get shorter
// answers instead of refusals.
func TestBudgetIsSharedByParallelCalls(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	a := startAttack(t)
	if admitted := a.flood(60, "/v1/chat/completions", `{"model":"m"}`, false); admitted < 30 {
		t.Errorf("%d of 60 calls were admitted", admitted)
	}
	a.check()
}
