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
	h       *Handler
	name    string
	repo    limiter.Repository
	changes *limiter.RateLimiter // on repo
	reads   limiter.Repository   // within the read budget
	lim     *limiter.RateLimiter // on reads
	pager   limiter.BucketPager
	meter   limiter.ReadMeter // nil unless the store bills reads
	pace    pace

	pages    *flights[limiter.BucketPage]
	configs  *flights[limiter.Config]
	switches *flights[switchSet]
	names    *names
	hub      *hub
	scans    *scans
	seen     *resourceSet

	ctx     context.Context //nolint:containedctx // it ends when the namespace or the handler does
	cancel  context.CancelFunc
	mu      sync.Mutex
	checked time.Time // when the namespace was last found; guarded by mu
	lastOff switchSet // of the last read; guarded by mu
}

// pace is how often the store of a namespace is read.
type pace struct {
	interval  time.Duration // between two reads of a row that is watched
	rows      int           // of a page for a viewer
	page      int           // buckets of a page in the background
	chunk     int           // keys that are read at once
	namesFor  time.Duration // how long a name is kept
	configFor time.Duration // how long limits of a level are kept
	pageFor   time.Duration // how long a page is kept for the next viewer
	patience  time.Duration // how long a call waits for names
	scanFor   time.Duration // how long the result of a scan is kept
	smallFor  time.Duration // how long it is kept if a page holds all buckets
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
	part := min(max(int(budget), 10), 100) // half a second of the budget
	const rowsPerUnit = 4                  // a page takes two seconds, if nothing else is read
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

// recheck is how often a namespace is looked up again, since its name may have
// been deleted, and registered for another.
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
	if kept != nil && sameNamespace(kept.repo, repo) {
		kept.refresh()
		return kept, nil
	}
	h.drop(kept)
	return h.addSpace(ctx, name, repo)
}

// sameNamespace reports whether two views are of one namespace. Views that cannot
// say are.
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
	if _, gone := s.reads.Config(ctx, limiter.Scope{}); errors.Is(gone, limiter.ErrNotFound) {
		s.h.drop(s)
		return errNamespace
	}
	return err
}

// exists returns errNamespace if the namespace is gone. It asks only a store that
// does not bill reads; on others the namespace is found to be gone later.
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
