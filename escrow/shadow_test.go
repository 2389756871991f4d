package escrow_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// shadowPair is two entities with the same limits, enforced and in the shadow.
type shadowPair struct {
	*testing.T
	lim *limiter.RateLimiter
	now time.Time
}

func newShadowPair(t *testing.T, repo *escrow.Repository, limits ...limiter.Limit) *shadowPair {
	t.Helper()
	p := &shadowPair{T: t, now: noon.Add(-time.Minute)}
	lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time { return p.now }})
	must(t, err)
	p.lim = lim
	must(t, lim.SetLimits(t.Context(), "enforced", "gpt-4", limits...))
	shadows := make([]limiter.Limit, len(limits))
	for i, l := range limits {
		shadows[i] = l.Shadow()
	}
	must(t, lim.SetLimits(t.Context(), "shadow", "gpt-4", shadows...))
	return p
}

// A shadow limit would refuse what the same limit refuses when it is enforced, with
// tokens in pots and without.
func TestAShadowLimitAgreesWithTheEnforcedOne(t *testing.T) {
	for _, opts := range []*escrow.Options{nil, sharing} {
		for seed := range uint64(4) {
			synctest.Test(t, func(t *testing.T) { compareShadow(t, seed, opts) })
		}
	}
}

func compareShadow(t *testing.T, seed uint64, opts *escrow.Options) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	store := memory.New(nil)
	repo := escrow.New(store, opts)
	defer func() { must(t, repo.Close()) }()
	p := newShadowPair(t, repo, limiter.PerMinute("rpm", 900), limiter.Quota("tpm", 2000, limiter.EveryHour))
	var refused int64
	for range 2000 {
		by := time.Duration(rng.Int64N(int64(60 * time.Millisecond)))
		if rng.IntN(300) == 0 {
			by = time.Duration(rng.Int64N(int64(time.Hour)))
		}
		time.Sleep(by)
		p.now = p.now.Add(by)
		limit, n := []string{"rpm", "tpm"}[rng.IntN(2)], rng.Int64N(30)
		used := rng.Int64N(n + 3)
		enforced, shadow := p.use("enforced", limit, n, used), p.use("shadow", limit, n, used)
		if enforced != shadow {
			t.Fatalf("seed %d: %d of %s: enforced %v, shadow %v", seed, n, limit, enforced, shadow)
		}
		if !enforced {
			refused++
		}
	}
	if local := repo.Stats().AdmittedLocally; opts == nil && local < 500 || refused < 100 {
		t.Errorf("%d calls were admitted from a pot and %d refused: too few to tell", local, refused)
	}
	time.Sleep(3 * time.Second)
	repo.Flush()
	p.compareBalances(store, refused)
}

// use charges an entity and settles with what was used. It reports whether the
// limit covers the charge.
func (p *shadowPair) use(entity, limit string, n, used int64) bool {
	p.Helper()
	lease, err := p.lim.Acquire(p.Context(), limiter.Request{
		Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens(limit, n),
	})
	if err != nil {
		if entity == "shadow" {
			p.Fatal(err)
		}
		return false
	}
	must(p.T, lease.Used(limit, used))
	must(p.T, lease.Commit(p.Context()))
	for _, s := range lease.Decision().Statuses {
		if s.WouldRefuse {
			return false
		}
	}
	return true
}

// compareBalances compares the balances of both entities in the store, and what it
// counted.
func (p *shadowPair) compareBalances(store limiter.Repository, refused int64) {
	p.Helper()
	var tokens [2][]int64
	for i, entity := range []string{"enforced", "shadow"} {
		out, err := store.Peek(p.Context(), p.now, limiter.Charge{Entity: entity, Resource: "gpt-4"})
		must(p.T, err)
		tokens[i] = out.Payers[0].Tokens
	}
	if !slices.Equal(tokens[0], tokens[1]) {
		p.Errorf("balances %v when enforced, and %v in the shadow", tokens[0], tokens[1])
	}
	var counted int64
	for u, err := range store.Usage(p.Context(), limiter.UsageQuery{
		Entity: "shadow", Resource: "gpt-4", Window: limiter.Monthly,
	}) {
		must(p.T, err)
		for _, n := range u.WouldRefuse {
			counted += n
		}
	}
	if counted != refused {
		p.Errorf("the store counts %d charges that would be refused, want %d", counted, refused)
	}
}

// Callers that share a request are spared one by one: the limit covers those that
// fit, and the store counts the others.
func TestSharedChargesAreSparedOneByOne(t *testing.T) {
	for _, opts := range []*escrow.Options{nil, sharing} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote(t, 5*time.Millisecond, limiter.PerDay("rpm", 30).Shadow(), limiter.PerDay("tpm", 1000))
			repo := escrow.New(store, opts)
			defer func() { must(t, repo.Close()) }()
			c := chargeOf(1)
			c.Amounts = c.Amounts.And("tpm", 10)
			var spared atomic.Int64
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					out, err := repo.Consume(t.Context(), time.Now(), c)
					if err != nil || !out.Admitted {
						t.Errorf("%+v, %v", out, err)
						return
					}
					if out.Payers[0].Detail != nil && slices.Contains(out.Payers[0].Detail.Spared, true) {
						spared.Add(1)
					}
				})
			}
			all.Wait()
			if n := spared.Load(); n != 70 {
				t.Errorf("%d calls were spared, want 70", n)
			}
			if out, err := repo.Consume(t.Context(), time.Now(), c); err != nil || out.Admitted {
				t.Errorf("the enforced limit does not refuse: %+v, %v", out, err)
			}
		})
	}
}

// A charge that meets a spared limit still spends what the pot holds of the limits
// that are enforced.
func TestASparedChargeSpendsThePot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.PerDay("rpm", 100), limiter.PerDay("tpm", 2).Shadow())
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		for range 3 {
			charge(t, repo, noon, 10)
		}
		c := chargeOf(1)
		c.Amounts = c.Amounts.And("tpm", 5)
		spares := int64(0)
		for {
			out, err := repo.Consume(t.Context(), noon, c)
			must(t, err)
			if !out.Admitted {
				break
			}
			if !out.Payers[0].Detail.Spared[1] {
				t.Fatal("the shadow limit is not spared")
			}
			spares++
		}
		if spares != 70 {
			t.Errorf("%d charges, want 70", spares)
		}
	})
}

// A peek shows a shadow limit as the next charge finds it: with what the pot holds.
func TestAPeekAtAShadowLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.PerDay("rpm", 100).Shadow())
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		for range 2 {
			charge(t, repo, noon, 10)
		}
		held := repo.Stats().Held
		for _, n := range []int64{80, 81} {
			out, err := repo.Peek(t.Context(), noon, chargeOf(n))
			must(t, err)
			if spared := out.Payers[0].Detail != nil && out.Payers[0].Detail.Spared != nil; !out.Admitted ||
				spared != (n == 81) || held == 0 {
				t.Errorf("%d tokens, %d held: %+v spared %v", n, held, out.Payers[0], spared)
			}
		}
	})
}

// A caller that leaves before it is spared changes nothing but the counter.
func TestASparedCallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 100*time.Millisecond, limiter.PerDay("rpm", 3).Shadow())
		repo := escrow.New(store, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := repo.Consume(ctx, time.Now(), chargeOf(5)); err == nil {
			t.Error("no error")
		}
		time.Sleep(time.Second)
		must(t, repo.Close())
		for u, err := range store.Usage(t.Context(), limiter.UsageQuery{
			Entity: "key", Resource: "gpt-4", Window: limiter.Monthly,
		}) {
			must(t, err)
			if u.Counters["rpm"] != 0 || u.WouldRefuse["rpm"] != 1 {
				t.Errorf("usage %v, would refuse %v", u.Counters, u.WouldRefuse)
			}
		}
		out, err := store.Peek(t.Context(), time.Now(), chargeOf(0))
		must(t, err)
		if out.Payers[0].Tokens[0] != 3000 {
			t.Errorf("%d thousandths are left, want 3000", out.Payers[0].Tokens[0])
		}
	})
}
