package repotest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// TestComparisonFindsRepositoriesThatCheat checks that Compare can fail: two
// repositories that cheat in the same way give equal answers, but break the
// limits.
func TestComparisonFindsRepositoriesThatCheat(t *testing.T) {
	findsCheaters(t, func(tb testing.TB, seed uint64, newCheater func() *cheater) {
		tb.Helper()
		repotest.Compare(tb, seed, 2000, newCheater(), newCheater())
	})
}

// TestEnduranceFindsRepositoriesThatCheat checks that Endure can fail.
func TestEnduranceFindsRepositoriesThatCheat(t *testing.T) {
	findsCheaters(t, func(tb testing.TB, seed uint64, newCheater func() *cheater) {
		tb.Helper()
		c := newCheater()
		repotest.Endure(tb, seed, 2000, 0.02, c, c)
	})
}

// TestEnduranceFindsFalseRefusals checks that Endure finds a repository that
// refuses charges its buckets can pay.
func TestEnduranceFindsFalseRefusals(t *testing.T) {
	for seed := range uint64(20) {
		said := verdict(t, func(tb testing.TB) {
			tb.Helper()
			miser := &miser{Repository: memory.New(nil)}
			repotest.Endure(tb, seed, 2000, 0.02, miser, miser)
		})
		if strings.Contains(said, "but the bucket holds at least") {
			return
		}
	}
	t.Error("not found in 20 histories")
}

// miser treats a bucket as empty at times.
type miser struct {
	limiter.Repository
	calls int
}

func (m *miser) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if m.calls++; m.calls%10 > 0 {
		return m.Repository.Consume(ctx, now, charge)
	}
	out, err := m.Peek(ctx, now, charge)
	if err == nil && out.Admitted && len(out.Payers) < 2 {
		out.Admitted = false
		clear(out.Payers[0].Tokens)
	}
	return out, err
}

// views returns views of a store, whose clocks Endure sets differently.
func views(tb testing.TB, repo limiter.Repository, n int) (all []limiter.Repository) {
	tb.Helper()
	for range n {
		view, err := repo.Namespace(tb.Context(), "default")
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, view)
	}
	return all
}

func findsCheaters(t *testing.T, run func(tb testing.TB, seed uint64, newCheater func() *cheater)) {
	t.Helper()
	for name, cheat := range map[string]func(*cheater){
		"give back twice": func(c *cheater) { c.credit = func(limiter.Amounts) int { return 2 } },
		"take less than was used": func(c *cheater) {
			c.credit = func(amounts limiter.Amounts) int {
				for _, n := range amounts.All() {
					if n < 0 {
						return 0
					}
				}
				return 1
			}
		},
		"let a clock run ahead now and then": func(c *cheater) {
			c.clock = func(now time.Time, call int) time.Time {
				if call%5 == 0 {
					return now.Add(20 * time.Second)
				}
				return now
			}
		},
		"forget a bucket": func(c *cheater) { c.forget = 40 },
		"admit what does not fit": func(c *cheater) {
			c.admit = func(call int) bool { return call%10 == 0 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				newCheater := func() *cheater {
					c := &cheater{
						Repository: memory.New(nil),
						credit:     func(limiter.Amounts) int { return 1 },
						clock:      func(now time.Time, _ int) time.Time { return now },
						admit:      func(int) bool { return false },
					}
					cheat(c)
					return c
				}
				said := verdict(t, func(tb testing.TB) { tb.Helper(); run(tb, seed, newCheater) })
				if said != "" {
					t.Logf("found in history %d", seed)
					if !strings.Contains(said, "more than the limits allow") &&
						!strings.Contains(said, "but the bucket holds at least") {
						t.Errorf("found, but not as a broken promise: %s", said)
					}
					return
				}
			}
			t.Error("not found in 20 histories")
		})
	}
}

// TestComparisonFindsRepositoriesWhosePeekLies checks that Compare finds two
// repositories whose Peek is wrong in the same way.
func TestComparisonFindsRepositoriesWhosePeekLies(t *testing.T) {
	for name, c := range map[string]struct {
		lie     func(*limiter.Outcome)
		foundBy string
	}{
		"says yes":           {func(out *limiter.Outcome) { out.Admitted = true }, "not two repositories"},
		"says no":            {func(out *limiter.Outcome) { out.Admitted = false }, "not two repositories"},
		"leaves out parents": {func(out *limiter.Outcome) { out.Payers = out.Payers[:1] }, "not two repositories"},
		"shows a token less": {func(out *limiter.Outcome) { out.Payers[0].Tokens[0] -= 1000 }, "not two repositories"},
		"hides its time":     {func(out *limiter.Outcome) { out.Payers[0].Ahead = 0 }, "not two repositories"},
		"names limits of others": {func(out *limiter.Outcome) { // at the same level, which is all that a caller sees
			account := *out.Payers[0].Account
			account.Source.Resource = strings.ToUpper(account.Source.Resource)
			out.Payers[0].Account = &account
		}, "Peek, then Consume"},
	} {
		t.Run(name, func(t *testing.T) {
			newLiar := func() limiter.Repository { return &liar{memory.New(nil), c.lie} }
			said := verdict(t, func(tb testing.TB) { tb.Helper(); repotest.Compare(tb, 1, 2000, newLiar(), newLiar()) })
			if !strings.Contains(said, c.foundBy) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// TestComparisonFindsADifference checks that a different answer stops the
// comparison, and that the report has the command to repeat it.
func TestComparisonFindsADifference(t *testing.T) {
	other := memory.New(nil)
	_, err := other.RegisterNamespace(t.Context(), time.Now(), "extra")
	if err != nil {
		t.Fatal(err)
	}
	said := verdict(t, func(tb testing.TB) { tb.Helper(); repotest.Compare(tb, 7, 2000, memory.New(nil), other) })
	if !strings.Contains(said, "the answers differ") || !strings.Contains(said, "make compare SEED=7 OPS=2000") {
		t.Errorf("it says %q", said)
	}
}

// verdict returns the message of a failing run, or "" if it passes.
func verdict(t *testing.T, run func(testing.TB)) (said string) {
	t.Helper()
	defer func() {
		if failure, ok := recover().(failure); ok {
			said = string(failure)
		}
	}()
	run(&recorder{TB: t})
	return ""
}

type failure string

// recorder is a testing.TB whose failure does not fail the real test.
type recorder struct{ testing.TB }

func (r *recorder) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }
func (r *recorder) Helper()                           {}

// cheater breaks one rule, but not for the twins of Compare, so that a history finds
// a broken promise and not twins that differ.
type cheater struct {
	limiter.Repository
	calls  int
	credit func(limiter.Amounts) int // number of times to apply it
	clock  func(now time.Time, call int) time.Time
	admit  func(call int) bool
	forget int // one of that many calls
}

func (c *cheater) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if isTwin(charge.Entity) {
		return c.Repository.Consume(ctx, now, charge)
	}
	c.calls++
	if c.forget > 0 && c.calls%c.forget == 0 {
		c.loseBucket(ctx, charge.Entity)
	}
	out, err := c.Repository.Consume(ctx, c.clock(now, c.calls), charge)
	if err == nil && c.admit(c.calls) {
		out.Admitted = true
	}
	return out, err
}

func (c *cheater) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if isTwin(charge.Entity) {
		return c.Repository.Peek(ctx, now, charge)
	}
	next := c.calls + 1
	if c.forget > 0 && next%c.forget == 0 {
		c.loseBucket(ctx, charge.Entity)
	}
	out, err := c.Repository.Peek(ctx, c.clock(now, next), charge)
	if err == nil && c.admit(next) {
		out.Admitted = true
	}
	return out, err
}

func (c *cheater) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	for _, credit := range credits {
		times := c.credit(credit.Amounts)
		if isTwin(credit.Account.Entity) {
			times = 1
		}
		for range times {
			if err := c.Repository.Credit(ctx, now, credit); err != nil {
				return err
			}
		}
	}
	return nil
}

func isTwin(entity string) bool { return strings.HasPrefix(entity, "twin-") }

// liar acts correctly and returns something else.
type liar struct {
	limiter.Repository
	lie func(*limiter.Outcome)
}

func (l *liar) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := l.Repository.Peek(ctx, now, charge)
	if err == nil {
		out.Payers[0].Tokens = slices.Clone(out.Payers[0].Tokens)
		l.lie(&out)
	}
	return out, err
}

// loseBucket deletes an entity and restores everything except its buckets.
func (c *cheater) loseBucket(ctx context.Context, entity string) {
	e, err := c.Entity(ctx, entity)
	known := err == nil
	var configs []limiter.Config
	for _, resource := range []string{"", "gpt-4", "claude"} {
		if cfg, err := c.Config(
			ctx, limiter.Scope{Entity: entity, Resource: resource},
		); err == nil && cfg.Limits != nil {
			configs = append(configs, cfg)
		}
	}
	ev := limiter.AuditEvent{Entity: "cheat", Details: map[string]any{}}
	_ = c.DeleteEntity(ctx, entity, ev)
	for _, cfg := range configs {
		_ = c.SetConfig(ctx, cfg, ev)
	}
	if known {
		_ = c.CreateEntity(ctx, e, ev)
	}
}
