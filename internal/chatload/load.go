// Package chatload loads a chat API over HTTP, as a few clients with one API key
// each would.
package chatload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// Options configures New. All fields but MaxTokens are required.
type Options struct {
	URL       *url.URL      // of the server; the path of chat completions follows
	Keys      []string      // API keys, which the calls use in turn
	Model     string        // of every call
	Workers   int           // calls at a time
	Duration  time.Duration // no call starts later
	Delay     time.Duration // of a worker between two calls
	MaxTokens int           // of every call; default: the server's
}

// Result counts the calls of a load test.
type Result struct {
	OK, Refused, Failed int64            // calls with status 200, status 429, and all others
	Tokens              int64            // total_tokens of the calls with status 200
	Elapsed             time.Duration    // until the last call ended
	Failures            map[string]int64 // failed calls by cause
}

// Calls returns the number of calls that ended.
func (r Result) Calls() int64 { return r.OK + r.Refused + r.Failed }

// PerSecond returns n by the time of the test.
func (r Result) PerSecond(n int64) float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(n) / r.Elapsed.Seconds()
}

// callTimeout bounds one call.
const callTimeout = 30 * time.Second

// ErrUnreachable is wrapped by the error of Run if no call got an answer.
var ErrUnreachable = errors.New("no call got an answer")

// Test is a load test. It is safe for concurrent use.
type Test struct {
	opts    *Options
	begun   time.Time
	client  *http.Client
	next    atomic.Int64 // index of the key of the next call
	answers atomic.Int64 // calls with an answer of any kind

	mu       sync.Mutex
	counts   Result
	failures map[string]int64
}

// New returns a test, whose time begins.
func New(opts *Options) *Test {
	return &Test{opts: opts, begun: time.Now(), failures: map[string]int64{}, client: &http.Client{
		Timeout: callTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: opts.Workers},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Run makes calls until Options.Duration has passed or ctx ends, and returns what it
// counted. A call under way when ctx ends is not counted. Run ends at once if the
// first call gets no answer.
func (t *Test) Run(ctx context.Context) (Result, error) {
	defer t.client.CloseIdleConnections()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	for range t.opts.Workers {
		workers.Go(func() { t.work(ctx, stop) })
	}
	workers.Wait()
	r := t.Result()
	if r.Calls() > 0 && t.answers.Load() == 0 {
		return r, fmt.Errorf("%w: %s", ErrUnreachable, slices.Sorted(maps.Keys(r.Failures))[0])
	}
	return r, nil
}

// work makes calls one after the other. It stops the test if no server answers.
func (t *Test) work(ctx context.Context, stop func()) {
	for ctx.Err() == nil && time.Since(t.begun) < t.opts.Duration {
		key := t.opts.Keys[int(t.next.Add(1)-1)%len(t.opts.Keys)]
		status, tokens, err := t.call(ctx, key)
		if ctx.Err() != nil {
			return
		}
		t.count(status, tokens, err)
		if err != nil && t.answers.Load() == 0 {
			stop()
		}
		left := t.opts.Duration - time.Since(t.begun)
		if pause.For(ctx, min(t.opts.Delay, left)) != nil {
			return
		}
	}
}

// call makes one call and returns its status and tokens.
func (t *Test) call(ctx context.Context, key string) (status int, tokens int64, err error) {
	body, err := json.Marshal(struct {
		Model     string              `json:"model"`
		Messages  []map[string]string `json:"messages"`
		MaxTokens int                 `json:"max_tokens,omitempty"`
	}{t.opts.Model, []map[string]string{{"role": "user", "content": "How does a token bucket work?"}}, t.opts.MaxTokens})
	if err != nil {
		return 0, 0, err
	}
	target := t.opts.URL.JoinPath("v1", "chat", "completions").String()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", key)
	resp, err := t.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	t.answers.Add(1)
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	err = errors.Join(err, resp.Body.Close())
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp.StatusCode, 0, err
	}
	var answer struct {
		Usage *struct {
			Total int64 `json:"total_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.Usage == nil {
		return resp.StatusCode, 0, errors.New("the answer reports no usage")
	}
	return resp.StatusCode, answer.Usage.Total, nil
}

// count counts a call.
func (t *Test) count(status int, tokens int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.counts.Failed++
		t.failures[cause(err)]++
	case status == http.StatusOK:
		t.counts.OK++
		t.counts.Tokens += tokens
	case status == http.StatusTooManyRequests:
		t.counts.Refused++
	default:
		t.counts.Failed++
		t.failures[fmt.Sprintf("status %d", status)]++
	}
}

// cause returns the cause of an error without the URL, so that causes are few.
func cause(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		if wrapped.Timeout() {
			return "timeout"
		}
		err = wrapped.Err
	}
	return err.Error()
}

// Result returns what was counted so far.
func (t *Test) Result() Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.counts
	r.Elapsed, r.Failures = time.Since(t.begun), maps.Clone(t.failures)
	return r
}
