package dynamo_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// Limits may change at a time at which the bucket was already refilled, where a
// clock is behind. Its time of refill then does not tell that it is another.

func TestRefillOfAnotherRate(t *testing.T) {
	t.Parallel()
	s, state := drained(t)
	s.SetLimits(limiter.Scope{Entity: "alice", Resource: "gpt-4"}, limiter.Custom("rpm", 60, 6, time.Minute), limiter.PerMinute("tpm", 6000))
	s.refill("by the rate it had", 500*time.Millisecond, state, false, "0", "5900000")
}

func TestRefillAfterALimitJoined(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.PerMinute("rpm", 60))
	s.takes(dynamotest.Dawn, limiter.Tokens("rpm", 60))
	state := s.state()
	s.SetLimits(limiter.Scope{}, limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 6000))
	s.take(dynamotest.Dawn, 0, 6000)
	s.refill("as if it had one limit", 500*time.Millisecond, state, false, "0", "0")
}

func TestChargeAfterALimitJoined(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	other := dynamotest.Connect(t, s.TableName, nil)
	s.SetLimits(limiter.Scope{}, limiter.PerMinute("rpm", 60))
	s.takes(dynamotest.Dawn, limiter.Tokens("rpm", 1))
	both := limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 6000)}}
	s.Must(other.SetConfig(t.Context(), both, s.Event("limits_set", "$SYSTEM", "")))
	_, err := other.Consume(t.Context(), dynamotest.Dawn, limiter.Charge{Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("tpm", 6000)})
	s.Must(err)
	s.takes(dynamotest.Dawn.Add(2*time.Second), limiter.Tokens("rpm", 1)) // refills, and does not know of tpm
	out, err := other.Peek(t.Context(), dynamotest.Dawn.Add(2*time.Second), limiter.Charge{Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("tpm", 0)})
	s.Must(err)
	s.Equal("rpm and tpm", out.Self.Tokens, []int64{59_000, 200_000})
}

// A refused charge makes buckets follow the limits in force, also one that was
// refilled since this process saw it.
func TestRefusalRepairsWhatWasRefilled(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.PerDay("rpm", 60))
	s.CreateEntity(limiter.Entity{ID: "alice", Parent: "team", Cascade: true})
	s.takes(dynamotest.Dawn, limiter.Tokens("rpm", 50))
	_, err := s.Repo.Consume(t.Context(), dynamotest.Dawn, limiter.Charge{Entity: "team", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 10)})
	s.Must(err)
	id := aggregator.ID{Namespace: s.NS, Entity: "alice", Resource: "gpt-4"}
	if done, err := s.Repo.UsageStore(0).Refill(t.Context(), dynamotest.Dawn.Add(time.Minute), id, s.state()); err != nil || !done {
		t.Fatal(done, err)
	}
	s.SetLimits(limiter.Scope{Entity: "alice"}, limiter.PerDay("rpm", 120))
	later := dynamotest.Dawn.Add(time.Hour) // facts are read anew, and the bucket is not: it has enough
	out, err := s.Repo.Consume(t.Context(), later, limiter.Charge{Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 5)})
	s.Must(err)
	if out.Admitted {
		t.Fatal("the team does not have that")
	}
	if cp, _ := s.bucketItem()["b_rpm_cp"].(*types.AttributeValueMemberN); cp == nil || cp.Value != "120000" {
		t.Errorf("the capacity is still %+v", cp)
	}
}

// takes is a charge of alice that is admitted.
func (s *storedTable) takes(at time.Time, amounts limiter.Amounts) {
	s.Helper()
	out, err := s.Repo.Consume(s.Context(), at, limiter.Charge{Entity: "alice", Resource: "gpt-4", Amounts: amounts})
	s.Must(err)
	if !out.Admitted {
		s.Fatal("refused")
	}
}
