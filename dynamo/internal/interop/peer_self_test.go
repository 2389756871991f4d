package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// The interop tests rely on these answers, so this test compares them with each
// other and with the expected numbers.
func TestPythonPeer(t *testing.T) {
	p := startPython(t)
	table := dynamotest.TableName(t)
	p.createTable(t, table)
	py := p.mustOpen(t, table, "default", map[string]any{"auto_update": false})
	now := time.UnixMilli(1_800_000_000_123)
	p.freeze(t, now)
	py.setResourceDefaults(t, "gpt-4", limiter.PerMinute("rpm", 10))
	py.setSystemDefaults(t, "block", limiter.PerMinute("rpm", 5))
	py.setLimits(t, "alice", "img", limiter.PerMinute("rpm", 3))
	py.createEntity(t, limiter.Entity{
		ID: "kid", Name: "Kid", Parent: "org", Cascade: true, Metadata: map[string]string{"tier": "gold"},
	})

	t.Run("acquire with cascade", func(t *testing.T) {
		lease, err := py.acquire("kid", "gpt-4", limiter.Tokens("rpm", 4), peerEnd{Adjust: limiter.Tokens("rpm", 2)})
		if err != nil || lease.Consumed["rpm"] != 12 || len(lease.Entries) != 2 {
			t.Errorf("got %+v, %v", lease, err)
		}
		consumed := int64(6000)
		want := map[string]peerBucket{"rpm": {"rpm", 4000, now.UnixMilli(), 10_000, 10_000, 60_000, &consumed}}
		if diff := cmp.Diff(want, py.buckets(t, "org", "gpt-4")); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("lease open across calls", func(t *testing.T) {
		for entity, c := range map[string]struct {
			end  peerEnd
			left int64
		}{
			"bob":  {peerEnd{More: limiter.Tokens("rpm", 1), Release: limiter.Tokens("rpm", 2)}, 4},
			"dave": {peerEnd{Adjust: limiter.Tokens("rpm", 1), Rollback: true}, 5},
		} {
			lease, err := py.begin(entity, "other", limiter.Tokens("rpm", 2))
			if held := py.available(t, entity, "other")["rpm"]; err != nil || held != 3 {
				t.Errorf("%s: %d left while it is open, want 3; %v", entity, held, err)
			}
			if err := py.end(lease, c.end); err != nil {
				t.Error(err)
			}
			if got := py.available(t, entity, "other")["rpm"]; got != c.left {
				t.Errorf("%s: %d left after it, want %d", entity, got, c.left)
			}
		}
	})
	t.Run("rejection", func(t *testing.T) {
		_, err := py.acquire("alice", "img", limiter.Tokens("rpm", 4), peerEnd{})
		failure, ok := errors.AsType[*peerError](err)
		if !ok || failure.Type != "RateLimitExceeded" || failure.RetryAfter != 20.001 {
			t.Fatal(err)
		}
		want := []peerStatus{{"alice", "img", limiter.PerMinute("rpm", 3), 3, 4, true, 20.001}}
		if diff := cmp.Diff(want, failure.Statuses); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("hammer and bench", func(t *testing.T) {
		p.shift(t, time.Hour)
		py.setLimits(t, "carol", "img", limiter.PerDay("rpm", 5))
		tally, err := py.hammer("carol", "img", limiter.Tokens("rpm", 1), 20, 4)
		if err != nil || tally.Admitted != 5 || tally.Rejected != 15 || len(tally.Errors) != 0 {
			t.Errorf("got %+v, %v", tally, err)
		}
		speed, err := py.bench("carol", "img", limiter.Tokens("rpm", 0), 20, 2)
		if err != nil || speed.Calls != 20 || speed.Admitted != 20 || speed.CPU <= 0 || speed.P99 < speed.P50 {
			t.Errorf("got %+v, %v", speed, err)
		}
	})
}
