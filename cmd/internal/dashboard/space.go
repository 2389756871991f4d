package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// space is what all viewers of a namespace share.
type space struct {
	h    *Handler
	name string
	repo limiter.Repository
	// changes is a limiter on repo.
	changes *limiter.RateLimiter
	// reads is a view within the read budget, and lim a limiter on it.
	reads limiter.Repository
	lim   *limiter.RateLimiter
	pager limiter.BucketPager
	// meter is nil unless the store bills reads.
	meter limiter.ReadMeter
	pace  pace

	pages    *flights[limiter.BucketPage]
	configs  *flights[limiter.Config]
	switches *flights[switchSet]
	names    *names
	hub      *hub
	scans    *scans
	seen     *resourceSet

	ctx    context.Context //nolint:containedctx // it ends when the namespace or the handler does
	cancel context.CancelFunc
	// mu guards the fields below.
	mu sync.Mutex
	// checked is when the namespace was last found.
	checked time.Time
	// lastOff has the switches of the last read.
	lastOff switchSet
}

// pace is how often the store of a namespace is read.
type pace struct {
	// interval is the time between two reads of a row that is watched.
	interval time.Duration
	// rows bounds a page for a viewer, page a page in the background, and chunk the
	// keys that are read at once.
	rows  int
	page  int
	chunk int
	// These are how long a name, the limits of a level and a page are kept.
	namesFor  time.Duration
	configFor time.Duration
	pageFor   time.Duration
	// patience is how long a call waits for names.
	patience time.Duration
	// scanFor is how long the result of a scan is kept, and smallFor how long if one
	// page holds all buckets.
	scanFor  time.Duration
	smallFor time.Duration
}

// paceOf returns the pace of a store. Reads that are billed are fewer.
func paceOf(billed bool, budget float64) pace {
	if !billed {
		return pace{
			interval: 500 * time.Millisecond, rows: mostRows, page: 500, chunk: 500, namesFor: 2 * time.Second,
			configFor: 500 * time.Millisecond,
			patience:  5 * time.Second, scanFor: 10 * time.Second, smallFor: 2 * time.Second,
		}
	}
	// Half a second of a budget of 50 units pays for 50 keys at half a unit
	// each.
	part := min(max(int(budget), 10), 100)
	// A page takes two seconds of the budget, if nothing else is read.
	const rowsPerUnit = 4

	return pace{
		interval: time.Second, rows: min(max(int(budget*rowsPerUnit), 5), mostRows), page: part, chunk: part,
		namesFor: time.Minute, configFor: 2 * time.Second, pageFor: 3 * time.Second,
		patience: time.Second, scanFor: 5 * time.Minute, smallFor: 15 * time.Second,
	}
}

// budget is a view of the store that spends the read budget of all viewers.
type budget struct {
	repo  limiter.Repository
	meter limiter.ReadMeter
}

// recheck is how often a namespace is looked up again. Its name may have been
// deleted, and registered again for another namespace.
const recheck = 5 * time.Second

// space returns what the viewers of a namespace share.
func (h *Handler) space(ctx context.Context, namespace string) (*space, error) {
	name := cmp.Or(namespace, h.opts.Namespace)

	h.mu.Lock()
	kept, closed := h.spaces[name], h.closed
	h.mu.Unlock()
	if closed {
		return nil, errClosed
	}

	if kept != nil && kept.fresh() {
		return kept, nil
	}

	repo, err := h.opts.Open(ctx, name)
	if errors.Is(err, limiter.ErrNotFound) {
		h.drop(kept)
		return nil, errNamespace
	}
	if err != nil {
		return nil, outage(err)
	}

	// A name that was registered again belongs to another namespace, which
	// viewers of the old one must not see.
	if kept != nil && sameNamespace(kept.repo, repo) {
		kept.refresh()
		return kept, nil
	}

	h.drop(kept)
	return h.addSpace(ctx, name, repo)
}

// sameNamespace reports whether two views are of one namespace. It reports true if
// a view has no NamespaceIdentifier, since there is no ID to compare then.
func sameNamespace(a, b limiter.Repository) bool {
	x, ok := limiter.Optional[limiter.NamespaceIdentifier](a)
	y, also := limiter.Optional[limiter.NamespaceIdentifier](b)

	return !ok || !also || x.NamespaceID() == y.NamespaceID()
}

func (s *space) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.checked) < recheck
}

func (s *space) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = time.Now()
}

// explain returns the error of a call that found nothing: errNamespace if the
// namespace is gone, else the error itself.
func (s *space) explain(ctx context.Context, err error) error {
	// The system level exists in every namespace, so nothing else can be
	// missing.
	if _, gone := s.reads.Config(ctx, limiter.Scope{}); errors.Is(gone, limiter.ErrNotFound) {
		s.h.drop(s)
		return errNamespace
	}

	return err
}

// exists returns errNamespace if the namespace is gone. It does not ask a store that
// bills reads, where a later call finds out.
func (s *space) exists(ctx context.Context) error {
	if s.billed() {
		return nil
	}

	if _, err := s.config(ctx, limiter.Scope{}); errors.Is(err, limiter.ErrNotFound) {
		s.h.drop(s)
		return errNamespace
	}

	return nil
}

// drop ends a namespace that is gone, and the streams of its viewers.
func (h *Handler) drop(s *space) {
	if s == nil {
		return
	}
	h.mu.Lock()
	// Another namespace may have the name already.
	if h.spaces[s.name] == s {
		delete(h.spaces, s.name)
	}
	h.mu.Unlock()

	s.cancel()
}

// addSpace adds a namespace, unless another call did meanwhile.
func (h *Handler) addSpace(ctx context.Context, name string, repo limiter.Repository) (*space, error) {
	reads, meter, err := h.budgeted(ctx, name, repo)
	if err != nil {
		return nil, err
	}

	changes, err := limiter.New(repo, &limiter.Options{Now: h.opts.Now})
	if err != nil {
		return nil, err
	}
	lim, err := limiter.New(reads, &limiter.Options{Now: h.opts.Now})
	if err != nil {
		return nil, err
	}

	s := &space{
		h: h, name: name, repo: repo, changes: changes, reads: reads, lim: lim, meter: meter,
		pace: paceOf(meter != nil, h.opts.ReadBudget), checked: time.Now(),
	}
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	s.pager = pagerOf(reads)
	s.pages = newFlights[limiter.BucketPage](s, s.pace.pageFor)
	s.configs = newFlights[limiter.Config](s, s.pace.configFor)
	s.switches = newFlights[switchSet](s, s.pace.configFor)
	s.names = newNames(s)
	s.hub = newHub(s)
	s.scans = newScans(s)
	s.seen = newResourceSet()

	h.mu.Lock()
	defer h.mu.Unlock()
	// Another call may have opened the namespace at the same time.
	if kept := h.spaces[name]; kept != nil || h.closed {
		s.cancel()
		if h.closed {
			return nil, errClosed
		}
		return kept, nil
	}

	h.spaces[name] = s
	return s, nil
}

// budgeted returns the view for reads, and its meter if the store bills reads. One
// budget serves all namespaces.
func (h *Handler) budgeted(
	ctx context.Context, name string, repo limiter.Repository,
) (limiter.Repository, limiter.ReadMeter, error) {
	budgeter, ok := limiter.Optional[limiter.ReadBudgeter](repo)
	if !ok {
		return repo, nil, nil
	}

	h.mu.Lock()
	if h.budget == nil {
		view, meter := budgeter.WithReadBudget(h.opts.ReadBudget)
		h.budget = &budget{view, meter}
		h.mu.Unlock()
		return view, meter, nil
	}

	shared := h.budget
	h.mu.Unlock()

	view, err := shared.repo.Namespace(ctx, name)
	if errors.Is(err, limiter.ErrNotFound) {
		return nil, nil, errNamespace
	}
	if err != nil {
		return nil, nil, outage(fmt.Errorf("namespace: %w", err))
	}

	return view, shared.meter, nil
}

// billed reports whether the store bills reads.
func (s *space) billed() bool { return s.meter != nil }

// now returns the time for the store.
func (s *space) now() time.Time { return s.h.opts.Now() }
