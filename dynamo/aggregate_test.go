package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// O-6, O-7, O-10: limits may have any name that is allowed, one record is one
// event however many limits it moved, and an empty bucket is refilled though
// what accrued would cover the next charge.
func TestBusyBucketIsCountedAndRefilled(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	limits := []limiter.Limit{limiter.PerMinute("tok-ens.in", 60), limiter.PerMinute("a.b-c_d", 600)}
	s.SetLimits(limiter.Scope{}, limits...)
	all := limiter.Tokens(limits[0].Name, 60).And(limits[1].Name, 600)
	_, err := s.Repo.Consume(t.Context(), dynamotest.Dawn, limiter.Charge{Entity: "alice", Resource: "gpt-4", Amounts: all})
	s.Must(err)
	a, err := aggregator.New(s.Repo.UsageStore(0), &aggregator.Options{
		Windows: []limiter.Window{limiter.Hourly}, Now: func() time.Time { return dynamotest.Dawn.Add(30 * time.Second) },
	})
	s.Must(err)
	got := dynamo.Aggregate(t.Context(), a, []dynamo.StreamRecord{record("1", nil, s.bucketItem())})
	if got.Err != nil || got.Changes != 1 || got.Snapshots != 1 || got.Refills != 1 || got.Done != 1 {
		t.Errorf("got %+v", got)
	}
	s.Equal("usage", s.usage(limiter.UsageQuery{Entity: "alice"}), []string{"01T00 gpt-4 alice hourly map[a.b-c_d:600 tok-ens.in:60] 1"})
	s.Equal("tokens", s.state().Tokens, []int64{300_000, 30_000})
}

// What fails is told by the record that has to come again, the archive's and
// the counters' alike.
func TestFirstFailedRecordIsNamed(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	a, err := aggregator.New(s.Repo.UsageStore(0), &aggregator.Options{Archive: brokenFiles{}})
	s.Must(err)
	event := dynamo.StreamRecord{Event: "REMOVE", At: midnight, Old: s.Attributes("PK S n/AUDIT#a\nSK S #AUDIT#01JX\naction S limits_set")}
	records := []dynamo.StreamRecord{record("1", nil, s.Attributes(aBucket)), {Event: "MODIFY"}, event, event}
	got := dynamo.Aggregate(t.Context(), a, records)
	if got.Done != 2 || got.Events != 0 || !errors.Is(got.Err, errBroken) || len(got.Skipped) != 1 || got.Skipped[0].Record != 1 {
		t.Errorf("got %+v", got)
	}
}

var errBroken = errors.New("broken")

// brokenFiles is an archive that nothing can be kept in.
type brokenFiles struct{}

func (brokenFiles) Read(context.Context, string) ([]byte, string, error) { return nil, "", errBroken }

func (brokenFiles) Write(context.Context, string, string, []byte) error { return errBroken }
