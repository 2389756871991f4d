package httplimit_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// noon is the time of every limiter in these tests, so that nothing refills.
var noon = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

const (
	key   = "key-1"
	model = "gpt-4"
)

// rig is a limiter on a store in memory that fails as the test decides.
type rig struct {
	*testing.T
	lim     *limiter.RateLimiter
	broken  *limiter.RateLimiter // on the same store, which fails
	mu      sync.Mutex
	plan    func(method string) repotest.Fault
	errs    []error          // reported to OnError
	leases  []*limiter.Lease // seen by handlers
	running sync.WaitGroup   // handlers of real servers
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t}
	repo := repotest.NewFaulty(memory.New(nil), func(method string) repotest.Fault {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.plan == nil {
			return repotest.None
		}
		return r.plan(method)
	})
	r.lim = r.limiter(repo)
	r.ok(r.lim.SetResourceDefaults(context.Background(), model, limiter.PerMinute("rpm", 3),
		limiter.PerMinute("tpm", 1000)))
	return r
}

func (r *rig) limiter(repo limiter.Repository) *limiter.RateLimiter {
	r.Helper()
	lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time { return noon }})
	r.ok(err)
	return lim
}

// fail makes one method of the store fail.
func (r *rig) fail(method string, fault repotest.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan = func(m string) repotest.Fault {
		if m == method {
			return fault
		}
		return repotest.None
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// works fails the test on an error, and returns. Handlers use it, because they run
// in goroutines of their own.
func (r *rig) works(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

func (r *rig) equal(what string, got, want any) {
	r.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// available checks the balances of the key.
func (r *rig) available(rpm, tpm int64) {
	r.Helper()
	r.mu.Lock()
	r.plan = nil
	r.mu.Unlock()
	d, err := r.lim.Explain(context.Background(), limiter.Request{
		Entity: key, Resource: model, Consume: limiter.Tokens("rpm", 0),
	})
	r.ok(err)
	r.equal("available rpm, tpm", []int64{d.Statuses[0].Available, d.Statuses[1].Available}, []int64{rpm, tpm})
}

// ended checks that no lease is open.
func (r *rig) ended(n int) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.equal("leases", len(r.leases), n)
	for _, lease := range r.leases {
		if err := lease.Adjust(limiter.Amounts{}); !errors.Is(err, limiter.ErrLeaseDone) {
			r.Errorf("a lease is open: %v", err)
		}
	}
}

// reported checks the errors that OnError received.
func (r *rig) reported(want ...error) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) != len(want) {
		r.Fatalf("reported %v, want %v", r.errs, want)
	}
	for i, err := range r.errs {
		if !errors.Is(err, want[i]) {
			r.Errorf("reported %v, want %v", err, want[i])
		}
	}
}

func (r *rig) onError(_ *http.Request, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// ask maps every request to one rpm and 100 tpm of the key.
func ask(*http.Request) (limiter.Request, error) {
	return limiter.Request{Entity: key, Resource: model, Consume: limiter.Tokens("rpm", 1).And("tpm", 100)}, nil
}

// handler returns a limited handler, which records its leases.
func (r *rig) handler(next http.HandlerFunc, opts *httplimit.Options) http.Handler {
	if opts == nil {
		opts = new(httplimit.Options)
	}
	if opts.OnError == nil {
		opts.OnError = r.onError
	}
	return httplimit.New(r.lim, ask, opts).Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.record(q.Context())
		next(w, q)
	}))
}

// record notes the lease of a context.
func (r *rig) record(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases = append(r.leases, httplimit.Lease(ctx))
}

// serve runs handler on a request without a network.
func serve(ctx context.Context, handler http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody))
	return w
}

// received is an answer that was read to its end.
type received struct {
	http.Response
	body string
}

// get makes a call and reads the answer.
func (r *rig) get(client *http.Client, method, url string) received {
	r.Helper()
	resp, err := client.Do(r.request(method, url))
	r.ok(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	r.ok(err)
	return received{*resp, string(text)}
}

func (r *rig) request(method, url string) *http.Request {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	r.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	r.ok(err)
	return req
}

// discardLog drops what a server logs about aborted handlers.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// closeCounter is a body that counts how often it is closed.
type closeCounter struct {
	io.Reader
	n atomic.Int32
}

// Close counts.
func (c *closeCounter) Close() error {
	c.n.Add(1)
	return nil
}

func (c *closeCounter) closed() int { return int(c.n.Load()) }
