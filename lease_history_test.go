package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// history drives one lease through random events and keeps its own books of the
// accounts.
type history struct {
	*world
	t     *testing.T
	rand  *rand.Rand
	lease *limiter.Lease
	deep  bool // events also happen during settlements
	depth int
	paid  map[any]map[string]int64 // by Account.Ref: confirmed and not given back
	roles map[any]string           // the owner of each account
	net   map[string]int64         // amounts that the lease holds
	todo  map[string]int64         // the part of net that is not settled yet
	lacks map[string]bool          // limits that an account of the entity lacked
	ended string                   // "" while the lease is open
	log   []string
}

func newHistory(t *testing.T, seed uint64, deep bool) *history {
	t.Helper()
	h := &history{
		world: start(t, limiter.PerDay("rpm", 1e9), limiter.PerDay("tpm", 1e9)), t: t,
		rand: rand.New(rand.NewPCG(seed, 1)), deep: deep,
		paid: map[any]map[string]int64{}, roles: map[any]string{}, net: map[string]int64{}, todo: map[string]int64{},
		lacks: map[string]bool{},
	}
	h.store.onConsume, h.store.onCredit = h.consume, h.credit
	if h.rand.IntN(2) == 0 {
		h.family(t)
	}
	amounts := h.amounts(1)
	var err error
	h.lease, err = h.Acquire(bg, request(alice, amounts))
	h.ok(err)
	h.took(amounts)
	return h
}

func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\nafter %q", fmt.Sprintf(format, args...), h.log)
}

func (h *history) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.fail("%v", err)
	}
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// amounts returns one or two limits with amounts of at least least.
func (h *history) amounts(least int64) (a limiter.Amounts) {
	for _, limit := range []string{"rpm", "tpm"}[h.rand.IntN(2):] {
		a = a.And(limit, least+h.rand.Int64N(100))
	}
	return a
}

func (h *history) took(amounts limiter.Amounts) {
	for limit, n := range amounts.All() {
		h.net[limit] += n
	}
}

// consume records the amounts that accounts pay.
func (h *history) consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := h.store.Repository.Consume(ctx, now, charge)
	if err != nil || !out.Admitted {
		return out, err
	}
	for i, b := range out.Payers {
		role := [2]string{"self", "parent"}[i]
		now := map[string]int64{}
		maps.Copy(now, h.paid[b.Account.Ref])
		for _, l := range b.Account.Limits {
			now[l.Name] += charge.Amounts.Get(l.Name)
		}
		for _, limit := range []string{"rpm", "tpm"} {
			has := slices.ContainsFunc(b.Account.Limits, func(l limiter.Limit) bool { return l.Name == limit })
			if !has && role == "self" {
				h.lacks[limit] = true
			}
		}
		h.paid[b.Account.Ref], h.roles[b.Account.Ref] = now, role
	}
	return out, nil
}

// credit records confirmed credits and checks that no account gets more than it
// paid. It may fail before, halfway or after.
func (h *history) credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	for _, c := range credits {
		for limit, n := range c.Amounts.All() {
			if have := h.paid[c.Account.Ref][limit]; n > have {
				h.fail("%s of %s gets back %d %s, and paid %d", c.Account.Resource, c.Account.Entity, n, limit, have)
			}
			if n > 0 {
				h.paid[c.Account.Ref][limit] -= n
			}
		}
	}
	result := h.rand.IntN(6) // 0, 1 and 2 fail: nothing, a part or all is stored
	part := credits
	if result < 2 {
		part = credits[:result*h.rand.IntN(len(credits)+1)]
	}
	h.ok(h.store.Repository.Credit(ctx, now, part...))
	if h.deep && h.depth < 3 {
		h.depth++
		for range h.rand.IntN(4) {
			h.step() //nolint:contextcheck // these are calls of others
		}
		h.depth--
	}
	if result < 3 {
		h.note("the settlement fails")
		return errDown
	}
	for _, c := range credits {
		for limit, n := range c.Amounts.All() {
			if n < 0 {
				if _, has := h.paid[c.Account.Ref][limit]; has {
					h.paid[c.Account.Ref][limit] -= n
				}
			}
		}
	}
	return nil
}

// step performs one random event.
func (h *history) step() {
	if h.ended != "" {
		return
	}
	switch h.rand.IntN(13) {
	case 0, 1:
		h.more()
	case 2, 3, 4:
		h.adjust()
	case 5:
		h.use()
	case 6, 7:
		h.flush()
	case 8:
		h.note("parent comes")
		parent := []string{project, "project-2"}[h.rand.IntN(2)]
		_, _ = h.CreateEntity(bg, limiter.Entity{ID: alice, Parent: parent, Cascade: true})
	case 9:
		h.note("entity goes")
		_ = h.DeleteEntity(bg, []string{alice, project}[h.rand.IntN(2)])
	case 10:
		h.note("limits change")
		limits := []limiter.Limit{limiter.PerDay("rpm", 1e9), limiter.PerDay("tpm", 1e9)}
		h.ok(h.SetLimits(bg, []string{alice, project}[h.rand.IntN(2)], resource, limits[h.rand.IntN(2):]...))
	case 11:
		h.note("time passes")
		h.clock.pass(time.Duration(h.rand.IntN(10*24)) * time.Hour) // buckets may expire
	case 12:
		if h.depth > 0 {
			h.end()
		}
	}
}

func (h *history) more() {
	amounts := h.amounts(0)
	h.note("Consume %s", amounts)
	err := h.lease.Consume(bg, amounts)
	if _, bad := errors.AsType[*limiter.InvalidError](err); bad {
		return // no account has the limit any more
	}
	h.ok(err)
	h.took(amounts)
}

// adjust corrects by a random amount and checks that the lease refuses exactly an
// excessive one.
func (h *history) adjust() {
	amounts := h.amounts(-60)
	h.note("Adjust %s", amounts)
	fits := h.fits(amounts)
	err := h.lease.Adjust(amounts)
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok && (bad.Field == "limit" || !fits) {
		return
	}
	h.ok(err)
	if !fits {
		h.fail("%s was accepted, held are %v", amounts, h.net)
	}
	h.took(amounts)
	for limit, n := range amounts.All() {
		h.todo[limit] += n
	}
}

// fits reports whether the lease holds the amounts to give back. After nested
// failures it relies on the lease.
func (h *history) fits(amounts limiter.Amounts) bool {
	for limit, n := range amounts.All() {
		held := h.net[limit]
		if h.deep {
			held = h.lease.Consumed().Get(limit)
		}
		if held+n < 0 {
			return false
		}
	}
	return true
}

func (h *history) use() {
	limit, n := []string{"rpm", "tpm"}[h.rand.IntN(2)], h.rand.Int64N(200)
	h.note("Used %s %d", limit, n)
	err := h.lease.Used(limit, n)
	if _, bad := errors.AsType[*limiter.InvalidError](err); bad {
		return
	}
	h.ok(err)
	if got := h.lease.Consumed().Get(limit); got != n {
		h.fail("consumed %d, want %d", got, n)
	}
	h.todo[limit] += n - h.net[limit]
	h.net[limit] = n
}

func (h *history) flush() {
	h.note("Flush")
	if err := h.lease.Flush(bg); err != nil && !errors.Is(err, limiter.ErrLeaseDone) {
		for limit, n := range h.todo {
			h.net[limit] -= max(n, 0) // not confirmed
		}
	}
	clear(h.todo)
}

// end commits or rolls back the lease.
func (h *history) end() {
	h.ended = "failed commit"
	if h.rand.IntN(2) == 0 {
		h.ended = "rollback"
		h.note("Rollback")
		_ = h.lease.Rollback(bg)
	} else if h.note("Commit"); h.lease.Commit(bg) == nil {
		h.ended = "commit"
	}
}

// balanced checks the books of an ended lease. After a rollback no account has
// paid. Otherwise the entity has paid what the lease holds, and its parents no
// more.
func (h *history) balanced() {
	sum := map[string]map[string]int64{"self": {}, "parent": {}}
	for ref, paid := range h.paid {
		for limit, n := range paid {
			if n < 0 || n > 0 && h.ended == "rollback" {
				h.fail("an account paid %d %s", n, limit)
			}
			sum[h.roles[ref]][limit] += n
		}
	}
	held := h.lease.Consumed()
	for role, paid := range sum {
		for limit, n := range paid {
			if n > held.Get(limit) {
				h.fail("%s paid %d %s, and %d are held", role, n, limit, held.Get(limit))
			}
		}
	}
	for limit, n := range held.All() {
		if paid := sum["self"][limit]; paid != n && h.ended == "commit" && !h.lacks[limit] {
			h.fail("the entity paid %d %s, and %d are held", paid, limit, n)
		}
		if want := h.net[limit]; n != want && !h.deep {
			h.fail("consumed %d %s, want %d", n, limit, want)
		}
	}
}

// TestNoAccountGetsBackMoreThanItPaid checks that no account gets back more than
// it is known to have paid, and that a rollback returns exactly that, under
// random changes of the entity, its parents, limits and buckets, and random
// failures of settlements.
func TestNoAccountGetsBackMoreThanItPaid(t *testing.T) {
	for _, deep := range []bool{false, true} {
		ends := map[string]int{}
		for seed := range uint64(800) {
			h := newHistory(t, seed, deep)
			h.note("seed %d, deep %t", seed, deep)
			for range h.rand.IntN(40) {
				h.step()
			}
			if h.ended == "" {
				h.end()
			}
			h.balanced()
			ends[h.ended]++
		}
		t.Logf("deep %t: %v", deep, ends)
	}
}
