package dynamo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// remake deletes alice in another process, which then takes 50 tokens of her new
// bucket.
func (s *faultyTable) remake() {
	s.Helper()
	must(s, s.steady.DeleteEntity(s.Context(), "alice", auditEvent("entity_deleted")))
	consume(s, s.steady, 0, chargeOf("alice", 50), true)
}

// A lease of a bucket that another process deleted and created again gives nothing
// to the new one, and takes nothing from it.
func TestLeaseOfADeletedBucketLeavesTheNewOneAlone(t *testing.T) {
	t.Parallel()
	for name, credit := range map[string]limiter.Credit{
		"give-back": {Amounts: limiter.Tokens("rpm", 30)},
		"undo":      {Amounts: limiter.Tokens("rpm", 30), Undo: true},
		"take":      {Amounts: limiter.Tokens("rpm", -3)},
	} {
		for met, meets := range map[string]func(*faultyTable, *dynamo.Repository){
			"unseen": func(*faultyTable, *dynamo.Repository) {},
			"seen":   func(s *faultyTable, repo *dynamo.Repository) { consume(s, repo, 0, chargeOf("alice", 1), true) },
			"forgotten": func(_ *faultyTable, repo *dynamo.Repository) {
				repo.Forget()
			},
		} {
			for kind, opts := range bothModes {
				t.Run(name+", "+met+", "+kind, func(t *testing.T) {
					t.Parallel()
					s := newFaultyTable(t)
					repo := s.connectOnce(opts)
					given := credit
					given.Account = consume(t, repo, 0, chargeOf("alice", 30), true).Payers[0].Account
					s.remake()
					meets(s, repo)
					want := s.balance(0, "alice")
					must(t, repo.Credit(t.Context(), start, given))
					s.checkBalance(0, "alice", want)
				})
			}
		}
	}
}

// A lease gives back to the bucket that it took from, whatever happens to the
// process's memory of it.
func TestLeaseKeepsItsBucket(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	lease := consume(t, s.repo, 0, chargeOf("alice", 30), true).Payers[0].Account
	consume(t, s.steady, 30*time.Second, chargeOf("alice", 10), true)
	s.repo.Forget()
	s.giveBack(s.repo, 30*time.Second, lease, limiter.Tokens("rpm", 5))
	s.checkBalance(30*time.Second, "alice", 60)
}

// The response to a charge arrives after the bucket was deleted and created again,
// and after another call of the process has met the new one.
func TestLateResponseOfADeletedBucket(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	consume(t, s.repo, 0, chargeOf("alice", 10), true)
	f, held, goOn := holdReply()
	s.proxy.SetPlan(dynamotest.First(1, update, f))
	out := startCharge(t, s.repo, 0, 20)
	<-held
	s.remake()
	s.repo.Forget()
	late := consume(t, s.repo, 0, chargeOf("alice", 1), true).Payers[0].Account
	close(goOn)
	old := (<-out).Payers[0].Account
	must(t,
		s.repo.Credit(t.Context(), start, limiter.Credit{Account: old, Amounts: limiter.Tokens("rpm", 20), Undo: true}))
	s.checkBalance(0, "alice", 9)
	must(t,
		s.repo.Credit(t.Context(), start, limiter.Credit{Account: late, Amounts: limiter.Tokens("rpm", 1), Undo: true}))
	s.checkBalance(0, "alice", 10)
}

// A lease of an expired bucket gives nothing to its replacement, which pays what the
// lease takes late, also if another process replaced it.
func TestLeaseOfAnExpiredBucketInAnotherProcess(t *testing.T) {
	t.Parallel()
	const later = time.Hour
	for name, test := range map[string]struct{ amount, want int64 }{"give-back": {20, 50}, "take": {-20, 30}} {
		t.Run(name, func(t *testing.T) {
			s := newFaultyTable(t)
			lease := consume(t, s.repo, 0, chargeOf("alice", 30), true).Payers[0].Account
			consume(t, s.steady, later, chargeOf("alice", 10), true)
			must(t,
				s.repo.Credit(t.Context(), at(later), limiter.Credit{
					Account: lease, Amounts: limiter.Tokens("rpm", test.amount),
				}))
			s.checkBalance(later, "alice", test.want)
		})
	}
}

// Every bucket that this package creates has an identity. One that another program
// created gets it with the first locked write, and keeps it; a plain write does not
// add one, and costs no more.
func TestLifeOfABucket(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	setDefaults(t, s.Repo, perMinute60)
	life := func() string {
		t.Helper()
		if v := s.modelBucket()["_id"]; v != nil {
			return dynamotest.FormatAttribute(v)
		}
		return ""
	}
	consume(t, s.Repo, 0, chargeOf("alice", 10), true)
	first := life()
	if first == "" {
		t.Fatal("a new bucket has no identity")
	}
	consume(t, s.Repo, 0, chargeOf("alice", 10), true)
	consume(t, s.Repo, 40*time.Second, chargeOf("alice", 10), true)
	if got := life(); got != first {
		t.Errorf("the identity has changed from %s to %s", first, got)
	}
	_, err := s.Client.UpdateItem(s.Context(), &dynamodb.UpdateItemInput{ // as Python creates it
		TableName: &s.TableName, Key: s.Attributes("PK S {ns}/ENTITY#alice\nSK S #BUCKET#" + model),
		UpdateExpression: aws.String("REMOVE #id"), ExpressionAttributeNames: map[string]string{"#id": "_id"},
	})
	s.Must(err)
	s.Repo.Forget()
	consume(t, s.Repo, 40*time.Second, chargeOf("alice", 10), true)
	if got := life(); got != "" {
		t.Errorf("a plain write gives the identity %s", got)
	}
	consume(t, s.Repo, 80*time.Second, chargeOf("alice", 10), true)
	second := life()
	if second == "" || second == first {
		t.Errorf("after a locked write the identity is %q", second)
	}
	consume(t, s.Repo, time.Hour, chargeOf("alice", 10), true) // it has expired
	if got := life(); slices.Contains([]string{"", first, second}, got) {
		t.Errorf("a bucket that is created again has the identity %q", got)
	}
}

// Another process gives a bucket shorter limits, under which it expires. The process of
// the lease knows only the expiry of before, and must not take the bucket for deleted.
func TestLeaseOfABucketThatExpiredEarlierPays(t *testing.T) {
	s := newStoredTable(t)
	setDefaults(t, s.Repo, limiter.PerDay("rpm", 60))
	out := consume(t, s.Repo, 0, chargeOf("alice", 1), true)
	// full
	must(t,
		s.Repo.Credit(t.Context(), start, limiter.Credit{Account: out.Payers[0].Account, Amounts: limiter.Tokens("rpm", 1)}))

	other := dynamotest.Connect(t, s.TableName, nil)
	setDefaults(t, other, perMinute60)
	consume(t, other, 0, chargeOf("alice", 0), true)
	consume(t, other, time.Minute, chargeOf("alice", 1), true)
	consume(t, other, time.Hour, chargeOf("alice", 10), true) // the bucket has expired

	late := limiter.Credit{Account: out.Payers[0].Account, Amounts: limiter.Tokens("rpm", -20)}
	must(t, s.Repo.Credit(t.Context(), at(time.Hour), late))
	if left := consume(t, other, time.Hour, chargeOf("alice", 0), true).Payers[0].Tokens[0]; left != 30_000 {
		t.Errorf("%d left, want 30000: 60 less 10 and what the lease took late", left)
	}
}

// A refill by the stream leaves a bucket alone that was created again since.
func TestRefillOfADeletedBucket(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	setDefaults(t, s.Repo, perMinute60)
	consume(t, s.Repo, 0, chargeOf("alice", 50), true)
	state := s.state()
	must(t, s.Repo.DeleteEntity(t.Context(), "alice", s.Event("entity_deleted", "alice", "")))
	consume(t, s.Repo, 0, chargeOf("alice", 50), true) // at the same time, with the same tokens
	done, err := s.Repo.UsageStore(0).Refill(t.Context(), at(30*time.Second),
		aggregator.ID{Namespace: s.NS, Entity: "alice", Resource: model}, state)
	if err != nil || done {
		t.Errorf("Refill reports %v, %v, want false", done, err)
	}
}
