package proxy

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// Proxy is the handler of the proxy. It is safe for concurrent use.
type Proxy struct {
	lim       *limiter.RateLimiter
	llm       *llm.Limiter
	opts      Options
	cost      string       // the name of the limit of cost; "" without prices
	newcomers *newcomers   // nil where clients cannot invent entities
	bodies    *pool        // bytes of bodies in memory
	places    *pool        // calls under way
	uploads   *pool        // those of them whose body is passed on as it arrives
	open      atomic.Int64 // leases that have not ended
	exceeded  atomic.Bool  // an answer was longer than its maximum
	buffers   *buffers
	reverse   *httputil.ReverseProxy

	mu       sync.Mutex
	draining bool
	calls    sync.WaitGroup // under way
	cut      context.Context
	cutAll   context.CancelFunc
}

// New returns a proxy. The error is a *limiter.InvalidError that names the wrong
// option.
func New(lim *limiter.RateLimiter, opts *Options) (*Proxy, error) {
	if err := opts.validate(lim); err != nil {
		return nil, err
	}

	o := opts.withDefaults()
	costs, err := llm.New(lim, &llm.Options{
		Limits: o.Limits, Prices: o.Prices, MaxOutput: o.MaxOutput, KeepRequests: o.KeepRequests, Step: o.Step,
		MaxBytes: o.MaxBody, Now: o.Now,
	})
	if err != nil {
		return nil, err
	}

	p := &Proxy{lim: lim, llm: costs, opts: o, buffers: newBuffers()}

	if o.Prices != nil {
		p.cost = cmp.Or(o.Limits.Cost, llm.Spend)
	}

	if o.Fields.Units == nil {
		p.opts.Fields.Units = p.units()
	}

	memory := max(budgetBodies*o.MaxBody, leastMemory)
	p.bodies = newPool("large requests", memory, max(memory/4, o.MaxBody+firstBuffer))

	places := int64(o.MaxRequests)
	p.places = newPool("requests", places, int64(o.ClientRequests))
	// An upload may last for long, so uploads have a quarter of the places, and
	// one client a quarter of those.
	p.uploads = newPool("uploads", max(1, places/4), max(1, places/16))
	// Without an Identify any key is an entity, so that clients can invent
	// them.
	if o.Identify == nil {
		p.opts.Identify, p.newcomers = byKey, newNewcomers(o.NewEntities)
	}

	p.cut, p.cutAll = context.WithCancel(context.Background())

	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: o.Transport, BufferPool: p.buffers,
		ModifyResponse: answered, ErrorHandler: failed,
		// A call reports its errors itself.
		ErrorLog: log.New(discard{}, "", 0),
	}
	return p, nil
}

// units returns what the limits count, where that is not requests.
func (p *Proxy) units() map[string]string {
	l := p.opts.Limits
	// llm.New has the same default.
	if l == (llm.Limits{}) {
		l.Total = limiter.TPM
	}

	units := map[string]string{}
	for _, name := range []string{l.Total, l.Input, l.Output, l.Cached} {
		units[name] = "tokens"
	}

	units[p.cost] = "usd-millionths"
	return units
}

// ChecksKeys reports whether the proxy admits known clients only.
func (p *Proxy) ChecksKeys() bool { return p.newcomers == nil }

// discard drops what is written to it.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// ServeHTTP forwards a request within the limits of its entity. The proxy itself
// answers /healthz and /readyz.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Probes are answered without a place, so that a full proxy still looks
	// alive.
	switch r.URL.Path {
	case "/healthz":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/readyz":
		p.serveReady(w, r)
		return
	}

	if !p.begin() {
		refuseDraining(w, dialectOf(r, p.opts.Upstream.Path))
		return
	}

	defer p.calls.Done()
	p.serve(w, r)
}

// serveReady answers whether the proxy takes calls: it is not draining, and the
// store is reachable.
func (p *Proxy) serveReady(w http.ResponseWriter, r *http.Request) {
	if p.isDraining() {
		refuseDraining(w, openAI)
		return
	}

	if err := p.lim.Ping(r.Context()); err != nil {
		p.opts.OnError(err)
		httplimit.WriteError(w, err, nil)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func refuseDraining(w http.ResponseWriter, d dialect) {
	w.Header().Set("Connection", "close")
	d.writeError(w,
		&httplimit.Problem{
			Status: http.StatusServiceUnavailable, Detail: "the proxy is shutting down",
			RetryAfter: retryDrained,
		},
		nil)
}

// begin counts a call as under way, unless the proxy is draining.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return false
	}
	p.calls.Add(1)
	return true
}

func (p *Proxy) isDraining() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}

// Drain refuses new calls and waits for those under way. When ctx ends, it cuts
// them, and waits until their leases are settled.
func (p *Proxy) Drain(ctx context.Context) {
	p.mu.Lock()
	p.draining = true
	p.mu.Unlock()

	// begin has refused new calls since draining was set, so nothing is added
	// while Wait runs.
	stop := context.AfterFunc(ctx, p.cutAll)
	defer stop()

	p.calls.Wait()
}
