// Package webdemo serves a small LLM gateway as a web application: an API like
// OpenAI's whose calls are simulated and whose limits are real, calls that
// administer entities and limits, and background traffic.
package webdemo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/llm"
)

// Options configures New. The zero value of a field is its default.
type Options struct {
	// Dashboard is served at /dashboard/, without that prefix. It checks the Host
	// and the Origin of requests itself; default: none.
	Dashboard http.Handler
	// Hosts names the server, beside localhost and IP addresses.
	Hosts   listen.HostOptions
	Seed    uint64 // of all random choices; default: random
	Version string // in the OpenAPI document
	// OnError receives errors that no client sees; default: they are dropped.
	OnError func(error)
}

// Handler serves the demo. It is safe for concurrent use.
type Handler struct {
	lim     *limiter.RateLimiter
	gateway *gateway
	traffic *traffic
	opts    Options
	mux     *http.ServeMux
	routes  []route
	streams web.Places         // of the state
	ended   context.Context    //nolint:containedctx // ends with Close
	end     context.CancelFunc // ends all streams
}

// New returns a handler on a limiter whose store Seed has prepared.
func New(lim *limiter.RateLimiter, opts *Options) (*Handler, error) {
	h := &Handler{lim: lim, mux: http.NewServeMux()}
	if opts != nil {
		h.opts = *opts
	}

	if h.opts.OnError == nil {
		h.opts.OnError = func(error) {}
	}
	if h.opts.Seed == 0 {
		h.opts.Seed = rand.Uint64()
	}

	calls, err := llm.New(lim, &llm.Options{
		Limits: llm.Limits{Requests: limiter.RPM, Total: limiter.TPM}, Prices: priceOf, FullEstimate: true,
	})
	if err != nil {
		return nil, err
	}

	h.gateway = &gateway{lim: lim, calls: calls, simulator: newSimulator(h.opts.Seed), onError: h.opts.OnError}
	h.traffic = newTraffic(h.gateway, h.opts.Seed)
	h.ended, h.end = context.WithCancel(context.Background())

	if err := h.addRoutes(); err != nil {
		return nil, err
	}
	return h, nil
}

// RunTraffic makes calls of its own until ctx ends, except while the traffic is
// paused. It returns when no call is under way.
func (h *Handler) RunTraffic(ctx context.Context) { h.traffic.run(ctx) }

// Close ends all streams of the state. Calls of the gateway go on to their end.
func (h *Handler) Close() error {
	h.end()
	return nil
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// writeTime bounds one write of a stream to a client.
const writeTime = 10 * time.Second
