package repotest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Endure drives repositories that share one store, as several processes with
// clocks that disagree would, through a random history in which any call may
// fail, and checks two promises. What was admitted in any window, less what may
// have been given back, is at most the capacity plus the refill of the window, by
// the largest time passed so far, plus slack, a part of the capacity, plus what
// is refilled in the fifth of a second by which the clocks disagree. And a
// limit never refuses by fewer tokens than its bucket surely holds, unless a client
// has a method Lossy that reports true: its requests may be executed without an
// answer, and then charge twice.
//
// Limits come, go and change, entities get a parent late, and a client with a
// method Forget starts cold now and then. admin never fails; it makes these
// changes. A client may remember limits and parents for a minute.
//
// A client with a method Interleave(func()) gets a function that makes one step
// of the history. It may call it while a call of its own is under way, such as
// between a request and its answer; the function does nothing at other times.
//
// Endure returns what was consumed, net, at least: a store that counts less has
// given something back twice. The history depends on seed alone, and on when
// clients interleave.
func Endure(tb testing.TB, seed uint64, ops int, slack float64, admin limiter.Repository, clients ...limiter.Repository) []Net {
	tb.Helper()
	e := &endurance{
		TB: tb, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), ctx: context.Background(), slack: slack,
		admin: admin, clients: clients, now: time.Date(2026, time.January, 31, 23, 58, 0, 0, time.UTC),
		books: map[accountLimit]*book{}, after: map[string]int64{}, drops: map[string]int{},
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.prepare()
	for _, c := range clients {
		if c, ok := c.(interface{ Interleave(step func()) }); ok {
			c.Interleave(e.between)
		}
		if c, ok := c.(interface{ Lossy() bool }); ok && c.Lossy() {
			e.lossy = true
		}
	}
	for range ops {
		e.pass()
		e.step()
		for _, book := range e.later {
			book()
		}
		e.later = nil
	}
	return e.nets()
}

// Net is what was consumed of one limit of a bucket, less what was given back.
// Limits that come and go have none: their totals go with them.
type Net struct {
	Entity, Resource, Limit string // the bucket, and the limit
	Least                   int64  // whole tokens: what is certain, at the least
}

// endurance is a history under way.
type endurance struct {
	testing.TB
	mu         sync.Mutex // held except while a client's call is under way
	seed       uint64
	rng        *rand.Rand
	ctx        context.Context
	slack      float64
	admin      limiter.Repository
	clients    []limiter.Repository
	now        time.Time
	events     int
	limits     []limiter.Limit
	after      map[string]int64 // by limit: until then clients may know another of that name
	drops      map[string]int   // by limit: how often it was dropped
	late       []string         // entities that have no parent yet
	books      map[accountLimit]*book
	leases     []endured
	log        []string
	lossy      bool
	calling    bool     // a client's call is under way
	later      []func() // what to book after the step: its call may have been admitted before
	overlapped bool     // something happened during the last call
}

// endured is a charge that may be given back, by the client that made it.
type endured struct {
	client  limiter.Repository
	account *limiter.Account
	left    limiter.Amounts
	drops   map[string]int // when it was made
}

func (e *endurance) prepare() {
	e.Helper()
	for _, child := range []string{"key-1", "key-2", "key-3"} {
		e.adopt(child)
	}
	e.late = []string{"bob", "carol"}
	for _, name := range someLimits {
		e.limits = append(e.limits, e.limit(name))
	}
	e.store()
}

// adopt makes an entity cascade to the team.
func (e *endurance) adopt(child string) {
	e.Helper()
	ent := limiter.Entity{ID: child, Name: child, Parent: "team", Cascade: true, CreatedAt: e.now}
	e.must(e.admin.CreateEntity(e.ctx, ent, e.event("entity_created")))
	e.note("CreateEntity %s, a child of team", child)
}

func (e *endurance) limit(name string) limiter.Limit {
	period := pick(e.rng, []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour})
	return limiter.Custom(name, 5+e.rng.Int64N(60), 1+e.rng.Int64N(60), period)
}

// configure drops, adds or changes one limit. The others go on as if nothing had
// happened. The first limit is never dropped, so that its total can be checked.
func (e *endurance) configure() {
	e.Helper()
	name := pick(e.rng, someLimits)
	i := slices.IndexFunc(e.limits, func(l limiter.Limit) bool { return l.Name == name })
	switch {
	case i < 0:
		e.limits = append(e.limits, e.limit(name))
	case e.chance(2) && name != someLimits[0]:
		e.limits = slices.Delete(slices.Clone(e.limits), i, i+1)
		e.drops[name]++
		e.after[name] = e.now.Add(maxCacheAge).UnixMilli()
	default:
		e.limits = slices.Clone(e.limits)
		e.limits[i] = e.limit(name)
		e.after[name] = e.now.Add(maxCacheAge).UnixMilli()
	}
	for k, b := range e.books {
		if k.limit == name {
			b.restart()
		}
	}
	e.store()
}

// maxCacheAge is for how long a client may remember limits that have changed.
const maxCacheAge = time.Minute + skew

func (e *endurance) store() {
	e.Helper()
	e.must(e.admin.SetConfig(e.ctx, limiter.Config{Limits: e.limits}, e.event("limits_set")))
	e.note("%s SetConfig %v", stamp(e.now), e.limits)
}

func (e *endurance) event(action string) limiter.AuditEvent {
	e.events++
	return limiter.AuditEvent{ID: fmt.Sprintf("01%024d", e.events), Action: action, Entity: "endure", At: e.now}
}

// pass lets time go by.
func (e *endurance) pass() {
	switch n := e.rng.IntN(1000); {
	case n < 2:
		e.now = e.now.Add(time.Duration(e.rng.Int64N(int64(3 * time.Hour))))
	case n < 30:
		e.now = e.now.Add(time.Duration(e.rng.Int64N(int64(time.Minute))))
	case n < 500:
		e.now = e.now.Add(time.Duration(e.rng.Int64N(int64(300 * time.Millisecond))))
	}
}

// step makes one operation.
func (e *endurance) step() {
	e.Helper()
	switch n := e.rng.IntN(200); {
	case n < 4:
		e.configure()
	case n < 6:
		e.restart()
	case n == 6 && len(e.late) > 0:
		e.adopt(e.late[0])
		e.late = e.late[1:]
	case n < 60 && len(e.leases) > 0:
		e.credit()
	default:
		e.consume()
	}
}

// between makes one step while a client's call is under way. No time passes: the
// call may take effect before or after it.
func (e *endurance) between() {
	if !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()
	if !e.calling {
		return
	}
	e.overlapped = true
	e.note("meanwhile:")
	e.step()
}

// call makes a client's call, during which others may be made.
func (e *endurance) call(do func()) {
	if e.calling { // a step between: one level is enough
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

// skew is by how much the clocks of the first and the last client disagree.
const skew = 200 * time.Millisecond

// client is one of them, and the time as it has it.
func (e *endurance) client() (limiter.Repository, time.Time) {
	i := e.rng.IntN(len(e.clients))
	return e.clients[i], e.clock(e.clients[i])
}

func (e *endurance) clock(client limiter.Repository) time.Time {
	i := slices.Index(e.clients, client)
	return e.now.Add(skew * time.Duration(i) / time.Duration(max(1, len(e.clients)-1)))
}

func (e *endurance) consume() {
	e.Helper()
	client, now := e.client()
	c := limiter.Charge{Entity: pick(e.rng, []string{"alice", "bob", "carol", "key-1", "key-2", "key-3", "team"}), Resource: pick(e.rng, someResources)}
	for _, i := range e.rng.Perm(len(someLimits))[:1+e.rng.IntN(2)] {
		c.Amounts = c.Amounts.And(someLimits[i], e.rng.Int64N(8))
	}
	drops := maps.Clone(e.drops)
	var out limiter.Outcome
	var err error
	e.call(func() { out, err = client.Consume(e.ctx, now, c) })
	e.note("%s Consume %s %s %s: %v %v", stamp(now), c.Entity, c.Resource, c.Amounts, out.Admitted, err)
	if err != nil {
		e.unknown(c.Entity, c.Resource)
		e.unknown("team", c.Resource) // may have paid with it
		return
	}
	for _, b := range []limiter.Bucket{out.Self, out.Parent} {
		if b.Account == nil {
			continue
		}
		e.shown(now.UnixMilli(), b, c.Amounts, out.Admitted)
		if out.Admitted {
			e.admitted(now.UnixMilli(), b.Account, c.Amounts)
			e.leases = append(e.leases, endured{client, b.Account, c.Amounts, drops})
		}
	}
	if !out.Admitted && out.Parent.Account != nil { // one may have paid, and not got it back
		e.unknown(out.Self.Account.Entity, c.Resource)
		e.unknown(out.Parent.Account.Entity, c.Resource)
	}
}

// credit settles a lease: in part, more than all, or as a whole. What fails may
// have been given back all the same, and may not have been taken.
func (e *endurance) credit() {
	i := e.rng.IntN(len(e.leases))
	l := e.leases[i]
	e.leases = slices.Delete(e.leases, i, i+1)
	now, undo := e.clock(l.client), e.chance(3)
	var amounts limiter.Amounts
	for limit, n := range l.left.All() {
		switch {
		case undo:
			amounts = amounts.And(limit, n)
		case e.chance(2):
			amounts = amounts.And(limit, e.rng.Int64N(n+1))
		default:
			amounts = amounts.And(limit, -e.rng.Int64N(2*n+2))
		}
	}
	for limit, n := range amounts.All() {
		e.book(now.UnixMilli(), l.account, limit).give(max(n, 0)) // others may take it before the call returns
	}
	var err error
	e.call(func() {
		err = l.client.Credit(e.ctx, now, limiter.Credit{Account: l.account, Amounts: amounts, Undo: undo})
	})
	e.note("%s Credit %s %s %s undo=%v: %v", stamp(now), l.account.Entity, l.account.Resource, amounts, undo, err)
	if err != nil {
		e.unknown(l.account.Entity, l.account.Resource)
		return
	}
	for limit, n := range amounts.All() {
		b := e.book(now.UnixMilli(), l.account, limit)
		b.floorKnown = b.floorKnown && n >= 0 // until the next admission
		switch {
		case n > 0 && (e.calling || e.overlapped):
			e.later = append(e.later, func() { b.ledger = nil }) // which came first shows only in the store
		case e.drops[limit] == l.drops[limit]: // else the bucket may have lacked the limit
			e.later = append(e.later, func() { b.take(max(-n, 0)) })
		}
	}
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
	e.Fatalf("%s\n\nthe last operations:\n  %s\n\nseed %d", fmt.Sprintf(format, args...), strings.Join(e.log, "\n  "), e.seed)
}
