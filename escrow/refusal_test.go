package escrow_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
			must(t, repo.Credit(t.Context(), time.Now(), limiter.Credit{Account: paid.Self.Account, Amounts: limiter.Tokens("rpm", 100)}))
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
		refused := 0
		var all sync.WaitGroup
		all.Go(func() { consume(1) }) // the others wait for it
		for range 3 {
			all.Go(func() {
				time.Sleep(time.Millisecond)
				if out := consume(8); !out.Admitted {
					refused++
					if got := out.Self.Tokens[0]; got >= 8000 {
						t.Errorf("refused with %d thousandths", got)
					}
				}
			})
		}
		all.Wait()
		if refused != 1 {
			t.Errorf("%d of 3 calls were refused, want 1", refused)
		}
	})
}
