package dynamo_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// A process whose clock was two hours ahead does not break a bucket that was
// deleted for that reason and recreated by another process.
func TestProcessThatWasAheadLeavesNewBucketsAlone(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	one, two := dynamotest.Connect(t, table, &exactOptions), dynamotest.Connect(t, table, &exactOptions)
	setDefaults(t, one, perMinute60)
	for _, d := range []time.Duration{0, 2 * time.Hour} {
		consume(t, one, d, chargeOf("alice", 1), true)
	}
	_, err := dynamotest.Client(t).DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: &table, Key: bucketKeyOf(one.NamespaceID(), "alice"),
	})
	must(t, err)
	consume(t, two, time.Minute, chargeOf("alice", 50), true)
	consume(t, one, time.Minute, chargeOf("alice", 11), false)
	consume(t, one, time.Minute, chargeOf("alice", 10), true)
	if refill, _ := storedNumber(t, table, one.NamespaceID(), "rf"); refill > at(time.Minute).UnixMilli() {
		t.Errorf("it is refilled up to %v", time.UnixMilli(refill))
	}
	consume(t, one, 2*time.Minute, chargeOf("alice", 60), true)
}

// A clock that was ahead for one charge, by less than the bucket takes to fill,
// has no effect once it is right: no future time is refilled, and the bucket
// keeps refilling.
func TestClockThatWasAheadForAMomentIsForgotten(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	repo := dynamotest.Connect(t, table, &exactOptions)
	setDefaults(t, repo, limiter.PerHour("rpm", 3600))
	consume(t, repo, 0, chargeOf("alice", 3500), true)
	lease := consume(t, repo, 20*time.Minute, chargeOf("alice", 10), true).Payers[0].Account
	consume(t, repo, 0, chargeOf("alice", 91), false)
	consume(t, repo, 0, chargeOf("alice", 80), true)
	must(t, repo.Credit(t.Context(), start, limiter.Credit{Account: lease, Amounts: limiter.Tokens("rpm", -10)}))
	consume(t, repo, 0, chargeOf("alice", 1), false)
	if refill, _ := storedNumber(t, table, repo.NamespaceID(), "rf"); refill > start.UnixMilli() {
		t.Errorf("it is refilled up to %v ahead", time.UnixMilli(refill).Sub(start))
	}
	consume(t, repo, 10*time.Second, chargeOf("alice", 10), true)
	consume(t, repo, 10*time.Second, chargeOf("alice", 1), false)
}

// A listing includes what this process has seen, even if the index lags behind
// the table or a charge overtakes the listing.
func TestListingsShowNoLessThanThereIs(t *testing.T) {
	t.Parallel()
	tokens := func(s *faultyTable, of limiter.Scope) (all []int64) {
		for b, err := range s.repo.Buckets(context.Background(), at(time.Minute), of) {
			must(s, err)
			all = append(all, b.Tokens...)
		}
		return all
	}
	for name, of := range map[string]limiter.Scope{
		"resource": {Resource: model}, "entity": {Entity: "alice"}, "both": {Entity: "alice", Resource: model},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFaultyTable(t)
			consume(t, s.repo, 0, chargeOf("alice", 60), true)
			old := make(chan struct{}, 1)
			old <- struct{}{}
			s.proxy.SetPlan(func(op string, body []byte) dynamotest.Fault {
				if op != "Query" && op != get || !bytes.Contains(body, []byte("gpt-4")) &&
					!bytes.Contains(body, []byte("BUCKET")) || len(old) == 0 {
					return dynamotest.Pass
				}
				<-old
				return dynamotest.Fault{Name: "old", Act: func(x *dynamotest.Exchange) {
					reply := x.Execute(x.Body)
					consume(t, s.repo, time.Minute, chargeOf("alice", 1), true)
					x.Answer(reply)
				}}
			})
			if got := tokens(s, of); len(got) != 1 || got[0] != 59_000 {
				t.Errorf("%v thousandths are shown, want 59000", got)
			}
			if len(old) > 0 {
				t.Error("nothing was old")
			}
		})
	}
}

// A give-back whose first attempt arrives late is not given twice: if a later
// attempt was rejected, it is dropped and counted.
func TestUndoThatArrivesLateIsNotGivenTwice(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	lease := warmUp(s)
	consume(t, s.repo, 0, chargeOf("alice", 30), true)
	arrive := make(chan func(), 1)
	tries := 0
	s.proxy.SetPlan(func(op string, _ []byte) dynamotest.Fault {
		if op != transact {
			return dynamotest.Pass
		}
		switch tries++; tries {
		case 1: // the client gets an error while the request is in flight
			return dynamotest.Fault{Name: "under way", Act: func(x *dynamotest.Exchange) {
				arrive <- func() { x.Execute(x.Body) }
				x.Answer(dynamotest.InternalError())
			}}
		case 2:
			return failCondition
		}
		return dynamotest.Pass
	})
	err := credit(10, true)(s, lease)
	s.proxy.SetPlan(nil)
	(<-arrive)()
	s.checkBalance(0, "alice", 30)
	if dropped := s.repo.Stats().CreditsDropped; err == nil || dropped != 1 {
		t.Errorf("error %v and %d dropped, want an error and 1", err, dropped)
	}
}
