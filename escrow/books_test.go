package escrow

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

var bookOps = flag.Int("books.ops", 10_000, "operations of TestBooks")

// auditor is a store that counts what it pays and gets back, and a client that
// counts what it was admitted. It checks the rules after every operation.
type auditor struct {
	limiter.Repository // the store
	*testing.T
	escrow    *Repository
	mu        sync.Mutex // the janitor credits from several goroutines
	rng       *rand.Rand
	paid      map[lentKey]int64        // by the store, less what it got back
	used      map[lentKey]int64        // by the client, less what it gave back
	spendings map[lentKey][]spendingAt // by pot, less what was given back
	debits    map[lentKey][]spendingAt
	checked   map[*grant]bool // grants of pots that were seen
	dropped   map[lentKey]int64
	droppedIn int64 // tokens of grants that were dropped, each once
	leases    []lease
	crediting bool              // the client gives back, not the janitor
	metered   bool              // there are quotas and shadow limits
	entities  []string          // that the client charges
	top       string            // the last payer of all but one of them
	last      time.Time         // of the last check
	lost      map[lentKey]int64 // tokens of quotas that were lost at boundaries
	inWindow  map[lentKey]map[int64]int64
	spares    int64 // charges that the store spared
	spared    int64 // charges of the client that were spared
}

type spendingAt struct {
	at     time.Duration
	tokens int64
}

type lease struct {
	out     limiter.Outcome
	amounts limiter.Amounts
}

func key(a *limiter.Account, limit string) lentKey {
	return lentKey{limiter.Scope{Entity: a.Entity, Resource: a.Resource}, limit}
}

// each calls do for every limit of the accounts that amounts name.
func each(amounts limiter.Amounts, accounts []*limiter.Account, do func(lentKey, int64)) {
	var buckets []limiter.Bucket
	for _, a := range accounts {
		buckets = append(buckets, limiter.Bucket{Account: a})
	}
	eachPaid(amounts, buckets, func(k lentKey, _ int64, n int64) { do(k, n) })
}

// eachPaid calls do for every limit of the buckets that amounts name and that was
// not spared, with the window of a quota.
func eachPaid(amounts limiter.Amounts, buckets []limiter.Bucket, do func(k lentKey, window, n int64)) {
	for _, b := range buckets {
		for i, l := range b.Account.Limits {
			n, named := amounts.Lookup(l.Name)
			if !named || isSpared(b, i) {
				continue
			}
			var window int64
			if l.IsQuota() && b.Detail != nil {
				window = b.Detail.Starts[i]
			}
			do(key(b.Account, l.Name), window, n)
		}
	}
}

// Consume counts what the store pays.
func (a *auditor) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	sent := a.escrow.machine()
	out, err := a.Repository.Consume(ctx, now, c)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && out.Admitted {
		eachPaid(c.Amounts, out.Payers, func(k lentKey, _, n int64) {
			a.paid[k] += n
			a.debits[k] = add(a.debits[k], spendingAt{sent, n})
		})
		if spares(&out) {
			a.spares++
		}
	}
	return out, err
}

// Credit counts what the store gets back. The janitor returns only what was
// debited in the last two holds.
func (a *auditor) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range credits {
		each(c.Amounts, []*limiter.Account{c.Account}, func(k lentKey, n int64) {
			if slices.Contains(c.Spared, k.limit) {
				return
			}
			a.paid[k] -= n
			hold := newAccounts([]*limiter.Account{c.Account}, a.escrow.maxHold).hold
			if recent := since(a.debits[k], a.escrow.machine()-2*hold); !a.crediting && n > recent {
				a.Errorf("%v: the janitor returns %d tokens, but only %d were debited in two holds", k, n, recent)
			}
		})
	}
	return a.Repository.Credit(ctx, now, credits...)
}

// add appends to a log, and forgets what is older than two of the longest holds.
func add(log []spendingAt, s spendingAt) []spendingAt {
	old := 0
	for old < len(log) && log[old].at < s.at-2*defaultMaxHold {
		old++
	}
	return append(log[old:], s)
}

// since returns the tokens of a log from a moment on.
func since(log []spendingAt, from time.Duration) (n int64) {
	for _, s := range log {
		if s.at >= from {
			n += s.tokens
		}
	}
	return n
}

// TestBooks runs a random history against the books of every pot.
func TestBooks(t *testing.T) {
	const perRun = 5000
	for seed := range uint64((*bookOps + perRun - 1) / perRun) {
		for _, payers := range []int{2, 8} {
			synctest.Test(t, func(t *testing.T) { runBooks(t, seed, min(perRun, *bookOps), payers, seed%2 == 1) })
			if t.Failed() {
				t.Fatalf("seed %d with %d payers", seed, payers)
			}
		}
	}
}

func runBooks(t *testing.T, seed uint64, ops, payers int, metered bool) {
	t.Helper()
	a := &auditor{
		Repository: newChains(memory.New(nil)), T: t, rng: rand.New(rand.NewPCG(seed, 7)),
		paid: map[lentKey]int64{}, used: map[lentKey]int64{}, spendings: map[lentKey][]spendingAt{},
		debits: map[lentKey][]spendingAt{}, checked: map[*grant]bool{}, dropped: map[lentKey]int64{},
		metered: metered, lost: map[lentKey]int64{}, inWindow: map[lentKey]map[int64]int64{},
	}
	a.escrow = New(a, nil)
	lim, err := limiter.New(a.escrow, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(lim.SetSystemDefaults(ctx, limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 60_000)))
	must(lim.SetResourceDefaults(ctx, "fast", limiter.Custom("rpm", 50, 100, time.Second),
		limiter.PerMinute("tpm", 9000).WithBurst(30_000)))
	if metered {
		must(lim.SetResourceDefaults(ctx, "slow", limiter.Quota("rpm", bookQuota, limiter.EveryHour),
			limiter.PerMinute("tpm", 10_000).Shadow()))
	}
	for _, child := range []string{"key-1", "key-2", "key-3"} {
		_, err := lim.CreateEntity(ctx, limiter.Entity{ID: child, Parent: "team", Cascade: true})
		must(err)
	}
	a.entities, a.top = []string{"key-1", "key-2", "key-3", "team", "alone"}, "team"
	for i := 3; i <= payers; i++ {
		_, err := lim.CreateEntity(ctx, limiter.Entity{ID: a.top, Parent: fmt.Sprint("level-", i), Cascade: true})
		must(err)
		a.top = fmt.Sprint("level-", i)
	}
	if payers > 2 {
		a.entities[2] = "level-4"
		// Each account has limits of its own.
		must(lim.SetLimits(ctx, "key-2", "fast", limiter.PerMinute("tpm", 9000).WithBurst(30_000)))
		must(lim.SetLimits(ctx, "level-3", "fast", limiter.Custom("rpm", 60, 100, time.Second)))
		must(lim.SetLimits(ctx, "level-5", "slow", limiter.PerMinute("other", 10), limiter.PerMinute("rpm", 6000)))
	}
	for range ops {
		a.step(ctx)
		a.check()
		if t.Failed() {
			break
		}
	}
	must(a.escrow.Close())
	a.check()
	if s := a.escrow.Stats(); s.Held != 0 {
		t.Errorf("held after Close: %+v", s)
	}
	if metered && (a.spared == 0 || len(a.lost) == 0) {
		t.Errorf("%d charges were spared, and tokens were lost of %v: too few to tell", a.spared, a.lost)
	}
}

// bookQuota is the capacity of the quotas in the books.
const bookQuota = 300

// step makes one operation of the client.
func (a *auditor) step(ctx context.Context) {
	switch n := a.rng.IntN(100); {
	case n < 30:
		time.Sleep(time.Duration(a.rng.Int64N(int64(20 * time.Millisecond))))
	case n < 33:
		time.Sleep(time.Duration(a.rng.Int64N(int64(3 * time.Second))))
	case n == 33 && a.metered && a.rng.IntN(3) == 0: // to the end of the hour
		now := time.Now()
		time.Sleep(
			now.Truncate(time.Hour).Add(time.Hour - time.Duration(a.rng.Int64N(int64(300*time.Millisecond)))).Sub(now),
		)
	case n < 45:
		a.giveBack(ctx)
	default:
		a.consume(ctx)
	}
}

func (a *auditor) consume(ctx context.Context) {
	entity := a.entities[a.rng.IntN(5)]
	resource := []string{"fast", "slow"}[a.rng.IntN(2)]
	amounts := limiter.Tokens("rpm", a.rng.Int64N(4)).And("tpm", a.rng.Int64N(400))
	if a.rng.IntN(4) == 0 {
		amounts = limiter.Tokens("rpm", 1)
	}
	// Clocks of callers differ by up to 5 ms, and a few are ahead.
	now := time.Now().Add(-time.Duration(a.rng.Int64N(int64(5 * time.Millisecond))))
	if a.rng.IntN(200) == 0 {
		now = now.Add(time.Duration(a.rng.Int64N(int64(3 * time.Second))))
	}
	out, err := a.escrow.Consume(ctx, now, limiter.Charge{Entity: entity, Resource: resource, Amounts: amounts})
	if err != nil {
		a.Fatal(err)
	}
	if out.Admitted {
		a.use(amounts, out.Payers)
		a.countWindows(amounts, out)
		a.leases = append(a.leases, lease{out, amounts})
	}
}

// use books an admission, or a give-back if amounts are negative.
func (a *auditor) use(amounts limiter.Amounts, buckets []limiter.Bucket) {
	eachPaid(amounts, buckets, func(k lentKey, _, n int64) { a.used[k] += n })
	eachPaid(amounts, buckets[:1], func(k lentKey, _, n int64) { a.spend(k, n) })
}

// countWindows checks the promise of quotas: what a window admits is at most the
// capacity and what was given back, which count does not subtract.
func (a *auditor) countWindows(amounts limiter.Amounts, out limiter.Outcome) {
	if spares(&out) {
		a.spared++
	}
	eachPaid(amounts, out.Payers, func(k lentKey, window, n int64) {
		if window == 0 {
			return
		}
		if a.inWindow[k] == nil {
			a.inWindow[k] = map[int64]int64{}
		}
		if a.inWindow[k][window] += n; a.inWindow[k][window] > bookQuota {
			a.Errorf("%v: the window of %v admits %d", k, time.UnixMilli(window).UTC(), a.inWindow[k][window])
		}
	})
}

// giveBack corrects a charge as a lease does: for all payers at once.
func (a *auditor) giveBack(ctx context.Context) {
	if len(a.leases) == 0 {
		return
	}
	i := a.rng.IntN(len(a.leases))
	l := a.leases[i]
	a.leases = append(a.leases[:i], a.leases[i+1:]...)
	var change limiter.Amounts
	for limit, n := range l.amounts.All() {
		if n -= a.rng.Int64N(n + n/2 + 1); n != 0 { // mostly less, at times more was used
			change = change.And(limit, n)
		}
	}
	var credits []limiter.Credit
	for _, b := range l.out.Payers {
		c := limiter.Credit{Account: b.Account}
		for i, l := range b.Account.Limits {
			if n, named := change.Lookup(l.Name); named {
				c.Amounts = c.Amounts.And(l.Name, n)
			}
			if isSpared(b, i) {
				c.Spared = append(c.Spared, l.Name)
			}
		}
		credits = append(credits, c)
	}
	setCrediting := func(on bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.crediting = on
	}
	setCrediting(true)
	defer setCrediting(false)
	if err := a.escrow.Credit(ctx, time.Now(), credits...); err != nil {
		a.Fatal(err)
	}
	negated := limiter.Amounts{}
	for limit, n := range change.All() {
		negated = negated.And(limit, -n)
	}
	a.use(negated, l.out.Payers)
	// the parent's own pot may pay it
	eachPaid(negated, l.out.Payers[1:], func(k lentKey, _, n int64) { a.spend(k, max(n, 0)) })
	a.giveToWindows(negated, l.out)
}

func (a *auditor) spend(k lentKey, n int64) {
	a.spendings[k] = add(a.spendings[k], spendingAt{a.escrow.machine(), n})
}

// giveToWindows counts what was given back to the window of its charge, and to the
// current one.
func (a *auditor) giveToWindows(negated limiter.Amounts, out limiter.Outcome) {
	eachPaid(negated, out.Payers, func(k lentKey, window, n int64) {
		if window == 0 || n > 0 {
			return
		}
		a.inWindow[k][window] += n
		if current := time.Now().Truncate(time.Hour).UnixMilli(); current != window {
			a.inWindow[k][current] += n
		}
	})
}
