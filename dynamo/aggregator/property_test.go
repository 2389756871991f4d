package aggregator_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// feed returns a random history of a few buckets over some days, with give-backs.
// It crosses the ends of hours, days and months.
func feed(rng *rand.Rand, n int) []aggregator.Change {
	at := time.Date(2026, time.January, 30, 22, 0, 0, 0, time.UTC)
	changes := make([]aggregator.Change, n)
	for i := range changes {
		at = at.Add(time.Duration(rng.Int64N(int64(20 * time.Minute))))
		used := map[string]int64{}
		for _, limit := range []string{"rpm", "tpm", "a.b-c_d"} {
			if amount := rng.Int64N(1000) - 200; amount != 0 && rng.IntN(2) == 0 {
				used[limit] = amount
			}
		}
		changes[i] = aggregator.Change{
			Position: aggregator.Position{Feed: "2026-01-30T22:00:00.000", Number: fmt.Sprintf("%040d", 1000+i*7)},
			At:       at, Used: used,
			Bucket: aggregator.ID{
				Namespace: "ns-" + fmt.Sprint(rng.IntN(2)), Entity: "key-" + fmt.Sprint(rng.IntN(3)),
				Resource: "gpt-4",
			},
		}
	}
	return changes
}

// deliver processes changes as a stream delivers them: in order, in batches of any
// size, again after a failure, and sometimes from further back.
func deliver(t *testing.T, a *aggregator.Aggregator, rng *rand.Rand, changes []aggregator.Change) {
	t.Helper()
	for begin, tries := 0, 0; begin < len(changes); tries++ {
		if tries > 100*len(changes) {
			t.Fatal("no progress")
		}
		end := min(begin+1+rng.IntN(40), len(changes))
		result := a.Process(t.Context(), changes[begin:end])
		switch {
		case result.Failed >= 0:
			if result.Err == nil {
				t.Fatal("failed without an error")
			}
			begin += result.Failed
		case rng.IntN(5) == 0:
			begin = rng.IntN(end + 1) // replay from any change
			if rng.IntN(3) > 0 {
				begin = end
			}
		default:
			begin = end
		}
	}
}

// TestReplaysAndSplitsChangeNothing checks that replays, splits and failures leave
// every snapshot as after one pass.
func TestReplaysAndSplitsChangeNothing(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		changes := feed(rng, 300)
		once, often := newModel(), newModel()
		if result := newAggregator(t, once, nil).Process(t.Context(), changes); result.Err != nil ||
			result.Failed >= 0 {
			t.Fatal(result)
		}
		often.failRandomly(rng, 8)
		deliver(t, newAggregator(t, often, &aggregator.Options{Parallel: 1 + rng.IntN(4)}), rng, changes)
		if diff := cmp.Diff(once.usage, often.usage, cmpopts.IgnoreUnexported(sum{})); diff != "" {
			t.Fatalf("seed %d (-once +often):\n%s", seed, diff)
		}
	}
}

// TestWindowsAddUp checks that the hours, the days and the months each add up to
// the total usage.
func TestWindowsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	changes := feed(rng, 2500) // more than a batch
	m := newModel()
	if result := newAggregator(t, m, nil).Process(t.Context(), changes); result.Err != nil || result.Failed >= 0 {
		t.Fatal(result)
	}
	want := map[string]int64{}
	for _, c := range changes {
		for limit, n := range c.Used {
			want[limit] += n
		}
	}
	for _, window := range []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly} {
		got := map[string]int64{}
		for k, s := range m.usage {
			if k.Window != window {
				continue
			}
			for limit, n := range s.Counters {
				got[limit] += n
			}
			if start, _ := window.Bounds(k.Start); !start.Equal(k.Start) {
				t.Errorf("%s begins at %s", window, k.Start)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-used +counted):\n%s", window, diff)
		}
	}
}

func newAggregator(t *testing.T, store aggregator.Store, opts *aggregator.Options) *aggregator.Aggregator {
	t.Helper()
	a, err := aggregator.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
