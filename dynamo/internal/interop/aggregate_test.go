package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// wireItem returns an item in the JSON of DynamoDB.
func wireItem(it map[string]types.AttributeValue) map[string]any {
	all := map[string]any{}
	for name, v := range it {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			all[name] = map[string]any{"S": v.Value}
		case *types.AttributeValueMemberN:
			all[name] = map[string]any{"N": v.Value}
		case *types.AttributeValueMemberBOOL:
			all[name] = map[string]any{"BOOL": v.Value}
		case *types.AttributeValueMemberM:
			all[name] = map[string]any{"M": wireItem(v.Value)}
		default:
			panic(fmt.Sprintf("attribute %s has the type %T", name, v))
		}
	}
	return all
}

// peerCounts is what one run of Python's aggregator did.
type peerCounts struct {
	Snapshots int      `json:"snapshots_updated"`
	Refills   int      `json:"refills_written"`
	Errors    []string `json:"errors"`
}

// aggregate runs Python's aggregator on a change of alice's bucket.
func (w *world) aggregate(py pyProgram, change func()) (counts peerCounts) {
	w.Helper()
	before := w.bucket("alice")
	change()
	record := map[string]any{
		"eventName": "MODIFY",
		"dynamodb":  map[string]any{"OldImage": wireItem(before), "NewImage": wireItem(w.bucket("alice"))},
	}
	w.Must(py.repo.peer.call("aggregate",
		map[string]any{"table": w.TableName, "records": []any{record}, "windows": []string{"hourly", "daily"}},
		&counts))
	if len(counts.Errors) > 0 {
		w.Errorf("Python's aggregator fails: %q", counts.Errors)
	}
	counts.Errors = nil
	return counts
}

// usage returns the counters of an entity's hourly snapshots as Python reads them,
// newest first.
func (p pyProgram) usage(entity string) (all []map[string]int64) {
	p.Helper()
	var page struct {
		Snapshots []peerUsage `json:"snapshots"`
	}
	p.call("get_usage_snapshots", map[string]any{"entity_id": entity, "window_type": "hourly"}, &page)
	for _, u := range page.Snapshots {
		all = append(all, u.Counters)
	}
	return all
}

// TestInteropAggregatorOfPython runs the code of Python's function on buckets with
// quotas and shadow limits.
func TestInteropAggregatorOfPython(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	t.Run("a quota is counted, not stepped, and its window stays", func(t *testing.T) {
		w := newWorld(t, &exactOptions)
		py := w.openPython(p, nil)
		w.ours.set(gpt4, limiter.Quota("spend", 10, limiter.EveryHour), limiter.PerMinute("rpm", 60))
		w.mustAdmit(w.ours, "alice", spend(1).And("rpm", 60))
		w.wait(59 * time.Minute)
		w.mustAdmit(w.ours, "alice", spend(9).And("rpm", 60))
		w.wait(time.Minute - time.Millisecond)
		counts := w.aggregate(py, func() { w.mustAdmit(w.ours, "alice", rpm(59)) })
		w.Equal("counted", counts.Snapshots, 2)
		var refills int
		for range 2 { // in later windows
			w.wait(20 * 24 * time.Hour)
			refills += w.aggregate(py, func() { w.mustAdmit(py, "alice", rpm(1)) }).Refills
			w.checkWindow(0, "hour", noon)
		}
		w.clock.ahead = 10 * time.Hour // moves rf past our clock
		w.wait(0)
		refills += w.aggregate(py, func() { py.hold("alice", "gpt-4", rpm(1)).commit(rpm(61)) }).Refills
		w.checkWindow(0, "hour", noon)
		if refills == 0 {
			t.Error("Python's aggregator never refills: the test shows nothing")
		}
		w.mustAdmit(w.ours, "alice", spend(10))
		w.mustRefuse(w.ours, "alice", spend(1))
	})
	t.Run("a spared charge is usage, and its count stays in the bucket", func(t *testing.T) {
		w := newWorld(t, &exactOptions)
		py := w.openPython(p, nil)
		w.ours.set(gpt4, limiter.PerDay("rpm", 10).Shadow())
		w.mustAdmit(w.ours, "alice", rpm(8))
		counts := w.aggregate(py, func() { w.mustAdmit(w.ours, "alice", rpm(5)) })
		w.Equal("run", counts, peerCounts{Snapshots: 2})
		w.checkShadow(2_000, 1)
		w.Equal("usage in Python", py.usage("alice"), []map[string]int64{{"rpm": 5}})
		w.Equal("items", w.itemsUnder("alice", "#SHADOW#"), 0)
	})
}
