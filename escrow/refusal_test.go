package escrow_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// slowCredits is a store whose credits take a while before they count.
type slowCredits struct{ limiter.Repository }

// Credit passes credits on after a while.
func (s slowCredits) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	time.Sleep(200 * time.Millisecond)
	return s.Repository.Credit(ctx, now, credits...)
}

// A call that comes after a credit finds what it gave back, also if another call
// was refused while the credit was on its way.
func TestARefusalEndsWithACredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := escrow.New(slowCredits{newRemote(t, 0, limiter.Custom("rpm", 100, 1, time.Second))}, nil)
		defer func() { must(t, repo.Close()) }()
		consume := func(n int64) limiter.Outcome {
			out, err := repo.Consume(t.Context(), time.Now(), chargeOf(n))
			must(t, err)
			return out
		}
		paid := consume(100)
		var credit sync.WaitGroup
		credit.Go(func() {
			must(t,
				repo.Credit(t.Context(), time.Now(), limiter.Credit{
					Account: paid.Payers[0].Account, Amounts: limiter.Tokens("rpm", 100),
				}))
		})
		time.Sleep(100 * time.Millisecond)
		if consume(50).Admitted {
			t.Fatal("an empty bucket admits")
		}
		credit.Wait()
		if !consume(50).Admitted {
			t.Error("refused after the credit")
		}
	})
}

// A caller that is refused because others came first learns which limit lacks how
// much.
func TestARefusalCountsTheClaimsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := escrow.New(newRemote(t, 60*time.Millisecond, limiter.Custom("rpm", 100, 1, time.Second)), nil)
		defer func() { must(t, repo.Close()) }()
		consume := func(n int64) limiter.Outcome {
			out, err := repo.Consume(t.Context(), time.Now(), chargeOf(n))
			must(t, err)
			return out
		}
		consume(80)
		consume(30) // refused, and remembered
		var refused atomic.Int64
		var all sync.WaitGroup
		all.Go(func() { consume(1) }) // the others wait for it
		for range 3 {
			all.Go(func() {
				time.Sleep(time.Millisecond)
				if out := consume(8); !out.Admitted {
					refused.Add(1)
					if got := out.Payers[0].Tokens[0]; got >= 8000 {
						t.Errorf("refused with %d thousandths", got)
					}
				}
			})
		}
		all.Wait()
		if n := refused.Load(); n != 1 {
			t.Errorf("%d of 3 calls were refused, want 1", n)
		}
	})
}

// A refusal shows what Peek shows: what siblings hold of the parent. If that would
// cover the charge, it shows so much that the charge waits for the end of a hold.
func TestARefusalShowsWhatSiblingsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.Custom("rpm", 100, 1, time.Second),
			limiter.Custom("tpm", 1000, 10, time.Second))
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		event := limiter.AuditEvent{ID: "02", At: time.Now()}
		for _, id := range []string{"a", "b"} {
			must(t, repo.CreateEntity(t.Context(), limiter.Entity{ID: id, Parent: "team", Cascade: true}, event))
		}
		charge := func(entity string, rpm, tpm int64) limiter.Charge {
			return limiter.Charge{
				Entity: entity, Resource: "gpt-4", Amounts: limiter.Tokens("rpm", rpm).And("tpm", tpm),
			}
		}
		for _, n := range []int64{4, 4} {
			_, err := repo.Consume(t.Context(), time.Now(), charge("a", n, n))
			must(t, err)
		}
		if held := repo.Stats().Held; held != 8 {
			t.Fatalf("%d tokens are held, want 4 of each limit", held)
		}
		for _, c := range []struct {
			name   string
			entity string
			rpm    int64
			want   []int64 // of the payers in turn, in thousandths
		}{
			{"by a limit whose children hold tokens", "team", 93, []int64{92_000, 992_000}},
			{"by the parent, covered with what a sibling holds", "b", 90, []int64{100_000, 1000_000, 89_000, 992_000}},
			{"by both", "b", 101, []int64{100_000, 1000_000, 92_000, 992_000}},
		} {
			for _, again := range []string{"", ", again"} {
				peek, err := repo.Peek(t.Context(), time.Now(), charge(c.entity, c.rpm, 0))
				must(t, err)
				out, err := repo.Consume(t.Context(), time.Now(), charge(c.entity, c.rpm, 0))
				must(t, err)
				for method, out := range map[string]limiter.Outcome{"Peek": peek, "Consume": out} {
					var got []int64
					for _, b := range out.Payers {
						got = append(got, b.Tokens...)
					}
					if diff := cmp.Diff(c.want, got); out.Admitted || diff != "" {
						t.Errorf("%s is refused %s%s (-want +got):\n%s", method, c.name, again, diff)
					}
				}
			}
		}
	})
}

// A charge of nothing is answered by the store, at the time of the call.
func TestAChargeOfNothing(t *testing.T) {
	for _, opts := range []*escrow.Options{nil, sharing} {
		repo := escrow.New(newRemote(t, 0, limiter.PerMinute("rpm", 6000)), opts)
		for _, n := range []int64{10, 10} {
			_, err := repo.Consume(t.Context(), time.Now(), chargeOf(n))
			must(t, err)
		}
		out, err := repo.Consume(t.Context(), time.Now(), limiter.Charge{Entity: "key", Resource: "gpt-4"})
		must(t, err)
		if !out.Admitted || out.Payers[0].Ahead > time.Second {
			t.Errorf("admitted %v, ahead %v", out.Admitted, out.Payers[0].Ahead)
		}
		must(t, repo.Close())
	}
}
