package limiter_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

func TestWithin(t *testing.T) {
	const most = math.MaxInt64 / 1000
	for _, c := range []struct{ got, want limiter.Limit }{
		{limiter.Within("x", 10_000, time.Minute), limiter.Custom("x", 1_000, 9_000, time.Minute)},
		{limiter.Within("x", 19, time.Minute), limiter.Custom("x", 1, 18, time.Minute)},
		{limiter.Within("x", 2, time.Hour), limiter.Custom("x", 1, 1, time.Hour)},
		{limiter.Within("x", most, time.Second), limiter.Custom("x", most/10, most-most/10, time.Second)},
		{limiter.WithinBurst("x", 10, 9, time.Minute), limiter.Custom("x", 9, 1, time.Minute)},
		// Nothing may refill inside the window, to the thousandth of a token.
		{limiter.Within("x", 1, time.Second), limiter.Custom("x", 1, 1, 2*time.Second)},
		{limiter.Within("x", 1, time.Minute), limiter.Custom("x", 1, 1, 61*time.Second)},
		{limiter.WithinBurst("x", 10, 10, 999*time.Second), limiter.Custom("x", 10, 1, 1000*time.Second)},
		{limiter.WithinBurst("x", 10, 10, 1000*time.Second), limiter.Custom("x", 10, 1, 1002*time.Second)},
		{limiter.Within("x", 1, time.Hour), limiter.Custom("x", 1, 1, 3604*time.Second)},
		{limiter.Within("x", 1, 24*time.Hour), limiter.Custom("x", 1, 1, 86487*time.Second)},
	} {
		if c.got != c.want {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
		check(t, c.got.Validate())
	}
}

func TestWithinOutOfRangeIsBadInput(t *testing.T) {
	const most = math.MaxInt64 / 1000
	const longest = 9_223_372_036 * time.Second
	for _, c := range []struct {
		limit         limiter.Limit
		field, reason string
	}{
		{limiter.Within("x", 0, time.Minute), "capacity", "must be between 1 and"},
		{limiter.Within("x", math.MinInt64, time.Minute), "capacity", "must be between 1 and"},
		{limiter.Within("x", most+1, time.Minute), "capacity", "must be between 1 and"},
		{limiter.Within("x", math.MaxInt64, time.Minute), "capacity", "must be between 1 and"},
		{limiter.WithinBurst("x", 10, 0, time.Minute), "capacity", "must be between 1 and"},
		{limiter.WithinBurst("x", 10, math.MinInt64, time.Minute), "capacity", "must be between 1 and"},
		{limiter.WithinBurst("x", 10, math.MaxInt64, time.Minute), "capacity", "must be between 1 and"},
		{
			limiter.WithinBurst("x", 10, 11, time.Minute), "refill_amount",
			"the burst of WithinBurst must be at most its n",
		},
		{limiter.Within("x", 10, 1500*time.Millisecond), "refill_period_seconds", "whole number of seconds"},
		{limiter.Within("x", 1, 1500*time.Millisecond), "refill_period_seconds", "whole number of seconds"},
		{limiter.Within("x", 1, 0), "refill_period_seconds", "whole number of seconds"},
		{limiter.Within("x", 1, -time.Second), "refill_period_seconds", "whole number of seconds"},
		{limiter.Within("x", 1, longest), "refill_period_seconds", "to 9223372036s"},
	} {
		if bad := invalid(t, c.limit.Validate(), c.field); !strings.Contains(bad.Reason, c.reason) {
			t.Errorf("%v: %v", c.limit, &bad)
		}
	}
}

// paid is one admission or one give-back.
type paid struct {
	at     time.Time
	amount int64
}

// maxWithin returns the most that any closed window of a length admitted. The
// worst windows start with an admission.
func maxWithin(history []paid, length time.Duration) (most int64) {
	for i, first := range history {
		var sum int64
		for _, p := range history[i:] {
			if p.at.After(first.at.Add(length)) {
				break
			}
			sum += p.amount
			most = max(most, sum)
		}
	}
	return most
}

// TestWithinHoldsInEveryWindow checks every closed window of the limit's period
// under greedy random histories on the exact store.
func TestWithinHoldsInEveryWindow(t *testing.T) {
	periods := []time.Duration{
		time.Second, 7 * time.Second, time.Minute, 999 * time.Second, 1000 * time.Second, time.Hour,
		24 * time.Hour,
	}
	for _, rollbacks := range []bool{false, true} {
		reached := 0
		for seed := range uint64(120) {
			rng := rand.New(rand.NewPCG(seed, 14))
			n, period := 1+rng.Int64N([]int64{1, 3, 10, 1000}[rng.IntN(4)]), periods[rng.IntN(len(periods))]
			limit := limiter.Within("x", n, period)
			if rng.IntN(2) == 0 {
				limit = limiter.WithinBurst("x", n, 1+rng.Int64N(n), period)
			}
			if rng.IntN(4) == 0 {
				limit = limiter.WithinBurst("x", n, n, period)
			}
			most := maxWithin(greedy(t, rng, limit, period, rollbacks), period)
			if most > n {
				t.Fatalf("seed %d, rollbacks %t: %d of %d admitted within %v under %v", seed, rollbacks, most, n,
					period, limit)
			}
			if most == n {
				reached++
			}
		}
		if reached < 60 {
			t.Errorf("only %d of 120 histories admitted all that is allowed, so that this says little", reached)
		}
	}
}

// greedy takes all or part of the balance, near the edges of windows. A give-back
// counts in its own window.
func greedy(t *testing.T, rng *rand.Rand, limit limiter.Limit, period time.Duration, rollbacks bool) (history []paid) {
	t.Helper()
	w := startWith(t, limiter.Options{}, memory.Options{}, limit)
	w.clock.pass(time.Duration(rng.Int64N(int64(period/time.Millisecond))) * time.Millisecond)
	steps := []time.Duration{
		0, time.Millisecond, period - time.Millisecond, period, period + time.Millisecond, period / 2,
		period / 10,
	}
	var open []*limiter.Lease
	for range 60 {
		w.clock.pass(steps[rng.IntN(len(steps))].Truncate(time.Millisecond))
		if len(open) > 0 && rng.IntN(4) == 0 {
			lease := open[len(open)-1]
			open = open[:len(open)-1]
			history = append(history, paid{w.clock.now(), -lease.Consumed().Get("x")})
			check(t, lease.Rollback(bg))
		}
		left, err := w.Available(bg, alice, resource)
		check(t, err)
		amount := left.Get("x")
		if rng.IntN(4) == 0 {
			amount = rng.Int64N(amount + 1)
		}
		lease := w.take(t, alice, limiter.Tokens("x", amount))
		history = append(history, paid{w.clock.now(), amount})
		if rollbacks && rng.IntN(3) == 0 {
			open = append(open, lease)
		}
		w.clock.pass(time.Duration(rng.IntN(3)) * time.Millisecond)
	}
	return history
}

// TestWithinRefusesWhatIsAboveItsBurst checks that a request above the burst
// never fits, even if the window would allow it.
func TestWithinRefusesWhatIsAboveItsBurst(t *testing.T) {
	w := start(t, limiter.Within("tpm", 10_000, time.Minute))
	w.take(t, alice, tpm(1000))
	_, err := w.Acquire(bg, request(alice, tpm(1001)))
	is(t, err, limiter.ErrNeverFits)
	const want = "rate limit exceeded for alice/gpt-4: tpm; never fits: 1001 tpm is above the capacity (burst) of 1000"
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
