package aggregator_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

var (
	noon   = time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	bucket = aggregator.ID{Namespace: "ns", Entity: "key-1", Resource: "gpt-4"}
)

// change returns a change that used tokens and left a state.
func change(number string, used map[string]int64, state *aggregator.State) aggregator.Change {
	return aggregator.Change{
		Position: aggregator.Position{Feed: "f", Number: number}, At: noon, Bucket: bucket, Used: used,
		State: state,
	}
}

// left returns the state of a bucket with one limit.
func left(limit limiter.Limit, thousandths int64) *aggregator.State {
	return &aggregator.State{RefilledAt: noon, Limits: []limiter.Limit{limit}, Tokens: []int64{thousandths}}
}

func TestRefillIsWrittenIfTheNextChargeNeedsIt(t *testing.T) {
	for name, c := range map[string]struct {
		state   *aggregator.State
		elapsed time.Duration
		used    int64
		want    bool
	}{
		"less is left than was used": {
			left(limiter.PerMinute("tpm", 100_000), 5_000_000), 5 * time.Second, 20_000, true,
		},
		"enough is left": {
			left(limiter.PerMinute("tpm", 100_000), 90_000_000), time.Second, 1000, false,
		},
		"O-7 a refill would be more than enough": {
			left(limiter.PerMinute("tpm", 60_000), 0), 5 * time.Second, 100, true,
		},
		"in debt": {
			left(limiter.PerMinute("tpm", 60_000), -5_000_000), 5 * time.Second, 100, true,
		},
		"nothing has accrued":           {left(limiter.PerDay("tpm", 10), 0), time.Millisecond, 1, false},
		"no time has passed":            {left(limiter.PerMinute("tpm", 60_000), 0), 0, 100, false},
		"the clock is behind":           {left(limiter.PerMinute("tpm", 60_000), 0), -time.Second, 100, false},
		"more was given back than used": {left(limiter.PerMinute("tpm", 60_000), 0), time.Second, -100, false},
		"the state is unknown":          {nil, 5 * time.Second, 100, false},
		"the bucket has another limit":  {left(limiter.PerMinute("rpm", 60), 0), 5 * time.Second, 100, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel()
			a := newAggregator(t, m, &aggregator.Options{Now: func() time.Time { return noon.Add(c.elapsed) }})
			result := a.Process(t.Context(), []aggregator.Change{change("1", map[string]int64{"tpm": c.used}, c.state)})
			if got := len(m.refills) == 1; got != c.want || result.Refills != len(m.refills) || result.Err != nil {
				t.Errorf("refilled %v, %+v, want %v", m.refills, result, c.want)
			}
		})
	}
}

// TestRefillUsesTheLastState checks that only the last state of a bucket counts, and
// the sum of its usage.
func TestRefillUsesTheLastState(t *testing.T) {
	tpm := limiter.PerMinute("tpm", 60_000)
	m := newModel()
	a := newAggregator(t, m, &aggregator.Options{Now: func() time.Time { return noon.Add(time.Second) }})
	used := map[string]int64{"tpm": 300}
	a.Process(t.Context(), []aggregator.Change{change("1", used, left(tpm, 0)), change("2", used, left(tpm, 500_000))})
	a.Process(t.Context(), []aggregator.Change{change("3", used, left(tpm, 0)), change("4", used, left(tpm, 600_000))})
	if want := []aggregator.ID{bucket}; !slices.Equal(m.refills, want) {
		t.Errorf("refilled %v, want one: 500 are less than 600, 600 are not", m.refills)
	}
}

// TestFailedRefillIsNotRepeated checks that a failed refill fails no change.
func TestFailedRefillIsNotRepeated(t *testing.T) {
	m := newModel()
	a := newAggregator(t, m, &aggregator.Options{Windows: []limiter.Window{}, Now: func() time.Time {
		return noon.Add(time.Second)
	}})
	m.fails = func() error { return errDown }
	result := a.Process(t.Context(), []aggregator.Change{change("1", map[string]int64{"tpm": 300},
		left(limiter.PerMinute("tpm", 60_000), 0))})
	if result.Failed >= 0 || !errors.Is(result.Err, errDown) {
		t.Errorf("%+v", result)
	}
}
