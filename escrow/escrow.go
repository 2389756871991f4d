// Package escrow makes admissions cheap: it holds tokens that it has taken from
// a store and not yet spent, so that most calls need no request.
//
//	lim, err := limiter.New(escrow.New(repo, nil), nil)
//
// A pot belongs to one entity and resource. It holds what a request took beyond
// the calls that it was made for, tokens of all payers of a charge together. Four
// rules keep the promise of the limiter, with a little more slack:
//
//   - Debit first. A token is spent at most once, after the store has debited it.
//   - Short holds. A token can be spent for 1 % of the shortest fill time of its
//     limits, and at most MaxHold. After that it is returned within the same time,
//     or dropped.
//   - A pot never holds more than its grants left over.
//   - A grant adds at most what the pot spent in the last hold, at most an eighth
//     of what the bucket has left, and all pots of a process together hold at most
//     an eighth of a capacity. It adds nothing for a single call in a hold, nor
//     while the store takes half a hold to answer.
//
// Over any window, admissions less give-backs in the window, or up to three holds
// before it, are at most the capacity, the refill of the window and 3 % of the
// capacity, besides the slack of the store. Callers that need the same bucket at
// the same time share a request. With MaxHold negative, they only share, which is
// exact.
//
// Quotas are exact. A pot holds tokens of a quota only inside the window that the
// store debited them in, and none once less than an eighth of the capacity is left.
// At the end of the window it drops them: they are neither spent in the next window
// nor given back to it, even if a process whose clock is ahead has begun that window
// in the store. Detail.Starts of an outcome names the window that paid. A token that
// is dropped, because a process was killed or the store was away, is lost until the
// next window.
//
// Pots hold and spend the tokens of a shadow limit like those of an enforced one.
// So a shadow limit reports exactly the calls that it would refuse if it were
// enforced with the same escrow. A call that it does not cover goes to the store
// unchanged, so that the store counts it, and counts it once. Such a call costs a
// request, as without escrow.
//
// After a bucket has refused a charge, a pot sends no request for a charge that the
// last answer, refilled up to the present time, does not cover. It forgets the
// answer after a hold, so it may learn a hold late of what other processes give
// back.
//
// A hold ends by the callers' clock or by the machine's, the earlier of both, and
// when the callers' clock goes back by more than an eighth of it. A caller that
// waits for the request of another is charged at the time when its own is sent:
// its now, plus the time that it waited by the machine's clock. A caller that does
// not wait, or whose now is more than two seconds off the machine's, as in a
// replay, is charged at its now.
//
// Peek, Buckets and refusals show what all pots of the process hold as available.
// A call spends only what its own pot and the store have: if the tokens of other
// pots would cover it, a refusal shows less of them, so that its wait lasts until
// they are back, or less if the refill is sooner.
//
// A late debit that leaves the bucket in debt does not take back what pots hold:
// they still admit that much.
//
// Changes of limits and entities, switches, resets and top-ups through a Repository
// apply at once: the pots that they concern return their tokens first. Those of
// other processes apply when the holds end, which is after a second at most. Until
// then a pot may spend what it holds in a bucket that is disabled, or beside one
// that was reset. The first answer that a level is disabled closes the pot.
//
// Usage counts the tokens that were debited, and one event per request. A return
// may count in the next window, and dropped tokens count as used.
package escrow

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

const (
	defaultMaxHold = time.Second
	closeTimeout   = 10 * time.Second
)

// Options configures New. The zero value of a field is its default.
type Options struct {
	// MaxHold is the longest time that a token is held to be spent; default 1 s.
	// If negative, no token is held.
	MaxHold time.Duration
}

// Repository holds tokens of a store. It is safe for concurrent use.
type Repository struct {
	limiter.Repository // the store
	*escrow
	pots *pots  // of this namespace
	name string // of the namespace, for a store that does not identify it
	view bool   // Close does nothing
}

// escrow holds what all views of a Repository share.
type escrow struct {
	maxHold time.Duration
	start   time.Time // of the machine's time
	janitor janitor

	mu         sync.Mutex
	closed     bool
	namespaces map[string]*pots

	requests, shared, returned, dropped atomic.Int64
	forgotten                           atomic.Int64 // calls admitted from pots of purged namespaces
}

// Stats holds counters since New, summed over all namespaces. Tokens of different
// limits are added up.
type Stats struct {
	Pots            int64 // buckets with a pot now
	Held            int64 // tokens held now
	AdmittedLocally int64 // calls admitted without a request
	Requests        int64 // charges sent to the store
	Shared          int64 // calls that shared a request with another
	Returned        int64 // tokens given back to the store
	// Dropped counts tokens that could not be given back in time, or whose window
	// has ended.
	Dropped int64
}

// New returns a repository that holds tokens of repo. Close closes both.
func New(repo limiter.Repository, opts *Options) *Repository {
	e := &escrow{maxHold: defaultMaxHold, start: time.Now(), namespaces: map[string]*pots{}}
	if opts != nil && opts.MaxHold != 0 {
		e.maxHold = max(opts.MaxHold, 0)
	}
	e.janitor.init(e)

	return &Repository{Repository: repo, escrow: e, pots: e.potsOf(repo, "")}
}

// potsOf returns the pots of a store's namespace. Views of one namespace share
// them.
func (e *escrow) potsOf(repo limiter.Repository, name string) *pots {
	id := "name:" + name
	if identified, ok := limiter.Optional[limiter.NamespaceIdentifier](repo); ok {
		id = identifiedBy + identified.NamespaceID()
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.namespaces[id]
	if all == nil {
		all = newPots(e)
		e.namespaces[id] = all
		// Close has emptied the pots that it found. Pots of a later view must
		// stay empty, since the janitor has ended.
		if e.closed {
			all.keepClosed(&fence{everything})
		}
	}
	return all
}

// identifiedBy is the prefix of a key of namespaces that is an ID.
const identifiedBy = "id:"

// knownPots returns the pots of a namespace, or nil if it has none yet.
func (e *escrow) knownPots(id string) *pots {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.namespaces[identifiedBy+id]
}

// forgetPots removes the pots of a namespace, which are empty, and closes them for
// good.
func (e *escrow) forgetPots(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()

	all := e.namespaces[identifiedBy+id]
	if all == nil {
		return
	}

	// A view may outlive its namespace. Its calls go to the store, which refuses
	// them.
	all.keepClosed(&fence{everything})

	// Counters of a program must not fall when a namespace is purged.
	var s Stats
	all.addTo(&s)
	e.forgotten.Add(s.AdmittedLocally)

	delete(e.namespaces, identifiedBy+id)
}

// everyPots returns the pots of all namespaces.
func (e *escrow) everyPots() (all []*pots) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.namespaces {
		all = append(all, p)
	}
	return all
}

// machine returns the time of this machine, which no caller can set.
func (e *escrow) machine() time.Duration { return time.Since(e.start) }

// Stats returns the current counters.
func (r *Repository) Stats() Stats {
	s := Stats{
		Held: r.janitor.held(), Requests: r.requests.Load(), Shared: r.shared.Load(),
		Returned: r.returned.Load(), Dropped: r.dropped.Load(), AdmittedLocally: r.forgotten.Load(),
	}
	for _, all := range r.everyPots() {
		all.addTo(&s)
	}
	return s
}

// Namespace returns a view of another namespace, with pots of its own.
func (r *Repository) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	store, err := r.Repository.Namespace(ctx, name)
	if err != nil {
		return nil, err
	}

	return &Repository{Repository: store, escrow: r.escrow, pots: r.potsOf(store, name), name: name, view: true}, nil
}

// Close returns all held tokens, then closes the store. It waits for requests that
// are under way, for at most 10 seconds. On a view, Close does nothing.
func (r *Repository) Close() error {
	if r.view {
		return r.Repository.Close()
	}

	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()

	if first {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()

		// The pots close before the janitor does, since it returns what they
		// hold. Their fences are never opened. If a request is stuck for longer
		// than the timeout, its tokens are lost.
		for _, all := range r.everyPots() {
			_, _ = all.fence(ctx, everything)
		}
		r.janitor.close(ctx)
	}
	return r.Repository.Close()
}

// Statistics iterates over the values of Stats, then over those that the store
// reports.
func (r *Repository) Statistics() iter.Seq[limiter.Statistic] {
	return func(yield func(limiter.Statistic) bool) {
		for _, s := range r.Stats().statistics() {
			if !yield(s) {
				return
			}
		}
		if store, ok := r.Repository.(limiter.StatisticsReporter); ok {
			store.Statistics()(yield)
		}
	}
}

// statistics returns the counters by name.
func (s Stats) statistics() []limiter.Statistic {
	total := func(name, unit, description string, value int64) limiter.Statistic {
		return limiter.Statistic{Name: name, Unit: unit, Description: description, Total: true, Value: float64(value)}
	}
	return []limiter.Statistic{
		{Name: "escrow.pots", Unit: "{pot}", Description: "Buckets with a pot", Value: float64(s.Pots)},
		{Name: "escrow.held", Unit: "{token}", Description: "Tokens held to be spent", Value: float64(s.Held)},
		total("escrow.local_admissions", "{call}", "Calls admitted without a request", s.AdmittedLocally),
		total("escrow.requests", "{request}", "Charges sent to the store", s.Requests),
		total("escrow.shared", "{call}", "Calls that shared a request with another", s.Shared),
		total("escrow.returned", "{token}", "Tokens given back to the store", s.Returned),
		total("escrow.dropped", "{token}", "Tokens that could not be given back in time", s.Dropped),
	}
}
