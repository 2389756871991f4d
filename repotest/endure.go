package repotest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Endure drives repositories that share one store, as several processes with
// clocks that disagree would, through a random history in which any call may
// fail, and checks the promise alone: what was admitted in any window, less what
// may have been given back, is at most the capacity plus the refill of the
// window, by the largest time passed so far, plus slack, a part of the
// capacity, plus what is refilled in the fifth of a second by which the clocks
// disagree. admin never fails; it sets things up and changes limits.
//
// It returns what was consumed, net, at least: a store that counts less has
// given something back twice. The history depends on seed alone.
func Endure(tb testing.TB, seed uint64, ops int, slack float64, admin limiter.Repository, clients ...limiter.Repository) []Net {
	tb.Helper()
	e := &endurance{
		TB: tb, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), ctx: context.Background(), slack: slack,
		admin: admin, clients: clients, now: time.Date(2026, time.January, 31, 23, 58, 0, 0, time.UTC),
		books: map[accountLimit]*book{},
	}
	e.prepare()
	for range ops {
		e.step()
	}
	return e.nets()
}

// Net is what was consumed of one limit of a bucket, less what was given back.
type Net struct {
	Entity, Resource, Limit string // the bucket, and the limit
	Least                   int64  // whole tokens: what is certain, at the least
}

// endurance is a history under way.
type endurance struct {
	testing.TB
	seed    uint64
	rng     *rand.Rand
	ctx     context.Context
	slack   float64
	admin   limiter.Repository
	clients []limiter.Repository
	now     time.Time
	events  int
	limits  []limiter.Limit
	books   map[accountLimit]*book
	leases  []endured
	log     []string
}

type accountLimit struct{ entity, resource, limit string }

// book is the ledger of one limit of a bucket, and its sum.
type book struct {
	ledger  *bucket.Ledger
	least   int64
	largest int64 // time passed to a call about it
}

// endured is a charge that may be given back, by the client that made it.
type endured struct {
	client  limiter.Repository
	account *limiter.Account
	left    limiter.Amounts
}

func (e *endurance) prepare() {
	e.Helper()
	for _, child := range []string{"key-1", "key-2", "key-3"} {
		ent := limiter.Entity{ID: child, Name: child, Parent: "team", Cascade: true, CreatedAt: e.now}
		e.must(e.admin.CreateEntity(e.ctx, ent, e.event("entity_created")))
	}
	e.configure()
}

// configure stores other limits. What the clients remember of the old ones is
// not the point here, and what a bucket does between the two is the store's to
// decide, so all forget and all ledgers begin anew.
func (e *endurance) configure() {
	e.Helper()
	e.limits = nil
	for _, name := range someLimits {
		period := pick(e.rng, []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour})
		e.limits = append(e.limits, limiter.Custom(name, 5+e.rng.Int64N(60), 1+e.rng.Int64N(60), period))
	}
	e.must(e.admin.SetConfig(e.ctx, limiter.Config{Limits: e.limits}, e.event("limits_set")))
	for _, repo := range append(e.clients, e.admin) {
		if r, ok := repo.(interface{ Forget() }); ok {
			r.Forget()
		}
	}
	for _, b := range e.books {
		b.ledger = nil
	}
}

func (e *endurance) event(action string) limiter.AuditEvent {
	e.events++
	return limiter.AuditEvent{ID: fmt.Sprintf("01%024d", e.events), Action: action, Entity: "endure", At: e.now}
}

func (e *endurance) step() {
	e.Helper()
	switch n := e.rng.IntN(1000); {
	case n < 2:
		e.now = e.now.Add(time.Duration(e.rng.Int64N(int64(3 * time.Hour))))
	case n < 30:
		e.now = e.now.Add(time.Duration(e.rng.Int64N(int64(time.Minute))))
	case n < 500:
		e.now = e.now.Add(time.Duration(e.rng.Int64N(int64(300 * time.Millisecond))))
	}
	switch n := e.rng.IntN(100); {
	case n < 1:
		e.configure()
	case n < 30 && len(e.leases) > 0:
		e.credit()
	default:
		e.consume()
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
	c := limiter.Charge{Entity: pick(e.rng, []string{"alice", "key-1", "key-2", "key-3", "team"}), Resource: pick(e.rng, someResources)}
	for _, i := range e.rng.Perm(len(someLimits))[:1+e.rng.IntN(2)] {
		c.Amounts = c.Amounts.And(someLimits[i], e.rng.Int64N(8))
	}
	out, err := client.Consume(e.ctx, now, c)
	e.note("%s Consume %s %s %s: %v %v", stamp(now), c.Entity, c.Resource, c.Amounts, out.Admitted, err)
	if err != nil || !out.Admitted {
		return
	}
	for _, b := range []limiter.Bucket{out.Self, out.Parent} {
		if b.Account == nil {
			continue
		}
		e.admitted(now.UnixMilli(), b.Account, c.Amounts)
		e.leases = append(e.leases, endured{client, b.Account, c.Amounts})
	}
}

// admitted holds a charge against the promise.
func (e *endurance) admitted(now int64, account *limiter.Account, amounts limiter.Amounts) {
	e.Helper()
	for limit, n := range amounts.All() {
		b := e.book(now, account, limit)
		b.least += n
		l := e.limits[slices.IndexFunc(e.limits, func(l limiter.Limit) bool { return l.Name == limit })]
		if b.ledger == nil {
			b.ledger = bucket.NewLedger(rateOf(l))
		}
		allowed := int64(e.slack*float64(l.Capacity*bucket.Milli)) + bucket.Accrued(0, skew.Milliseconds(), rateOf(l)) + 1
		if excess := b.ledger.Admit(b.largest, n*bucket.Milli); excess > allowed {
			e.fail("%s of %s and %s: a window that ends here admits %d thousandths more than the limits allow", l, account.Entity, account.Resource, excess)
		}
	}
}

func (e *endurance) book(now int64, account *limiter.Account, limit string) *book {
	k := accountLimit{account.Entity, account.Resource, limit}
	if e.books[k] == nil {
		e.books[k] = &book{}
	}
	e.books[k].largest = max(e.books[k].largest, now)
	return e.books[k]
}

// credit settles a lease: in part, more than all, or as a whole. What fails may
// have been given back all the same, but was surely not taken.
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
	err := l.client.Credit(e.ctx, now, limiter.Credit{Account: l.account, Amounts: amounts, Undo: undo})
	e.note("%s Credit %s %s %s undo=%v: %v", stamp(now), l.account.Entity, l.account.Resource, amounts, undo, err)
	for limit, n := range amounts.All() {
		b := e.book(now.UnixMilli(), l.account, limit)
		if n < 0 && err != nil {
			continue
		}
		b.least -= n
		if b.ledger == nil {
			continue // it begins full, whatever this did
		}
		if n > 0 {
			b.ledger.Give(b.largest, n*bucket.Milli)
		} else {
			b.ledger.Take(b.largest, -n*bucket.Milli)
		}
	}
}

func (e *endurance) nets() []Net {
	var all []Net
	for k, b := range e.books {
		all = append(all, Net{k.entity, k.resource, k.limit, b.least})
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
	if len(e.log) == 30 {
		e.log = e.log[1:]
	}
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

func (e *endurance) fail(format string, args ...any) {
	e.Helper()
	e.Fatalf("%s\n\nthe last operations:\n  %s\n\nseed %d", fmt.Sprintf(format, args...), strings.Join(e.log, "\n  "), e.seed)
}
