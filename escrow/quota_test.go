package escrow_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// charge charges n tokens of rpm at a time, and returns the outcome.
func charge(t *testing.T, repo limiter.Repository, now time.Time, n int64) limiter.Outcome {
	t.Helper()
	out, err := repo.Consume(t.Context(), now, chargeOf(n))
	must(t, err)
	return out
}

// drain takes single tokens until the bucket refuses, and returns how many.
func drain(t *testing.T, repo limiter.Repository, now time.Time) (n int64) {
	t.Helper()
	for charge(t, repo, now, 1).Admitted {
		n++
	}
	return n
}

// holding makes a pot hold tokens of a quota, and returns how many it holds.
func holding(t *testing.T, repo *escrow.Repository, now time.Time) int64 {
	t.Helper()
	for range 4 {
		if !charge(t, repo, now, 10).Admitted {
			t.Fatal("refused")
		}
	}
	held := repo.Stats().Held
	if held == 0 {
		t.Fatal("nothing is held: the case shows nothing")
	}
	return held
}

// noon is a time at which hours and days of UTC begin.
var noon = time.Date(2031, time.May, 4, 12, 0, 0, 0, time.UTC)

// Nothing refills what a quota loses, so a pot holds none of it where a store that
// is busy for a moment would miss the hold.
func TestAQuotaBesideAQuickRateIsNotHeld(t *testing.T) {
	rate := func(fill time.Duration) limiter.Limit { return limiter.Custom("rpm", 1000, 1000, fill) }
	month := limiter.Quota("q", 1e6, limiter.EveryMonth)
	for name, c := range map[string]struct {
		limits []limiter.Limit
		holds  bool
	}{
		"2 s":           {[]limiter.Limit{rate(2 * time.Second), month}, false},
		"20 s":          {[]limiter.Limit{rate(20 * time.Second), month}, true},
		"2 s, no quota": {[]limiter.Limit{rate(2 * time.Second)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				repo := escrow.New(newRemote(t, 0, c.limits...), nil)
				defer func() { must(t, repo.Close()) }()
				for range 8 {
					charge(t, repo, noon, 10)
				}
				if held := repo.Stats().Held; held > 0 != c.holds {
					t.Errorf("%d tokens are held", held)
				}
			})
		})
	}
}

// The tokens that a pot holds at the end of a window are lost: they are neither
// spent in the next one nor given back to it.
func TestAPotIsEmptyAfterABoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.Quota("rpm", 1000, limiter.EveryHour))
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		held := holding(t, repo, noon.Add(-time.Millisecond))
		first := charge(t, repo, noon, 1)
		if start := first.Payers[0].Detail.Starts[0]; !first.Admitted || start != noon.UnixMilli() {
			t.Errorf("the first call of the hour: %v in the window of %v", first.Admitted, time.UnixMilli(start).UTC())
		}
		if n := drain(t, repo, noon); n != 999 {
			t.Errorf("the hour admits %d more calls, want 999", n)
		}
		synctest.Wait() // the janitor counts what it drops
		if s := repo.Stats(); s.Dropped != held || s.Returned != 0 {
			t.Errorf("%d tokens were held at the boundary: %+v", held, s)
		}
	})
}

// A clock that is ahead begins the next window in the store. What a pot holds from
// the window before does not get into it, and is spent as a part of its own window.
func TestAWindowThatAnotherProcessBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.Quota("rpm", 1000, limiter.EveryHour))
		behind, ahead := escrow.New(store, nil), escrow.New(store, sharing)
		defer func() { must(t, behind.Close()); must(t, ahead.Close()) }()
		now := noon.Add(-time.Minute)
		holding(t, behind, now)
		if n := drain(t, ahead, noon); n != 1000 {
			t.Errorf("the next hour admits %d calls, want 1000", n)
		}
		before := behind.Stats().AdmittedLocally
		out := charge(t, behind, now, 1)
		if start := out.Payers[0].Detail.Starts[0]; !out.Admitted || start != noon.Add(-time.Hour).UnixMilli() ||
			behind.Stats().AdmittedLocally == before {
			t.Errorf("the pot: %v in the window of %v", out.Admitted, time.UnixMilli(start).UTC())
		}
		time.Sleep(3 * time.Second) // the hold ends, and the tokens go back
		behind.Flush()
		if behind.Stats().Held != 0 {
			t.Errorf("%+v", behind.Stats())
		}
		if charge(t, ahead, noon, 1).Admitted || charge(t, behind, now.Add(3*time.Second), 1).Admitted {
			t.Error("a token of the window before was spent in the next one")
		}
	})
}

// A charge pays with tokens of one window alone: it gives up what the pot has from
// the window before.
func TestAChargePaysFromOneWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.Quota("rpm", 1000, limiter.EveryHour))
		behind, ahead := escrow.New(store, nil), escrow.New(store, sharing)
		defer func() { must(t, behind.Close()); must(t, ahead.Close()) }()
		now := noon.Add(-time.Minute)
		held := holding(t, behind, now)
		charge(t, ahead, noon, 500)
		if !charge(t, behind, now, held+100).Admitted {
			t.Error("the next hour does not cover the charge")
		}
		synctest.Wait() // the pot has given up what it held
		again := behind.Stats().Held
		if n := drain(t, ahead, noon); n+again != 1000-500-held-100 {
			t.Errorf("the rest of the hour is %d and %d that are held, want %d", n, again, 1000-500-held-100)
		}
	})
}

// Near empty, nothing is held: another process would be refused until the next
// window.
func TestAQuotaNearEmptyIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.Quota("rpm", 1000, limiter.EveryHour))
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		for used := range int64(1000) {
			time.Sleep(10 * time.Millisecond)
			if !charge(t, repo, time.Now(), 1).Admitted {
				t.Fatalf("refused after %d", used)
			}
			repo.Flush()
			out, err := store.Repository.Peek(t.Context(), time.Now(), chargeOf(0))
			must(t, err)
			if left, held := out.Payers[0].Tokens[0]/1000, repo.Stats().Held; left+held != 999-used || left < 100 &&
				held > 0 {
				t.Fatalf("after %d calls, %d are left and %d are held", used+1, left, held)
			}
		}
		if s := repo.Stats(); s.AdmittedLocally < 500 {
			t.Errorf("only %d calls were admitted locally", s.AdmittedLocally)
		}
	})
}

// The rates of a pot go back at a boundary of its quotas.
func TestABoundaryReturnsRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.Quota("rpm", 1000, limiter.EveryHour), limiter.PerDay("tpm", 100_000))
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		c := chargeOf(10)
		c.Amounts = c.Amounts.And("tpm", 100)
		for range 2 {
			_, err := repo.Consume(t.Context(), noon.Add(-time.Millisecond), c)
			must(t, err)
		}
		out, err := repo.Consume(t.Context(), noon, c)
		must(t, err)
		repo.Flush()
		all, err := repo.Peek(t.Context(), noon, chargeOf(0))
		must(t, err)
		if got := all.Payers[0].Tokens; !out.Admitted || got[0] != 990_000 || got[1]/1000 != 100_000-300 ||
			repo.Stats().Dropped != 10 {
			t.Errorf("the balances are %v: %+v", got, repo.Stats())
		}
	})
}

// TestQuotasAreExact checks the promise of a quota for processes whose clocks
// differ by seconds, with faults and kills: what a window admits, less what is given
// back, is at most the capacity.
func TestQuotasAreExact(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) { quotaHistory(t, seed) })
	}
}

func quotaHistory(t *testing.T, seed uint64) {
	t.Helper()
	const capacity, skews = 400, 4
	rng := rand.New(rand.NewPCG(seed, 21))
	store := memory.New(nil)
	must(t,
		store.SetConfig(t.Context(),
			limiter.Config{Limits: []limiter.Limit{
				limiter.Quota("rpm", capacity, limiter.EveryHour), limiter.PerMinute("tpm", 60_000),
			}},
			limiter.AuditEvent{ID: "01", At: time.Now()}))
	var processes []*process
	for i := range skews {
		oneIn := 0
		if seed%2 == 1 {
			oneIn = 20
		}
		p := newProcess(bubble{store}, faults(seed+uint64(i), oneIn))
		p.calm = oneIn == 0
		processes = append(processes, p)
	}
	admitted, now := map[int64]int64{}, noon.Add(-5*time.Second)
	var local int64
	for range 3000 {
		by := time.Duration(rng.Int64N(int64(40 * time.Millisecond)))
		if rng.IntN(400) == 0 { // close to the next boundary
			by = now.Truncate(time.Hour).Add(time.Hour - time.Duration(rng.Int64N(int64(8*time.Second)))).Sub(now)
		}
		time.Sleep(by)
		now = now.Add(by)
		i := rng.IntN(skews)
		p := processes[i]
		if rng.IntN(300) == 0 {
			p.Forget()
		}
		c := chargeOf(rng.Int64N(4))
		c.Amounts = c.Amounts.And("tpm", rng.Int64N(20))
		out, err := p.Consume(t.Context(), now.Add(time.Duration(i)*2*time.Second), c)
		if err != nil || !out.Admitted {
			continue
		}
		start := out.Payers[0].Detail.Starts[0]
		if admitted[start] += c.Amounts.Get("rpm"); admitted[start] > capacity {
			t.Fatalf("seed %d: the window of %v admits %d", seed, time.UnixMilli(start).UTC(), admitted[start])
		}
	}
	full := 0
	for _, n := range admitted {
		if n == capacity {
			full++
		}
	}
	for _, p := range processes {
		local += p.local + p.Stats().AdmittedLocally
		_ = p.Close()
	}
	if local < 100 || seed%2 == 0 && full == 0 {
		t.Errorf("seed %d: %d calls were admitted from a pot, and %d windows were used up: too few to tell", seed,
			local, full)
	}
}

// A boundary passes while a return is on its way: the store does not take it.
func TestAReturnThatMeetsABoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 400*time.Millisecond, limiter.Quota("rpm", 1000, limiter.EveryHour))
		slow := &slowReturns{Repository: store.Repository, by: 500 * time.Millisecond}
		repo := escrow.New(slow, nil)
		defer func() { must(t, repo.Close()) }()
		now := noon.Add(-1200 * time.Millisecond)
		holding(t, repo, now)
		time.Sleep(1100 * time.Millisecond) // the hold has ended, and the return waits
		if n := drain(t, store.Repository, noon); n != 1000 {
			t.Errorf("the hour admits %d calls, want 1000", n)
		}
		time.Sleep(time.Second)
		repo.Flush()
		if n := drain(t, store.Repository, noon.Add(time.Second)); n != 0 || slow.credits == 0 {
			t.Errorf("%d more calls after %d returns", n, slow.credits)
		}
	})
}

// A lease that was charged under a higher quota gives back through a pot of the lower
// one. No more is admitted than without the pot.
func TestGiveBacksOfALoweredQuota(t *testing.T) {
	history := func(t *testing.T, store *remote, repo limiter.Repository) (admitted int64) {
		t.Helper()
		account := charge(t, repo, noon, 1000).Payers[0].Account
		lower := limiter.Config{Limits: []limiter.Limit{limiter.Quota("rpm", 500, limiter.EveryHour)}}
		must(t, store.SetConfig(t.Context(), lower, limiter.AuditEvent{ID: "02", At: noon}))
		if charge(t, repo, noon, 1).Admitted {
			t.Error("admitted above the lowered quota")
		}
		topUp := limiter.Fill{Entity: "key", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 800), ID: "gift"}
		_, err := store.Fill(t.Context(), noon, topUp, limiter.AuditEvent{ID: "03", At: noon})
		must(t, err)
		for _, back := range []int64{40, 100} {
			for range 4 {
				time.Sleep(1100 * time.Millisecond)
				if charge(t, repo, noon, 10).Admitted {
					admitted += 10
				}
			}
			must(t,
				repo.Credit(t.Context(), noon, limiter.Credit{Account: account, Amounts: limiter.Tokens("rpm", back)}))
		}
		return admitted + drain(t, repo, noon)
	}
	synctest.Test(t, func(t *testing.T) {
		quota := limiter.Quota("rpm", 1000, limiter.EveryHour)
		plain, held := newRemote(t, 0, quota), newRemote(t, 0, quota)
		repo := escrow.New(held, nil)
		defer func() { must(t, repo.Close()) }()
		want, got := history(t, plain, plain), history(t, held, repo)
		if got > want || got < want/2 || repo.Stats().AdmittedLocally == 0 {
			t.Errorf("%d admitted with escrow, %d without: %+v", got, want, repo.Stats())
		}
	})
}

// slowReturns is a store that executes a credit late.
type slowReturns struct {
	limiter.Repository
	by      time.Duration
	credits int
}

// Credit executes credits late, at the time that they carry.
func (s *slowReturns) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	s.credits += len(credits)
	time.Sleep(s.by)
	return s.Repository.Credit(ctx, now, credits...)
}

// The pots of children hold tokens of their parent's quota. After the boundary these
// are lost, and no call of the next window shows them as available.
func TestTokensOfTheWindowBeforeAreNotAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.Quota("rpm", 1000, limiter.EveryHour))
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		kids := []string{"kid-1", "kid-2"}
		for _, kid := range kids {
			must(t,
				store.CreateEntity(t.Context(), limiter.Entity{ID: kid, Parent: "team", Cascade: true},
					limiter.AuditEvent{ID: kid, At: noon}))
		}
		of := func(entity string, n int64) limiter.Charge {
			return limiter.Charge{Entity: entity, Resource: "gpt-4", Amounts: limiter.Tokens("rpm", n)}
		}
		now := noon.Add(-time.Millisecond)
		for i := range 40 {
			_, err := repo.Consume(t.Context(), now, of(kids[i%2], 1))
			must(t, err)
		}
		held := repo.Stats().Held
		if held == 0 {
			t.Fatal("nothing is held: the case shows nothing")
		}
		left := func(now time.Time, n int64) limiter.Outcome {
			t.Helper()
			out, err := repo.Peek(t.Context(), now, of("team", n))
			must(t, err)
			return out
		}
		if out := left(now, 0); out.Payers[0].Tokens[0] != 960_000 {
			t.Errorf("%d thousandths before the boundary, want 960 tokens with what the pots hold", out.Payers[0].Tokens[0])
		}
		out, err := repo.Consume(t.Context(), noon, of("team", 500))
		must(t, err)
		if !out.Admitted || out.Payers[0].Tokens[0] != 500_000 {
			t.Errorf("the first call of the hour: %+v, want 500 tokens left", out)
		}
		if out := left(noon, 0); out.Payers[0].Tokens[0] != 500_000 {
			t.Errorf("%d thousandths, want 500 tokens", out.Payers[0].Tokens[0])
		}
		if out := left(noon, 501); out.Admitted || out.Payers[0].Tokens[0] > 500_000 {
			t.Errorf("501 of 500 tokens: %+v", out)
		}
		if out, err := repo.Consume(t.Context(), noon, of("team", 501)); err != nil || out.Admitted ||
			out.Payers[0].Tokens[0] > 500_000 {
			t.Errorf("501 of 500 tokens: %+v, %v", out, err)
		}
		for range 4 { // one pot begins the window, the other keeps what is lost
			_, err := repo.Consume(t.Context(), noon, of("kid-1", 1))
			must(t, err)
		}
		if out := left(noon, 0); out.Payers[0].Tokens[0] != 496_000 {
			t.Errorf("%d thousandths, want 496 tokens", out.Payers[0].Tokens[0])
		}
	})
}
