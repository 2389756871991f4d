// Package chatload loads a chat API over HTTP, as a few clients with one API key
// each would.
package chatload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// Options configures New. All fields but MaxTokens and StopTimeout are required.
type Options struct {
	URL       *url.URL      // of the server; the path of chat completions follows
	Keys      []string      // API keys, which the calls use in turn
	Model     string        // of every call
	Workers   int           // calls at a time
	Duration  time.Duration // no call starts later, except the first of a worker
	Delay     time.Duration // of a worker between two calls
	MaxTokens int           // of every call; default: the server's
	// StopTimeout bounds how long the last calls may take after Duration before they
	// are cancelled; default DefaultStopTimeout.
	StopTimeout time.Duration
}

// DefaultStopTimeout is how long the last calls may take after the end.
const DefaultStopTimeout = 5 * time.Second

// Result counts the calls of a load test.
type Result struct {
	// OK counts calls with status 200 and a usage, Refused calls with status
	// 429, and Failed all others.
	OK, Refused, Failed int64
	Cancelled           int64            // calls that had not ended when the test did
	Tokens              int64            // total_tokens of the calls in OK
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

// Errors of Run. An error wraps one of them.
var (
	ErrUnreachable = errors.New("no call got an answer")
	ErrNoSuccess   = errors.New("no call succeeded or was refused with status 429")
)

// Test is a load test. It is safe for concurrent use.
type Test struct {
	opts    Options
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
	t := &Test{opts: *opts, begun: time.Now(), failures: map[string]int64{}, client: &http.Client{
		Timeout: callTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: opts.Workers},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.opts.StopTimeout = cmp.Or(t.opts.StopTimeout, DefaultStopTimeout)
	return t
}

// Run makes calls until Options.Duration has passed or ctx ends, and returns what it
// counted. It cancels calls that take longer than Options.StopTimeout after
// Options.Duration, and all calls when ctx ends. Run ends at once if the first call
// gets no answer. The error is ErrUnreachable or ErrNoSuccess, with the causes, also
// beside a result. A test that ctx ends before any call did has no error.
func (t *Test) Run(ctx context.Context) (Result, error) {
	defer t.client.CloseIdleConnections()

	calls, stop := context.WithDeadline(ctx, t.begun.Add(t.opts.Duration).Add(t.opts.StopTimeout))
	defer stop()

	var workers sync.WaitGroup
	for range t.opts.Workers {
		workers.Go(func() { t.work(calls, stop) })
	}
	workers.Wait()

	r := t.Result()
	// A test that was stopped before any call ended has nothing to report. A
	// failed call is reported even then.
	if r.OK+r.Refused > 0 || ctx.Err() != nil && r.Failed == 0 {
		return r, nil
	}

	if t.answers.Load() == 0 {
		return r, fmt.Errorf("%w: %s", ErrUnreachable, r.causes())
	}
	return r, fmt.Errorf("%w: %s", ErrNoSuccess, r.causes())
}

// causes returns why no call succeeded.
func (r Result) causes() string {
	if r.Failed == 0 {
		return "the server takes too long; the calls were cancelled at the end of the test"
	}

	causes := slices.Sorted(maps.Keys(r.Failures))
	most := slices.MaxFunc(causes, func(a, b string) int { return cmp.Compare(r.Failures[a], r.Failures[b]) })

	if len(causes) == 1 {
		return most
	}
	return "mostly " + most
}

// work makes calls one after the other, at least one. It stops the test if no server
// answers.
func (t *Test) work(ctx context.Context, stop func()) {
	for {
		key := t.opts.Keys[int(t.next.Add(1)-1)%len(t.opts.Keys)]
		status, tokens, err := t.call(ctx, key)

		// A call that the end of the test cut off says nothing about the
		// server.
		if ctx.Err() != nil {
			t.countCancelled()
			return
		}
		t.count(status, tokens, err)

		if err != nil && t.answers.Load() == 0 {
			// The first call shows that no server is there, so the others need
			// not find it out as well.
			stop()
		}

		left := t.opts.Duration - time.Since(t.begun)
		// A pause that is not positive does not look at ctx.
		if pause.For(ctx, min(t.opts.Delay, left)) != nil || ctx.Err() != nil ||
			time.Since(t.begun) >= t.opts.Duration {
			return
		}
	}
}

func (t *Test) countCancelled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Cancelled++
}

// count counts a call that ended.
func (t *Test) count(status int, tokens int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.fail(cause(err))
	case status == http.StatusOK:
		t.counts.OK++
		t.counts.Tokens += tokens
	case status == http.StatusTooManyRequests:
		t.counts.Refused++
	default:
		t.fail(fmt.Sprintf("status %d", status))
	}
}

// maxCauses bounds the causes of failures, since a server can invent more.
const maxCauses = 20

func (t *Test) fail(cause string) {
	t.counts.Failed++

	// A server can put anything into an error. The map must not grow with it.
	if _, known := t.failures[cause]; !known && len(t.failures) >= maxCauses {
		cause = "another cause"
	}
	t.failures[cause]++
}

// Result returns what was counted so far.
func (t *Test) Result() Result {
	t.mu.Lock()
	defer t.mu.Unlock()

	r := t.counts
	r.Elapsed, r.Failures = time.Since(t.begun), maps.Clone(t.failures)
	return r
}
