package repotest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Endure drives repositories that share one store, like several processes with
// different clocks, through a random history in which any call may fail. It
// checks two guarantees.
//
// First, in any window, the tokens admitted less the tokens that may have been
// given back are at most the capacity plus the refill of the window. The
// window ends at the largest time passed so far. Two allowances are added:
// slack, as a fraction of the capacity, and the refill of 200 ms, by which the
// clocks differ.
//
// Second, a limit refuses a charge only if its bucket may hold too few tokens.
// Endure does not check this if a client has a method Lossy that returns true:
// its requests may be executed without an answer, and then charge twice.
//
// A client with a method Holds may hold tokens that were given back, and spend them
// later. Holds returns for how long, while the given limits are in force. A window
// then allows for what was given back up to that time before it, and for what a
// credit takes. The history is busy: limits are large, most calls go to one bucket at
// a time, and slow phases in which tokens are held alternate with bursts.
//
// If admin has a method Elapse, it is called with each step of the history's
// clock, so that timers can follow it.
//
// The limits are rates and quotas, and shadow limits at times. A stored window of a
// quota admits at most the largest capacity in force in it and what may have been
// given back to it, without an allowance. A shadow limit is spared only if it holds
// too little. Limits go back to what they were before. The first guarantee holds while
// they change, and over the expiry of buckets.
//
// The history adds, drops and changes limits, gives entities a parent, resets and
// tops up buckets, and switches a level off and on. It makes these changes through
// admin, which must not fail. Within a minute every client obeys a switch. A client
// with a method Forget starts cold at times. A client may cache limits and parents
// for a minute.
//
// A client with a method Interleave(func()) gets a function that makes one
// step of the history. The client may call the function during a call of its
// own, such as between a request and its response. At other times the function
// does nothing.
//
// Endure returns lower bounds of the net consumption. A store that counts less
// has given tokens back twice. The history depends on seed and on the
// interleaving of clients.
func Endure(
	tb testing.TB, seed uint64, ops int, slack float64, admin limiter.Repository, clients ...limiter.Repository,
) []Net {
	tb.Helper()
	e := &endurance{
		TB: tb, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), ctx: context.Background(), slack: slack,
		admin: admin, clients: clients, now: time.Date(2026, time.January, 31, 23, 58, 0, 0, time.UTC),
		books: map[accountLimit]*book{}, after: map[string]int64{}, drops: map[string]int{}, oracle: newOracle(),
		history: map[string][]validity{},
	}

	// A client's call releases the lock, so that interleave can make a step
	// meanwhile.
	e.mu.Lock()
	defer e.mu.Unlock()

	for _, c := range clients {
		if c, ok := c.(interface{ Interleave(step func()) }); ok {
			c.Interleave(e.interleave)
		}

		if c, ok := c.(interface{ Lossy() bool }); ok && c.Lossy() {
			e.lossy = true
		}

		if c, ok := c.(interface {
			Holds(limits []limiter.Limit) time.Duration
		}); ok {
			e.busy = &busyHistory{endurance: e, holds: c.Holds}
		}
	}

	e.prepare()
	for range ops {
		e.advance()
		e.step()
		// A call that overlapped the step may have come first, so some effects
		// are booked last.
		for _, book := range e.later {
			book()
		}
		e.later = nil
	}

	return e.nets()
}

// Net is the consumption of one limit of a bucket, less the tokens given back.
// Limits that are dropped during the run are left out, since their totals are
// dropped with them.
type Net struct {
	Entity, Resource, Limit string // the limit and its bucket
	Least                   int64  // lower bound, in whole tokens
}

// endurance is a running history.
type endurance struct {
	testing.TB
	mu      sync.Mutex // released during a client's call
	seed    uint64
	rng     *rand.Rand
	ctx     context.Context
	slack   float64
	admin   limiter.Repository
	clients []limiter.Repository
	now     time.Time
	events  int
	limits  []limiter.Limit

	// after is the time, by limit, until which clients may use its old value.
	after map[string]int64

	// drops is the number of times that each limit was dropped.
	drops  map[string]int
	late   []string // entities that have no parent yet
	books  map[accountLimit]*book
	leases []heldCharge
	log    []string
	lossy  bool
	busy   *busyHistory // nil unless a client holds tokens

	calling bool // a client's call is under way

	// later holds bookings that follow the step, since another call may have
	// been admitted before the call that they book.
	later []func()

	// overlapped reports whether another call was made during the last one.
	overlapped bool

	level     levelOff
	topUps    int
	lastTopUp limiter.Fill

	// topUpUntil is the time until which the store surely remembers the ID of
	// the last top-up.
	topUpUntil time.Time
	crowd      crowd
	oracle     *oracle
	history    map[string][]validity // by limit
}

// heldCharge is a charge that its client can give back.
type heldCharge struct {
	client limiter.Repository
	payers []payer
	left   limiter.Amounts
	drops  map[string]int // at the time of the charge
}

// payer is an account that paid a charge, except for the limits that were spared.
type payer struct {
	*limiter.Account
	spared []string
}

func (e *endurance) prepare() {
	e.Helper()
	e.create("team", "org")
	for _, child := range []string{"key-1", "key-2", "key-3"} {
		e.create(child, "team")
	}

	e.late = []string{"bob", "carol"}

	for _, name := range someLimits {
		e.add(e.limit(name))
	}
	e.store()
}

// create creates an entity that cascades to a parent.
func (e *endurance) create(child, parent string) {
	e.Helper()
	ent := limiter.Entity{
		ID: child, Name: child, Parent: parent, Cascade: true, CreatedAt: e.now, Generation: e.now.UnixMilli(),
	}
	e.must(e.admin.CreateEntity(e.ctx, ent, e.event("entity_created")))
	e.note("CreateEntity %s, a child of %s", child, parent)
}

func (e *endurance) limit(name string) limiter.Limit {
	if e.busy != nil {
		return e.busy.limit(name)
	}

	period := pick(e.rng, []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour})
	l := limiter.Custom(name, 5+e.rng.Int64N(60), 1+e.rng.Int64N(60), period)

	if e.chance(3) {
		w := pick(e.rng, someWindows)
		l = limiter.Quota(name, 20+e.rng.Int64N(200), w.every).In(w.zone)
	}

	l.IsShadow = e.chance(5)
	return l
}

// configure drops, adds or changes one limit. The other limits are not
// affected. The first limit is never dropped, so that its total can be
// checked.
func (e *endurance) configure() {
	e.Helper()

	name := pick(e.rng, someLimits)
	i := slices.IndexFunc(e.limits, func(l limiter.Limit) bool { return l.Name == name })
	leaves := i >= 0 && name != someLimits[0] && e.chance(2)

	if i >= 0 {
		e.end(name, leaves)
		e.limits = slices.Delete(slices.Clone(e.limits), i, i+1)
	}

	if leaves {
		e.drops[name]++
	} else {
		e.add(e.nextLimit(name))
	}

	e.store()
}

// nextLimit returns a limit that a name may have next: often one that it had before, or
// that with another capacity.
func (e *endurance) nextLimit(name string) limiter.Limit {
	had := e.history[name]
	if len(had) == 0 || e.chance(3) {
		return e.limit(name)
	}

	l := pick(e.rng, had[max(0, len(had)-3):]).limit
	if e.chance(2) {
		l.Capacity = max(1, l.Capacity*pick(e.rng, []int64{2, 3, 6, 8})/4)
	}
	return l
}

// add adds a limit, in the order of names.
func (e *endurance) add(l limiter.Limit) {
	e.returns(l)
	e.begin(l)

	at, _ := slices.BinarySearchFunc(e.limits, l.Name, func(l limiter.Limit, name string) int {
		return strings.Compare(l.Name, name)
	})
	e.limits = slices.Insert(slices.Clone(e.limits), at, l)
}

// maxCacheAge is how long a client may use limits that have changed.
const maxCacheAge = time.Minute + skew

func (e *endurance) store() {
	e.Helper()
	// An organization pays for keys below its teams only by limits of its own.
	for _, s := range []limiter.Scope{{}, {Entity: "org"}} {
		e.must(e.admin.SetConfig(e.ctx, limiter.Config{Scope: s, Limits: e.limits}, e.event("limits_set")))
	}
	e.note("%s SetConfig %v", stamp(e.now), e.limits)
}

func (e *endurance) event(action string) limiter.AuditEvent {
	e.events++
	return limiter.AuditEvent{ID: fmt.Sprintf("01%024d", e.events), Action: action, Entity: "endure", At: e.now}
}

// advance moves the clock, and lets clients that have one move theirs.
func (e *endurance) advance() {
	var by time.Duration
	switch n := e.rng.IntN(1000); {
	case e.busy != nil:
		by = e.busy.advance()
	case n < 2:
		by = time.Duration(e.rng.Int64N(int64(3 * time.Hour)))
	case n < 8: // close to a boundary
		by = e.rush()
	case n < 30:
		by = time.Duration(e.rng.Int64N(int64(time.Minute)))
	case n < 500:
		by = time.Duration(e.rng.Int64N(int64(300 * time.Millisecond)))
	}

	e.now = e.now.Add(by)
	// Timers of a store follow the clock of the history.
	if admin, ok := e.admin.(interface{ Elapse(time.Duration) }); ok && by > 0 {
		admin.Elapse(by)
	}
}

// step makes one random operation.
func (e *endurance) step() {
	e.Helper()
	switch n := e.rng.IntN(200); {
	case n < 6 && e.busy.rare():
		e.consume()
	case n < 4:
		e.configure()
	case n < 6:
		e.restart()
	case n == 6 && len(e.late) > 0:
		e.create(e.late[0], "team")
		e.late = e.late[1:]
	case n == 7 && e.busy == nil:
		e.toggle()
	case n < 11 && e.busy == nil:
		e.fill()
	case n < 60 && len(e.leases) > 0 && !e.busy.keep():
		e.credit()
	default:
		e.consume()
	}
}

// interleave makes one step during a client's call. The clock stands still, so
// the call may take effect before or after the step.
func (e *endurance) interleave() {
	// Outside of a client's call the history holds the lock, as does another
	// step that is interleaved.
	if !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()

	// The history may have ended, which releases the lock too.
	if !e.calling {
		return
	}

	e.overlapped = true
	e.note("meanwhile:")
	e.step()
}

// call makes a client's call, which other steps may interleave.
func (e *endurance) call(do func()) {
	// One level is enough: a step that is interleaved lets no other one in.
	if e.calling {
		do()
		return
	}

	e.calling, e.overlapped = true, false
	e.mu.Unlock()
	do()
	e.mu.Lock()
	e.calling = false
}

// restart makes one client start cold.
func (e *endurance) restart() {
	i := e.rng.IntN(len(e.clients))
	if r, ok := e.clients[i].(forgetter); ok {
		e.note("client %d forgets", i)
		r.Forget()
	}
}

// skew is the difference between the clocks of the first and the last client.
const skew = 200 * time.Millisecond

// client returns a random client and its time.
func (e *endurance) client() (limiter.Repository, time.Time) {
	i := e.rng.IntN(len(e.clients))
	return e.clients[i], e.clock(e.clients[i])
}

func (e *endurance) clock(client limiter.Repository) time.Time {
	i := slices.Index(e.clients, client)
	return e.now.Add(skew * time.Duration(i) / time.Duration(max(1, len(e.clients)-1)))
}

func (e *endurance) nets() []Net {
	var all []Net
	for k, b := range e.books {
		if k.limit == someLimits[0] {
			all = append(all, Net{k.entity, k.resource, k.limit, b.least})
		}
	}
	return all
}

func (e *endurance) chance(oneIn int) bool { return e.rng.IntN(oneIn) == 0 }

func (e *endurance) must(err error) {
	e.Helper()
	if err != nil {
		e.fail("setting up: %v", err)
	}
}

func (e *endurance) note(format string, args ...any) {
	if len(e.log) == 60 {
		e.log = e.log[1:]
	}
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

func (e *endurance) fail(format string, args ...any) {
	e.Helper()
	e.Fatalf("%s\n\nthe last operations:\n  %s\n\nseed %d", fmt.Sprintf(format, args...),
		strings.Join(e.log, "\n  "), e.seed)
}
