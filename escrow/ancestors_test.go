package escrow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// family is an entity and its ancestors, from the entity up, on a store that charges
// all of them. Its calls come at one time.
type family struct {
	*testing.T
	store    *chains
	repo     *Repository
	entities []string
	now      time.Time
	used     int64 // of rpm, by the entity
}

// newFamily returns n entities with an hourly quota of 1,000, 2,000 and so on.
func newFamily(t *testing.T, n int) *family {
	t.Helper()
	f := &family{T: t, store: newChains(memory.New(nil)), now: time.Date(2031, time.May, 4, 12, 0, 0, 0, time.UTC)}
	f.repo = New(f.store, nil)
	for i := range n {
		id := fmt.Sprint("level-", i)
		f.entities = append(f.entities, id)
		f.check(f.store.SetConfig(t.Context(), f.limits(id, f.quota(i)), f.event()))
		if i > 0 {
			f.check(f.store.CreateEntity(t.Context(), limiter.Entity{
				ID: f.entities[i-1], Parent: id, Cascade: true,
			}, f.event()))
		}
	}
	return f
}

func (f *family) check(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *family) event() limiter.AuditEvent { return limiter.AuditEvent{ID: "01", At: f.now} }

func (f *family) quota(i int) limiter.Limit {
	return limiter.Quota("rpm", 1000*int64(i+1), limiter.EveryHour)
}

func (f *family) limits(entity string, limits ...limiter.Limit) limiter.Config {
	return limiter.Config{Scope: limiter.Scope{Entity: entity, Resource: "gpt-4"}, Limits: limits}
}

func (f *family) charge(i int, limit string, n int64) limiter.Charge {
	return limiter.Charge{Entity: f.entities[i], Resource: "gpt-4", Amounts: limiter.Tokens(limit, n)}
}

// consume charges the entity.
func (f *family) consume(limit string, n int64) limiter.Outcome {
	f.Helper()
	out, err := f.repo.Consume(f.Context(), f.now, f.charge(0, limit, n))
	f.check(err)
	if out.Admitted && limit == "rpm" {
		f.used += n
	}
	return out
}

// hold makes the pot of the entity hold tokens, and returns how many.
func (f *family) hold() int64 {
	f.Helper()
	for range 4 {
		if out := f.consume("rpm", 10); !out.Admitted {
			f.Fatalf("refused: %+v", out)
		}
	}
	held := f.repo.Stats().Held
	if held == 0 {
		f.Fatal("nothing is held: the case shows nothing")
	}
	return held
}

// shows checks the entities and the balances of rpm that an outcome of entity i
// shows: what the quotas have left, less missing.
func (f *family) shows(what string, i int, out limiter.Outcome, missing int64) {
	f.Helper()
	type balance struct {
		Entity string
		Left   int64 // thousandths
	}
	var got, want []balance
	for _, b := range out.Payers {
		got = append(got, balance{b.Account.Entity, b.Tokens[0]})
	}
	for k, entity := range f.entities[i:] {
		want = append(want, balance{entity, 1000 * (f.quota(i+k).Capacity - f.used - missing)})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("%s of %s (-want +got):\n%s", what, f.entities[i], diff)
	}
}

// stored checks that the store lacks missing tokens of every entity beyond those
// that were used.
func (f *family) stored(what string, missing int64) {
	f.Helper()
	out, err := f.store.Peek(f.Context(), f.now, f.charge(0, "rpm", 0))
	f.check(err)
	f.shows(what, 0, out, missing)
}

// credits returns credits of n tokens for all accounts.
func (f *family) credits(out limiter.Outcome, limit string, n int64) (all []limiter.Credit) {
	for _, b := range out.Payers {
		if hasLimit(b.Account, limit) {
			all = append(all, limiter.Credit{Account: b.Account, Amounts: limiter.Tokens(limit, n)})
		}
	}
	return all
}

// families runs a test for chains of 1 to 8 payers.
func families(t *testing.T, test func(*family)) {
	t.Helper()
	for n := 1; n <= 8; n++ {
		t.Run(fmt.Sprint(n, " payers"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFamily(t, n)
				test(f)
				f.check(f.repo.Close())
			})
		})
	}
}

// A pot holds tokens of all payers. Each call, peek, list and refusal of any of them
// shows these as available, and all of them get them back.
func TestAPotHoldsTokensOfAllPayers(t *testing.T) {
	families(t, func(f *family) {
		held := f.hold()
		f.shows("a call", 0, f.consume("rpm", 1), 0)
		held--
		if s := f.repo.Stats(); s.Held != held || s.AdmittedLocally < 2 || int64(f.store.consumes) != s.Requests {
			f.Errorf("%d requests, %+v", f.store.consumes, s)
		}
		f.stored("the store's balance", held)
		for i := range f.entities {
			out, err := f.repo.Peek(f.Context(), f.now, f.charge(i, "rpm", 0))
			f.check(err)
			f.shows("a peek", i, out, 0)
			// The quotas of the ancestors are larger, so they cover the charge.
			for _, again := range []string{"", ", again,"} {
				out, err = f.repo.Consume(f.Context(), f.now, f.charge(i, "rpm", f.quota(i).Capacity))
				f.check(err)
				if f.shows("a refusal"+again, i, out, 0); out.Admitted {
					f.Errorf("%s is admitted", f.entities[i])
				}
			}
		}
		var listed limiter.Outcome
		for b, err := range f.repo.Buckets(f.Context(), f.now, limiter.Scope{Resource: "gpt-4"}) {
			f.check(err)
			listed.Payers = append(listed.Payers, b)
		}
		f.shows("the list", 0, listed, 0)
		time.Sleep(3 * time.Second)
		f.repo.Flush()
		if s := f.repo.Stats(); s.Held != 0 || s.Returned != held {
			f.Errorf("%d were held: %+v", held, s)
		}
		f.stored("the store's balance after the hold", 0)
	})
}

// A refusal shows what the pots of cousins hold of common ancestors, and what a pot
// itself holds once.
func TestCousins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, 4)
		defer func() { f.check(f.repo.Close()) }()
		f.check(f.store.SetConfig(t.Context(), f.limits("cousin", f.quota(8)), f.event()))
		f.check(f.store.CreateEntity(t.Context(), limiter.Entity{
			ID: "cousin", Parent: "level-2", Cascade: true,
		}, f.event()))
		held := f.hold()
		cousin := f.charge(0, "rpm", 5)
		cousin.Entity = "cousin"
		for range 4 {
			_, err := f.repo.Consume(t.Context(), f.now, cousin)
			f.check(err)
		}
		if f.repo.Stats().Held <= held {
			t.Fatal("the pot of the cousin holds nothing: the case shows nothing")
		}
		for entity, want := range map[string][]int64{
			"level-0": {1000 - 40, 2000 - 40, 3000 - 60, 4000 - 60},
			"cousin":  {9000 - 20, 3000 - 60, 4000 - 60},
			"level-1": {2000 - 40, 3000 - 60, 4000 - 60},
			"level-2": {3000 - 60, 4000 - 60},
			"level-3": {4000 - 60},
		} {
			refused := f.charge(0, "rpm", 10_000)
			refused.Entity = entity
			for _, method := range []func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error){
				f.repo.Peek, f.repo.Consume, f.repo.Consume,
			} {
				out, err := method(t.Context(), f.now, refused)
				f.check(err)
				var got []int64
				for _, b := range out.Payers {
					got = append(got, b.Tokens[0]/1000)
				}
				if out.Admitted || !slices.Equal(got, want) {
					t.Errorf("%s: admitted %v, with balances %d, want %d", entity, out.Admitted, got, want)
				}
			}
		}
	})
}

// A pot settles a credit if all payers get the same. Otherwise the store does.
func TestAPotSettlesWhatAllPayersAgreeOn(t *testing.T) {
	families(t, func(f *family) {
		f.hold()
		out := f.consume("rpm", f.repo.Stats().Held)
		credit := func(what string, change int64, credits ...limiter.Credit) {
			f.Helper()
			before, sent := f.repo.Stats().Held, f.store.credits
			f.check(f.repo.Credit(f.Context(), f.now, credits...))
			if change == 0 {
				sent += len(credits)
			}
			if held := f.repo.Stats().Held; held != before+change || f.store.credits != sent {
				f.Errorf("%s: %d held, want %d; %d credits of the store, want %d", what, held, before+change,
					f.store.credits, sent)
			}
		}
		credit("all get 4", 4, f.credits(out, "rpm", 4)...)
		credit("all pay 3", -3, f.credits(out, "rpm", -3)...)
		f.used--
		f.stored("the store's balance", 1)
		for i := 1; i < len(f.entities); i++ {
			what := "all but " + f.entities[i]
			credit(what, 0, slices.Delete(f.credits(out, "rpm", 2), i, i+1)...)
			credits := f.credits(out, "rpm", 2)
			credits[i].Amounts = limiter.Tokens("rpm", 1)
			credit(what+", which gets less", 0, credits...)
			credits = f.credits(out, "rpm", 2)
			credits[i].Spared = []string{"rpm"}
			credit(what+", which was spared", 0, credits...)
			replaced := *credits[i].Account
			replaced.Ref = "another"
			credits = slices.Delete(f.credits(out, "rpm", 2), i, i+1)
			before := f.repo.Stats().Held
			f.repo.absorb(f.now, append(credits, limiter.Credit{
				Account: &replaced, Amounts: limiter.Tokens("rpm", 2),
			}), 0)
			if held := f.repo.Stats().Held; held != before {
				f.Errorf("%s, which was replaced: %d held, want %d", what, held, before)
			}
		}
	})
}

// A limit counts for the payers that have it.
func TestPayersWithDifferentLimits(t *testing.T) {
	families(t, func(f *family) {
		// The entity and every third ancestor have tpm, and from the fourth on they
		// lack rpm.
		tpm := limiter.Quota("tpm", 3000, limiter.EveryHour)
		for i, id := range f.entities {
			limits := []limiter.Limit{f.quota(i), tpm}
			if i > 3 && i%3 == 0 {
				limits = limits[1:]
			} else if i%3 > 0 {
				limits = limits[:1]
			}
			f.check(f.repo.SetConfig(f.Context(), f.limits(id, limits...), f.event()))
		}
		both := f.charge(0, "rpm", 10)
		both.Amounts = both.Amounts.And("tpm", 20)
		var out limiter.Outcome
		for range 5 {
			var err error
			out, err = f.repo.Consume(f.Context(), f.now, both)
			f.check(err)
		}
		left := func(b limiter.Bucket, held int64) (want []int64) {
			for _, l := range b.Account.Limits {
				n := both.Amounts.Get(l.Name)
				want = append(want, 1000*(l.Capacity-5*n-held*n/10))
			}
			return want
		}
		stored, err := f.store.Peek(f.Context(), f.now, f.charge(0, "tpm", 0))
		f.check(err)
		held := f.repo.Stats().Held / 3 // of rpm
		for i := range f.entities {
			if got, want := out.Payers[i].Tokens, left(out.Payers[i], 0); !slices.Equal(got, want) {
				f.Errorf("%s shows %d, want %d", f.entities[i], got, want)
			}
			if got, want := stored.Payers[i].Tokens, left(out.Payers[i], held); !slices.Equal(got, want) || held == 0 {
				f.Errorf("the store has %d of %s, want %d", got, f.entities[i], want)
			}
		}
		credits := f.credits(out, "tpm", 1)
		f.check(f.repo.Credit(f.Context(), f.now, credits...))
		if got := f.repo.Stats().Held; got != 3*held+1 || f.store.credits != 0 {
			f.Errorf("%d tokens are held, want %d: the payers of tpm agree", got, 3*held+1)
		}
	})
}

// Every change of an entity of the chain empties the pot first, and no change of
// another one does.
func TestAChangeOfAnyPayerClosesThePot(t *testing.T) {
	changes := map[string]func(f *family, id string) error{
		"limits": func(f *family, id string) error {
			return f.repo.SetConfig(f.Context(), f.limits(id, limiter.Quota("rpm", 900, limiter.EveryHour)), f.event())
		},
		"limits for all resources": func(f *family, id string) error {
			return f.repo.SetConfig(f.Context(), limiter.Config{
				Scope: limiter.Scope{Entity: id}, Limits: []limiter.Limit{f.quota(0)},
			}, f.event())
		},
		"a switch": func(f *family, id string) error {
			return f.repo.SetSwitch(f.Context(), limiter.Switch{Scope: limiter.Scope{Entity: id}, Since: f.now}, f.event())
		},
		"a reset": func(f *family, id string) error {
			_, err := f.repo.Fill(f.Context(), f.now, limiter.Fill{Entity: id, Resource: "gpt-4"}, f.event())
			return err
		},
		"an ancestor more": func(f *family, id string) error {
			err := f.repo.CreateEntity(f.Context(), limiter.Entity{ID: id, Parent: "other", Cascade: true}, f.event())
			if errors.Is(err, limiter.ErrExists) { // only the last ancestor has no record
				return nil
			}
			return err
		},
	}
	for name, change := range changes {
		for i := range 8 {
			t.Run(fmt.Sprint(name, " of level ", i), func(t *testing.T) {
				families(t, func(f *family) {
					if i >= len(f.entities) {
						return
					}
					held := f.hold()
					f.check(f.repo.SetConfig(f.Context(), f.limits("other", f.quota(1)), f.event()))
					if s := f.repo.Stats(); s.Held != held {
						f.Errorf("a change of another entity: %+v", s)
					}
					f.repo.Repository = &watched{f.store, func() { f.stored("the store's balance before the change", 0) }}
					f.check(change(f, f.entities[i]))
					if s := f.repo.Stats(); s.Held != 0 || s.Returned != held {
						f.Errorf("%+v", s)
					}
				})
			})
		}
	}
}

// watched is a store that calls during before each change.
type watched struct {
	*chains
	during func()
}

// SetConfig stores limits.
func (w *watched) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	w.during()
	return w.chains.SetConfig(ctx, cfg, ev)
}

// SetSwitch turns a level off.
func (w *watched) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	w.during()
	return w.chains.SetSwitch(ctx, s, ev)
}

// Fill resets a bucket.
func (w *watched) Fill(ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent) (bool, error) {
	w.during()
	return w.chains.Fill(ctx, now, f, ev)
}

// CreateEntity stores an entity.
func (w *watched) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	w.during()
	return w.chains.CreateEntity(ctx, e, ev)
}

// A refusal may leave out ancestors. The next one, which needs no request, leaves
// out the same, and nothing is concluded about them.
func TestARefusalThatLeavesOutAncestors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, 4)
		defer func() { f.check(f.repo.Close()) }()
		f.store.brief = true
		tpm := limiter.Quota("tpm", 100, limiter.EveryHour)
		f.check(f.repo.SetConfig(t.Context(), f.limits("level-1", limiter.Quota("rpm", 50, limiter.EveryHour)), f.event()))
		f.check(f.repo.SetConfig(t.Context(), f.limits("level-3", f.quota(3), tpm), f.event()))
		f.consume("rpm", 50)
		f.consume("tpm", 100)
		for _, c := range []struct {
			limit    string
			payers   int
			requests int
		}{{"rpm", 2, 1}, {"rpm", 2, 0}, {"tpm", 4, 1}, {"tpm", 4, 0}, {"rpm", 4, 0}} {
			before := f.store.consumes
			out := f.consume(c.limit, 1)
			if n := f.store.consumes - before; out.Admitted || len(out.Payers) != c.payers || n != c.requests {
				t.Errorf("%s: %d requests, %+v", c.limit, n, out)
			}
		}
	})
}

// Another process makes the chain longer or shorter. The pot returns what it holds
// to the payers that it had.
func TestAChainThatChanges(t *testing.T) {
	for name, change := range map[string]func(*chains){
		"longer":  func(c *chains) { c.parents["level-3"] = "level-4" },
		"shorter": func(c *chains) { delete(c.parents, "level-2") },
		"another": func(c *chains) { c.parents["level-1"] = "level-4" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFamily(t, 5)
				defer func() { f.check(f.repo.Close()) }()
				delete(f.store.parents, "level-3")
				paid := map[string]int64{}
				count := func(out limiter.Outcome, n int64) {
					t.Helper()
					if !out.Admitted {
						t.Fatalf("refused: %+v", out)
					}
					for _, b := range out.Payers {
						paid[b.Account.Entity] += n
					}
				}
				for range 4 {
					count(f.consume("rpm", 10), 10)
				}
				held := f.repo.Stats().Held
				change(f.store)
				for range 4 {
					count(f.consume("rpm", held+5), held+5)
				}
				time.Sleep(3 * time.Second)
				f.repo.Flush()
				if s := f.repo.Stats(); held == 0 || s.Held > 0 || s.Dropped > 0 {
					t.Errorf("%d were held: %+v", held, s)
				}
				for i, id := range f.entities {
					out, err := f.store.Peek(t.Context(), f.now, f.charge(i, "rpm", 0))
					f.check(err)
					if got, want := out.Payers[0].Tokens[0], 1000*(f.quota(i).Capacity-paid[id]); got != want {
						t.Errorf("%s has %d thousandths, want %d", id, got, want)
					}
				}
			})
		})
	}
}

// Callers who share a request, and more than the chain covers, are admitted up to
// what its scarcest payer has.
func TestCallersOfAChainShareRequests(t *testing.T) {
	families(t, func(f *family) {
		top := len(f.entities) - 1
		f.check(f.repo.SetConfig(f.Context(),
			f.limits(f.entities[top], limiter.Quota("rpm", 100, limiter.EveryHour)), f.event()))
		f.consume("rpm", 10)
		f.store.latency = 5 * time.Millisecond
		outs := make(chan limiter.Outcome)
		for range 30 {
			go func() {
				out, err := f.repo.Consume(f.Context(), f.now, f.charge(0, "rpm", 7))
				if err != nil {
					f.Error(err)
				}
				outs <- out
			}()
		}
		admitted := 0
		for range 30 {
			out := <-outs
			if out.Admitted {
				admitted++
			} else if out.Payers[top].Tokens[0] >= 7000 {
				f.Errorf("refused with %d thousandths", out.Payers[top].Tokens[0])
			}
		}
		if admitted != 90/7 || f.store.consumes > 4 {
			f.Errorf("%d calls were admitted with %d requests", admitted, f.store.consumes)
		}
	})
}

// A call from the pot of one payer or two allocates its outcome at once.
func TestACallFromThePotAllocatesLittle(t *testing.T) {
	for n, most := range map[int]float64{1: 1, 2: 1, 8: 2} {
		f := newFamily(t, n)
		f.hold()
		p := f.repo.pots.lock(limiter.Scope{Entity: f.entities[0], Resource: "gpt-4"}, false)
		g, charge, at := p.grants[0], f.charge(0, "rpm", 1), tick{f.now.UnixMilli(), f.repo.machine()}
		p.put(g, 0, 1000)
		got := testing.AllocsPerRun(100, func() {
			if _, ok := p.spend(&charge, at); !ok {
				t.Fatal("the pot does not cover the call")
			}
		})
		p.put(g, 0, -min(1000, g.held[0]))
		p.mu.Unlock()
		if got > most {
			t.Errorf("%d payers: %v allocations, want %v", n, got, most)
		}
		f.check(f.repo.Close())
	}
}
