package repotest_test

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// TestComparisonFindsWrongChains checks that Compare finds two repositories that charge
// the ancestors of an entity wrongly in the same way.
func TestComparisonFindsWrongChains(t *testing.T) {
	for name, cheat := range map[string]func(*climber, context.Context, time.Time, *limiter.Charge, *limiter.Outcome){
		"skips a level": func(c *climber, ctx context.Context, now time.Time, charge *limiter.Charge, out *limiter.Outcome) {
			c.again(ctx, now, charge, out.Payers[len(out.Payers)-1], 1)
		},
		"charges a level twice": func(c *climber, ctx context.Context, now time.Time, charge *limiter.Charge, out *limiter.Outcome) {
			c.again(ctx, now, charge, out.Payers[len(out.Payers)-1], -1)
		},
		"hides a level": func(_ *climber, _ context.Context, _ time.Time, _ *limiter.Charge, out *limiter.Outcome) {
			out.Payers = out.Payers[:len(out.Payers)-1]
		},
		"gives back to another level": func(c *climber, _ context.Context, _ time.Time, _ *limiter.Charge, out *limiter.Outcome) {
			c.wrong[out.Payers[2].Account.Ref] = out.Payers[1].Account
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newClimber := func() limiter.Repository {
				return &climber{Repository: memory.New(nil), cheat: cheat, wrong: map[any]*limiter.Account{}}
			}
			for seed := range uint64(30) {
				if verdict(t, func(tb testing.TB) {
					tb.Helper()
					repotest.Compare(tb, seed, 2000, newClimber(), newClimber())
				}) != "" {
					return
				}
			}
			t.Error("not found in 30 histories")
		})
	}
}

// climber cheats with charges that reach a grandparent.
type climber struct {
	limiter.Repository
	cheat func(*climber, context.Context, time.Time, *limiter.Charge, *limiter.Outcome)
	wrong map[any]*limiter.Account // which account gets what belongs to another
}

func (c *climber) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := c.Repository.Consume(ctx, now, charge)
	if err == nil && out.Admitted && len(out.Payers) > 2 {
		c.cheat(c, ctx, now, &charge, &out)
	}
	return out, err
}

// again gives the amounts of a charge back to one payer, or takes them again if sign is
// negative.
func (c *climber) again(ctx context.Context, now time.Time, charge *limiter.Charge, b limiter.Bucket, sign int64) {
	var amounts limiter.Amounts
	for _, l := range b.Account.Limits {
		if n := charge.Amounts.Get(l.Name); n > 0 {
			amounts = amounts.And(l.Name, sign*n)
		}
	}
	_ = c.Repository.Credit(ctx, now, limiter.Credit{Account: b.Account, Amounts: amounts})
}

func (c *climber) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	for _, credit := range credits {
		if other := c.wrong[credit.Account.Ref]; other != nil {
			credit.Account = other
		}
		if err := c.Repository.Credit(ctx, now, credit); err != nil {
			return err
		}
	}
	return nil
}
