// Package server serves a limiter over HTTP with JSON, for programs in any
// language. It holds the leases of its clients, remembers answers for clients
// that repeat a request, and checks their tokens.
package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Options configures New. The zero value of a field is its default.
type Options struct {
	Namespace string // the name of repo's namespace; default "default"
	// Tokens authenticates callers. Without tokens, every caller has the role
	// admin in Namespace.
	Tokens *Tokens
	// Hosts has host names of the server, besides IP addresses and localhost.
	Hosts listen.HostOptions
	// MaxRequests bounds the calls under way; default 1024. A call is under way
	// when its body has arrived, so slow clients do not count.
	MaxRequests int
	// MaxLeases bounds the leases that are open; default 10,000. Where there are
	// several tokens, each may have half of them.
	MaxLeases int
	// LeaseTTL is the time after which a lease that is not ended is committed; default
	// 10 min.
	LeaseTTL time.Duration
	// MaxKeys bounds the idempotency keys of a token; default 10,000.
	MaxKeys int
	// KeyTTL is how long an answer is kept for its key; default 10 min.
	KeyTTL time.Duration
	// MaxBody bounds the bytes of a request; default 64 KiB.
	MaxBody int64
	// Timeout bounds a call of the store; default 5 s.
	Timeout time.Duration
	// Now is the limiter's clock; default time.Now.
	Now func() time.Time
	// OnError receives errors that no client sees; default: they are dropped.
	OnError func(error)
	// Version is shown in the OpenAPI document.
	Version string
	// Dashboard answers below DashboardPath, which it does not see. It checks
	// hosts, origins and callers itself. Nil for none.
	Dashboard http.Handler
}

// Defaults of Options.
const (
	DefaultMaxRequests = 1024
	DefaultMaxLeases   = 10_000
	DefaultLeaseTTL    = 10 * time.Minute
	DefaultMaxKeys     = 10_000
	DefaultKeyTTL      = 10 * time.Minute
	DefaultMaxBody     = 64 << 10
	DefaultTimeout     = 5 * time.Second
)

// Server is an http.Handler. It is safe for concurrent use.
type Server struct {
	opts     Options
	handler  http.Handler
	mux      *http.ServeMux
	routes   []route
	home     *view
	leases   *leaseTable
	keys     *keyTable
	running  web.Places // of calls under way
	allCalls web.Bound
	draining atomic.Bool
	ready    readiness
	writes   writeHealth
	mu       sync.Mutex
	views    map[string]*view // of the namespaces of tokens
}

// view is a limiter in one namespace.
type view struct {
	lim  *limiter.RateLimiter
	repo limiter.Repository
}

// New returns a server of the limits in repo, which the caller closes after
// Settle.
func New(repo limiter.Repository, opts *Options) (*Server, error) {
	s := &Server{views: map[string]*view{}, mux: http.NewServeMux()}
	if opts != nil {
		s.opts = *opts
	}

	o := &s.opts
	o.Namespace = cmp.Or(o.Namespace, "default")
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)

	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}

	home, err := s.newView(repo)
	if err != nil {
		return nil, err
	}
	s.home = home

	s.leases = newLeaseTable(cmp.Or(o.MaxLeases, DefaultMaxLeases), cmp.Or(o.LeaseTTL, DefaultLeaseTTL), o.OnError)
	s.allCalls = web.Bound{Most: int64(cmp.Or(o.MaxRequests, DefaultMaxRequests)), Full: web.ErrTooMany}
	s.keys = newKeyTable(cmp.Or(o.MaxKeys, DefaultMaxKeys), cmp.Or(o.KeyTTL, DefaultKeyTTL))

	if err := s.addRoutes(); err != nil {
		return nil, err
	}

	s.handler = listen.Hosts(http.HandlerFunc(s.dispatch), &o.Hosts)
	// Hosts refuses web pages, so the dashboard is not behind it.
	if o.Dashboard != nil {
		s.handler = withDashboard(s.handler, o.Dashboard)
	}
	return s, nil
}

func (s *Server) newView(repo limiter.Repository) (*view, error) {
	lim, err := limiter.New(repo, &limiter.Options{Now: s.opts.Now, Timeout: s.opts.Timeout})
	if err != nil {
		return nil, err
	}

	return &view{lim, repo}, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// dispatch calls the handler of a path. It refuses paths that the mux would
// redirect.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != path.Clean(r.URL.Path) || !path.IsAbs(r.URL.Path) {
		_ = s.fail(w.Header(), &httplimit.Problem{Status: http.StatusNotFound}).Write(w)
		return
	}

	s.mux.ServeHTTP(w, r)
}

// Leases returns the number of open leases.
func (s *Server) Leases() int { return s.leases.len() }

// Quiesce refuses new leases from then on, and waits until all are ended or ctx
// ends.
func (s *Server) Quiesce(ctx context.Context) {
	s.draining.Store(true)
	s.leases.awaitEmpty(ctx)
}

// Settle commits the leases that are left, as they stand, until ctx ends. The error
// says how many leases could not be settled.
func (s *Server) Settle(ctx context.Context) error {
	s.draining.Store(true)
	return s.leases.settle(ctx)
}

// Limiter returns the limiter of a caller's namespace, or an error if there is no
// such namespace.
func (s *Server) Limiter(ctx context.Context, id Identity) (*limiter.RateLimiter, error) {
	v, err := s.view(ctx, id)
	if err != nil {
		return nil, err
	}
	return v.lim, nil
}

// view returns the limiter and the store of a caller's namespace, and keeps them.
func (s *Server) view(ctx context.Context, id Identity) (*view, error) {
	if id.Namespace == "" || id.Namespace == s.opts.Namespace {
		return s.home, nil
	}

	s.mu.Lock()
	kept := s.views[id.Namespace]
	s.mu.Unlock()
	if kept != nil {
		return kept, nil
	}

	// The lock is free while the store answers.
	repo, err := s.home.repo.Namespace(ctx, id.Namespace)
	if errors.Is(err, limiter.ErrNotFound) {
		return nil, errNamespace
	}
	if err != nil {
		return nil, web.Outage("namespace", err)
	}

	v, err := s.newView(repo)
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	// Another call may have opened the namespace at the same time.
	if kept := s.views[id.Namespace]; kept != nil {
		return kept, nil
	}

	s.views[id.Namespace] = v
	return v, nil
}

// checkNamespace returns errNamespace if the namespace of a caller is gone, and err
// otherwise. It drops the view, so that a namespace that was registered again under
// the name is found.
func (s *Server) checkNamespace(ctx context.Context, id Identity, err error) error {
	name := cmp.Or(id.Namespace, s.opts.Namespace)
	// The view of the server's own namespace stays, since nothing could replace
	// it.
	if name == s.opts.Namespace {
		if _, gone := s.home.repo.Namespace(ctx, name); errors.Is(gone, limiter.ErrNotFound) {
			return errNamespace
		}
		return err
	}

	s.mu.Lock()
	delete(s.views, name)
	s.mu.Unlock()
	if _, gone := s.view(ctx, id); errors.Is(gone, errNamespace) {
		return errNamespace
	}

	return err
}
