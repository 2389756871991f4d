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
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/listen"
)

// DefaultReadBudget is the default of Options.ReadBudget.
const DefaultReadBudget = 25

// Role is what a session may do.
type Role string

// The roles of sessions. Any other role sees nothing.
const (
	RoleRead  Role = "read"  // see everything in its namespace
	RoleAdmin Role = "admin" // change limits and entities too, if Options.Write is set
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
	Open      func(ctx context.Context, namespace string) (limiter.Repository, error)
	Namespace string // the namespace of a local session; default "default"
	Store     string // the name of the store on the page
	Write     bool   // sessions with the role admin may change things
	// ReadBudget is the number of read units a second, for stores that bill reads;
	// default DefaultReadBudget. All viewers share it.
	ReadBudget float64
	// Token opens one local session with the role admin, once.
	Token string
	// Authenticate returns the session of a bearer token. It is called often: a
	// session ends when its token stops being valid, or changes. A viewer without a
	// session has the token "".
	Authenticate func(bearer string) (Session, bool)
	Principal    string             // of the local session; default: the store's own identity
	Version      string             // shown on the page
	Now          func() time.Time   // the limiter's clock; default time.Now
	Hosts        listen.HostOptions // host names of the server, besides IP addresses and localhost
	Demo         any                // JSON for the page of the demo; nil elsewhere
	OnError      func(error)        // receives what no viewer sees; default: dropped
}

// Handler serves the dashboard at any mount point. It is safe for concurrent use.
type Handler struct {
	opts     Options
	assets   map[string]*asset
	routes   map[string]map[string]*route // by path, then method
	sessions *sessions
	gate     gate
	calls    *quota // of calls under way
	streams  *quota
	replays  places // of what-if
	times    streamTimes

	ctx    context.Context //nolint:containedctx // it lives as long as the handler
	cancel context.CancelFunc
	work   sync.WaitGroup // everything in the background

	mu     sync.Mutex
	closed bool              // guarded by mu
	spaces map[string]*space // by namespace; guarded by mu
	budget *budget           // nil until a store that bills reads is opened; guarded by mu
}

// Bounds of what viewers can hold, in all and with one token.
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
		opts: *opts, spaces: map[string]*space{}, replays: make(places, maxReplays), times: usualTimes,
		calls:   newQuota(maxCalls, maxCallsEach, errTooManyCalls),
		streams: newQuota(maxStreams, maxStreamsEach, errTooManyOpen),
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
	if file := h.assets[r.URL.Path]; file != nil {
		file.serve(w, r)
		return
	}
	h.dispatch(w, r)
}
