package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

func TestOptions(t *testing.T) {
	for name, o := range map[string]aggregator.Options{
		"an unknown window": {Windows: []limiter.Window{"weekly"}},
		"a window twice":    {Windows: []limiter.Window{limiter.Daily, limiter.Daily}},
		"negative parallel": {Parallel: -1},
	} {
		if _, err := aggregator.New(newModel(), &o); !isInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*limiter.InvalidError](err)
	return ok
}

// failingFor is a store that fails for the snapshots of one entity.
type failingFor struct {
	*model
	entity string
	err    error
}

func (p failingFor) AddUsage(ctx context.Context, a aggregator.Addition) error {
	if a.Bucket.Entity == p.entity {
		return p.err
	}
	return p.model.AddUsage(ctx, a)
}

// alternating returns n changes of two entities in turn.
func alternating(n int) []aggregator.Change {
	changes := make([]aggregator.Change, n)
	for i := range changes {
		changes[i] = change(fmt.Sprintf("%05d", i), map[string]int64{"tpm": 1}, nil)
		changes[i].Bucket.Entity = []string{"good", "bad"}[i%2]
	}
	return changes
}

// TestLaterChangesDoNotHideFailedOnes checks that no later change of a bucket is
// counted before a failed one, which the snapshot would then skip.
func TestLaterChangesDoNotHideFailedOnes(t *testing.T) {
	m := newModel()
	changes := alternating(3000)
	result := newAggregator(t, failingFor{m, "bad", errDown}, nil).Process(t.Context(), changes)
	if result.Failed != 1 || !errors.Is(result.Err, errDown) || len(result.Lost) > 0 {
		t.Fatalf("failed at %d, %v, lost %d; want 1, the first that failed", result.Failed, result.Err,
			len(result.Lost))
	}
	again := newAggregator(t, m, nil).Process(t.Context(), changes[result.Failed:])
	if again.Failed >= 0 || again.Err != nil {
		t.Fatal(again)
	}
	for k, s := range m.usage {
		if want := map[string]int64{"tpm": 1500}; !cmp.Equal(s.Counters, want) {
			t.Errorf("%s %s: %v, want %v", k.Entity, k.Window, s.Counters, want)
		}
	}
}

// TestDamagedSnapshotIsReportedAsLost checks that a damaged snapshot does not stop
// the others, and is not retried.
func TestDamagedSnapshotIsReportedAsLost(t *testing.T) {
	m := newModel()
	damage := &limiter.CorruptError{Item: "snapshot", Reason: "tpm is text"}
	// The snapshots of all windows are damaged, and each change is lost once.
	result := newAggregator(t, failingFor{m, "bad", damage}, nil).Process(t.Context(), alternating(4))
	if diff := cmp.Diff([]int{1, 3}, result.Lost); diff != "" || result.Failed >= 0 || !errors.Is(result.Err, damage) {
		t.Errorf("%+v", result)
	}
	if len(m.usage) != 3 || result.Snapshots != 3 {
		t.Errorf("%d snapshots, %+v", len(m.usage), result)
	}
}

// TestChangesWithoutUsageAreNotCounted checks that a change such as a refill is no
// event.
func TestChangesWithoutUsageAreNotCounted(t *testing.T) {
	m := newModel()
	if result := newAggregator(t, m, nil).Process(
		t.Context(), []aggregator.Change{change("1", nil, nil)},
	); result.Snapshots != 0 || len(m.usage) != 0 {
		t.Errorf("%+v", result)
	}
}

func TestNoWriteAfterTheContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := newModel()
	result := newAggregator(t, m, nil).Process(ctx, alternating(4))
	if result.Failed != 0 || !errors.Is(result.Err, context.Canceled) || len(m.usage) > 0 {
		t.Errorf("%+v", result)
	}
}
