// Package dashboard serves a page that shows the limits of a store while they are
// used, and changes them for callers who may. The page is a set of embedded files;
// its data come as JSON and as server-sent events. All viewers of a namespace
// share one reader of the store.
package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// DefaultReadBudget is the default of Options.ReadBudget.
const DefaultReadBudget = 25

// Role is what a session may do.
type Role string

// The roles of sessions. Any other role sees nothing.
const (
	// RoleRead sees everything in its namespace.
	RoleRead Role = "read"
	// RoleAdmin changes limits and entities too, if Options.Write is set.
	RoleAdmin Role = "admin"
)

// Session is the identity of a viewer.
type Session struct {
	Name      string // the principal of changes in the audit trail
	Role      Role
	Namespace string // "" for Options.Namespace
}

// Options configures New. The zero value of a field is its default, except that
// Open is required, and so is one of Token and Authenticate.
type Options struct {
	// Open returns a view of a namespace, or an error that wraps ErrNotFound. The
	// handler does not close the view.
	Open func(ctx context.Context, namespace string) (limiter.Repository, error)
	// Namespace is the namespace of a local session; default "default".
	Namespace string
	// Store is the name of the store on the page.
	Store string
	// Write allows changes to sessions with the role admin.
	Write bool
	// ReadBudget is the number of read units a second, for stores that bill reads;
	// default DefaultReadBudget. All viewers share it.
	ReadBudget float64
	// Token opens one local session with the role admin, once.
	Token string
	// Authenticate returns the session of a bearer token. It is called often: a
	// session ends when its token stops being valid, or changes. A viewer without a
	// session has the token "".
	Authenticate func(bearer string) (Session, bool)
	// Principal is the name of the local session in the audit trail; default: the
	// store's own identity.
	Principal string
	// Version is shown on the page.
	Version string
	// Now is the limiter's clock; default time.Now.
	Now func() time.Time
	// Hosts has host names of the server, besides IP addresses and localhost.
	Hosts listen.HostOptions
	// Demo is JSON for the page of the demo; nil elsewhere.
	Demo any
	// OnError receives errors that no viewer sees; default: they are dropped.
	OnError func(error)
}

// Handler serves the dashboard at any mount point. It is safe for concurrent use.
type Handler struct {
	opts     Options
	assets   map[string]*asset
	routes   map[string]http.HandlerFunc // by path
	sessions *sessions
	gate     gate
	calls    web.Places
	streams  web.Places
	replays  chan struct{} // has a place for each what-if under way
	times    streamTimes

	ctx    context.Context //nolint:containedctx // it lives as long as the handler
	cancel context.CancelFunc
	work   sync.WaitGroup // everything in the background

	// mu guards the fields below.
	mu     sync.Mutex
	closed bool
	spaces map[string]*space // by namespace
	// spend and spent are the read budget. They are nil until a store that bills
	// reads is opened.
	spend func(context.Context) context.Context
	spent func() (units, rate float64)
}

// Bounds of what viewers can hold: all of them together, and those of one token.
const (
	maxCalls, maxCallsEach     = 256, 64
	maxStreams, maxStreamsEach = 256, 32
	maxReplays                 = 2
)

// New returns a handler. The caller closes it, and then the store.
func New(opts *Options) (*Handler, error) {
	if opts == nil || opts.Open == nil {
		return nil, errors.New("dashboard: Open is missing")
	}
	if opts.Token == "" && opts.Authenticate == nil {
		return nil, errors.New("dashboard: Token or Authenticate is missing")
	}

	h := &Handler{
		opts: *opts, spaces: map[string]*space{}, replays: make(chan struct{}, maxReplays), times: usualTimes,
		routes: map[string]http.HandlerFunc{},
	}

	o := &h.opts
	o.Namespace = cmp.Or(o.Namespace, "default")
	o.ReadBudget = cmp.Or(o.ReadBudget, DefaultReadBudget)

	if o.ReadBudget < 0 {
		return nil, errors.New("dashboard: ReadBudget must be positive")
	}

	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}

	var err error
	if h.assets, err = readAssets(files); err != nil {
		return nil, err
	}

	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.sessions = newSessions(h)
	h.addRoutes()
	return h, nil
}

// Close ends the streams and everything in the background.
func (h *Handler) Close() error {
	// With closed set, start adds nothing to the work that Close waits for.
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()

	h.cancel()
	h.work.Wait()
	return nil
}

// start runs f in the background, unless the handler is closed. It reports whether
// f runs.
func (h *Handler) start(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}

	h.work.Go(f)
	return true
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header(), r)

	r = enterPlace(r)
	if r == nil {
		h.fail(w, &httplimit.Problem{Status: http.StatusNotFound})
		return
	}

	if err := h.admit(r); err != nil {
		h.fail(w, err)
		return
	}

	// Files need no session: they hold no data, and the page needs them to ask
	// for a token.
	if file := h.assets[r.URL.Path]; file != nil {
		file.serve(w, r)
		return
	}

	serve := h.routes[r.URL.Path]
	if serve == nil {
		h.fail(w, &httplimit.Problem{Status: http.StatusNotFound})
		return
	}
	serve(w, r)
}
