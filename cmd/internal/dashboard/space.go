package dashboard

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// space is what all viewers of a namespace share.
type space struct {
	h    *Handler
	name string
	repo limiter.Repository
	// lim is a limiter on repo, and pager its pages.
	lim   *limiter.RateLimiter
	pager limiter.BucketPager
	pace  pace
	// spend adds the read budget to the context of a call. It is nil unless the
	// store bills reads, as is spent, which returns the units in use.
	spend func(context.Context) context.Context
	spent func() (units, rate float64)

	// These read for all viewers. Rows that are watched are read by hub.
	pages    *reader[limiter.BucketQuery, limiter.BucketPage]
	configs  *reader[limiter.Scope, limiter.Config]
	switches *reader[struct{}, switchSet]
	names    *reader[string, label]
	tallies  *reader[string, *tally]
	scans    scans
	hub      *hub
	seen     *resourceSet

	// ctx is of reads for all viewers.
	ctx    context.Context //nolint:containedctx // it ends when the namespace or the handler does
	cancel context.CancelFunc
	// mu guards the fields below.
	mu sync.Mutex
	// checked is when the namespace was last found.
	checked time.Time
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
	return h.addSpace(name, repo)
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
	if _, gone := s.repo.Config(s.paid(ctx), limiter.Scope{}); errors.Is(gone, limiter.ErrNotFound) {
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

	if _, err := s.configs.get(ctx, limiter.Scope{}); errors.Is(err, limiter.ErrNotFound) {
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
func (h *Handler) addSpace(name string, repo limiter.Repository) (*space, error) {
	s := &space{h: h, name: name, repo: repo, checked: time.Now(), seen: newResourceSet()}

	var err error
	if s.lim, err = limiter.New(repo, &limiter.Options{Now: h.opts.Now}); err != nil {
		return nil, err
	}

	var ok bool
	if s.pager, ok = limiter.Optional[limiter.BucketPager](repo); !ok {
		return nil, errors.New("dashboard: the store has no pages of buckets")
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}

	// Another call may have opened the namespace at the same time.
	if kept := h.spaces[name]; kept != nil {
		return kept, nil
	}

	s.ctx, s.cancel = context.WithCancel(h.ctx)
	h.addBudget(s)
	s.pace = paceOf(s.billed(), h.opts.ReadBudget)
	s.addReaders()
	s.hub = newHub(s)
	h.spaces[name] = s
	return s, nil
}

// addBudget gives a namespace the read budget, if its store bills reads. One budget
// serves all namespaces. The caller holds mu.
func (h *Handler) addBudget(s *space) {
	store, ok := limiter.Optional[limiter.ReadBudgeter](s.repo)
	if !ok {
		return
	}

	if h.spend == nil {
		h.spend, h.spent = store.NewReadBudget(h.opts.ReadBudget)
	}
	s.spend, s.spent = h.spend, h.spent
	s.ctx = s.spend(s.ctx)
}

func (s *space) addReaders() {
	s.pages = newReader(s, usualReads, usualValues, s.readPage)
	s.configs = newReader(s, usualReads, usualValues, s.readConfig)
	s.switches = newReader(s, usualReads, usualValues, s.readSwitches)
	s.names = newReader(s, maxNameReads, maxNames, s.readLabel)
	s.tallies = newReader(s, usualReads, usualValues, s.scan)
	s.scans.all = map[string]*scan{}
}

// paid returns a context for reads, which spend the read budget if there is one.
func (s *space) paid(ctx context.Context) context.Context {
	if s.billed() {
		return s.spend(ctx)
	}
	return ctx
}

// billed reports whether the store bills reads.
func (s *space) billed() bool { return s.spent != nil }

// now returns the time for the store.
func (s *space) now() time.Time { return s.h.opts.Now() }
