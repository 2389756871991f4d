package dynamo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// newDrainedBucket creates a bucket of alice with an empty limit and a nearly
// full one, and returns the state in its stream record.
func newDrainedBucket(t *testing.T) (*storedTable, *aggregator.State) {
	t.Helper()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 6000))
	s.consumeBoth(dynamotest.Dawn, 60, 100)
	state := s.state()
	return s, state
}

// consumeBoth makes a charge of both limits that must be admitted.
func (s *storedTable) consumeBoth(at time.Time, rpm, tpm int64) {
	s.Helper()
	out, err := s.Repo.Consume(s.Context(), at, limiter.Charge{
		Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", rpm).And("tpm", tpm),
	})
	s.Must(err)
	if !out.Admitted {
		s.Fatal("refused")
	}
}

func (s *storedTable) bucketItem() map[string]types.AttributeValue {
	return s.Item("{ns}/ENTITY#alice", "#BUCKET#gpt-4")
}

func (s *storedTable) state() *aggregator.State {
	s.Helper()
	c, reason, ok := record("1", nil, s.bucketItem()).Change()
	if !ok {
		s.Fatal(reason)
	}
	return c.State
}

// checkRefill refills the bucket and checks its tokens.
func (s *storedTable) checkRefill(
	what string, after time.Duration, state *aggregator.State, done bool, rpm, tpm string,
) {
	s.Helper()
	id := aggregator.ID{Namespace: s.NS, Entity: "alice", Resource: "gpt-4"}
	got, err := s.Repo.UsageStore(0).Refill(s.Context(), dynamotest.Dawn.Add(after), id, state)
	s.Must(err)
	it := s.bucketItem()
	value := func(attr string) string {
		if n, ok := it[attr].(*types.AttributeValueMemberN); ok {
			return n.Value
		}
		return "none"
	}
	if got != done || value("b_rpm_tk") != rpm || value("b_tpm_tk") != tpm {
		s.Errorf("%s: done %t with %s and %s, want %t with %s and %s", what, got, value("b_rpm_tk"),
			value("b_tpm_tk"), done, rpm, tpm)
	}
}

// B-27, 6 and O-8: moving the refill time costs no limit its accrual.
func TestRefillIsOfAllLimits(t *testing.T) {
	t.Parallel()
	s, state := newDrainedBucket(t)
	s.checkRefill("half a second", 500*time.Millisecond, state, true, "500", "5950000")
	s.checkRefill("replayed", 500*time.Millisecond, state, false, "500", "5950000")
	s.checkRefill("with the image that it left", 900*time.Millisecond, s.state(), true, "900", "5990000")
	s.checkRefill("back in time", 0, s.state(), false, "900", "5990000")
}

// A limit that becomes full requires unchanged tokens: otherwise the refill
// would forgive a charge.
func TestRefillNeverForgives(t *testing.T) {
	t.Parallel()
	s, state := newDrainedBucket(t)
	s.checkRefill("tpm is full after a second", 2*time.Second, state, true, "2000", "6000000")
	state = s.state()
	s.consumeBoth(dynamotest.Dawn.Add(2*time.Second), 1, 100) // does not move the refill time
	s.checkRefill("since then it was charged", 4*time.Second, state, false, "1000", "5900000")
}

// O-9: a slow limit beside a busy one keeps its fractions.
func TestRefillsKeepFractions(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.PerDay("rpm", 10), limiter.PerMinute("tpm", 6000))
	s.consumeBoth(dynamotest.Dawn, 10, 6000)
	const step, steps = 5 * time.Second, 20
	for i := range steps {
		id := aggregator.ID{Namespace: s.NS, Entity: "alice", Resource: "gpt-4"}
		if done, err := s.Repo.UsageStore(0).Refill(
			t.Context(), dynamotest.Dawn.Add(time.Duration(i+1)*step), id, s.state(),
		); err != nil || !done && i < 11 {
			t.Fatalf("step %d: %t, %v", i, done, err)
		}
		if i == 10 {
			s.consumeBoth(dynamotest.Dawn.Add(time.Duration(i+1)*step), 0, 5000)
		}
	}
	accrued := func(at time.Time) int64 { return at.UnixMilli() * 10_000 / (24 * time.Hour).Milliseconds() }
	slow := fmt.Sprint(accrued(dynamotest.Dawn.Add(steps*step)) - accrued(dynamotest.Dawn))
	s.checkRefill("100 s of 10 a day", steps*step, s.state(), false, slow, "5000000")
}

func TestRefillOfOtherLimits(t *testing.T) {
	t.Parallel()
	s, state := newDrainedBucket(t)
	s.SetLimits(limiter.Scope{Entity: "alice", Resource: "gpt-4"}, limiter.PerMinute("rpm", 30),
		limiter.PerMinute("tpm", 3000))
	s.checkRefill("the capacity is another", 500*time.Millisecond, state, false, "0", "3000000")
	s.Must(s.Repo.DeleteEntity(t.Context(), "alice", s.Event("entity_deleted", "alice", "")))
	s.checkRefill("the bucket is gone", 500*time.Millisecond, state, false, "none", "none")
	if it := s.bucketItem(); it != nil {
		t.Errorf("it made %v", it)
	}
}

// With a slow clock, limits may change at a time that was refilled before. The
// refill time then does not show that the bucket has changed.

func TestRefillOfAnotherRate(t *testing.T) {
	t.Parallel()
	s, state := newDrainedBucket(t)
	s.SetLimits(limiter.Scope{Entity: "alice", Resource: "gpt-4"}, limiter.Custom("rpm", 60, 6, time.Minute),
		limiter.PerMinute("tpm", 6000))
	s.checkRefill("by the rate it had", 500*time.Millisecond, state, false, "0", "5900000")
}

func TestRefillAfterALimitJoined(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.PerMinute("rpm", 60))
	s.consume(dynamotest.Dawn, limiter.Tokens("rpm", 60))
	state := s.state()
	s.SetLimits(limiter.Scope{}, limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 6000))
	s.consumeBoth(dynamotest.Dawn, 0, 6000)
	s.checkRefill("as if it had one limit", 500*time.Millisecond, state, false, "0", "0")
}

func TestChargeAfterALimitJoined(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	other := dynamotest.Connect(t, s.TableName, nil)
	s.SetLimits(limiter.Scope{}, limiter.PerMinute("rpm", 60))
	s.consume(dynamotest.Dawn, limiter.Tokens("rpm", 1))
	both := limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 6000)}}
	s.Must(other.SetConfig(t.Context(), both, s.Event("limits_set", "$SYSTEM", "")))
	_, err := other.Consume(t.Context(), dynamotest.Dawn, limiter.Charge{
		Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("tpm", 6000),
	})
	s.Must(err)
	s.consume(dynamotest.Dawn.Add(2*time.Second), limiter.Tokens("rpm", 1)) // refills without knowing tpm
	out, err := other.Peek(t.Context(), dynamotest.Dawn.Add(2*time.Second), limiter.Charge{
		Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("tpm", 0),
	})
	s.Must(err)
	s.Equal("rpm and tpm", out.Payers[0].Tokens, []int64{59_000, 200_000})
}

// A refused charge updates buckets to the limits in force, even if they were
// refilled since this process read them.
func TestRefusalRepairsWhatWasRefilled(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.PerDay("rpm", 60))
	s.CreateEntity(limiter.Entity{ID: "alice", Parent: "team", Cascade: true})
	s.consume(dynamotest.Dawn, limiter.Tokens("rpm", 50))
	_, err := s.Repo.Consume(t.Context(), dynamotest.Dawn, limiter.Charge{
		Entity: "team", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 10),
	})
	s.Must(err)
	id := aggregator.ID{Namespace: s.NS, Entity: "alice", Resource: "gpt-4"}
	if done, err := s.Repo.UsageStore(0).Refill(
		t.Context(), dynamotest.Dawn.Add(time.Minute), id, s.state(),
	); err != nil || !done {
		t.Fatal(done, err)
	}
	s.SetLimits(limiter.Scope{Entity: "alice"}, limiter.PerDay("rpm", 120))
	later := dynamotest.Dawn.Add(time.Hour) // the facts have expired; the cached bucket has enough
	out, err := s.Repo.Consume(t.Context(), later, limiter.Charge{
		Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 5),
	})
	s.Must(err)
	if out.Admitted {
		t.Fatal("the team does not have that")
	}
	if cp, _ := s.bucketItem()["b_rpm_cp"].(*types.AttributeValueMemberN); cp == nil || cp.Value != "120000" {
		t.Errorf("the capacity is still %+v", cp)
	}
}

// consume makes a charge of alice that must be admitted.
func (s *storedTable) consume(at time.Time, amounts limiter.Amounts) {
	s.Helper()
	out, err := s.Repo.Consume(s.Context(), at, limiter.Charge{Entity: "alice", Resource: "gpt-4", Amounts: amounts})
	s.Must(err)
	if !out.Admitted {
		s.Fatal("refused")
	}
}
