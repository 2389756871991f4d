package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// rawBucket returns the stored item of an entity's bucket, or nil.
func rawBucket(tb testing.TB, table, ns, entity string) dynamotest.Item {
	tb.Helper()
	out, err := dynamotest.Client(tb).GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: &table, Key: bucketKeyOf(ns, entity), ConsistentRead: aws.Bool(true),
	})
	must(tb, err)
	return out.Item
}

func bucketKeyOf(ns, entity string) dynamotest.Item {
	return dynamotest.Item{
		"PK": &types.AttributeValueMemberS{Value: ns + "/ENTITY#" + entity},
		"SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + model},
	}
}

func rawNumber(it dynamotest.Item, attr string) string {
	n, ok := it[attr].(*types.AttributeValueMemberN)
	if !ok {
		return ""
	}
	return n.Value
}

// Limit names may contain characters that expression placeholders may not. Every
// write has to work.
func TestLimitNamesMayHaveAnyAllowedCharacter(t *testing.T) {
	t.Parallel()
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), &exactOptions)
	names := []string{"a-b", "a.b", "a_b", "a_tk", "b_a_cp"}
	var amounts limiter.Amounts
	var limits []limiter.Limit
	for _, n := range names {
		limits, amounts = append(limits, limiter.PerMinute(n, 60)), amounts.And(n, 10)
	}
	setDefaults(t, repo, limits...)
	c := limiter.Charge{Entity: "alice", Resource: model, Amounts: amounts}
	consume(t, repo, 0, c, true)                  // creates
	consume(t, repo, 0, c, true)                  // plain
	out := consume(t, repo, time.Minute, c, true) // locked
	credit := limiter.Credit{Account: out.Payers[0].Account, Amounts: amounts, Undo: true}
	must(t, repo.Credit(t.Context(), at(time.Minute), credit))
	credit = limiter.Credit{Account: out.Payers[0].Account, Amounts: limiter.Tokens("a-b", -30).And("a.b", -30)}
	must(t, repo.Credit(t.Context(), at(time.Minute), credit))
	setDefaults(t, repo, limits[:3]...)
	// repairs
	out = consume(t, repo, time.Minute,
		limiter.Charge{Entity: "alice", Resource: model, Amounts: limiter.Tokens("a-b", 1)}, true)
	if want := []int64{29_000, 30_000, 60_000}; !slices.Equal(out.Payers[0].Tokens, want) {
		t.Errorf("balances %v, want %v", out.Payers[0].Tokens, want)
	}
}

// A give-back to a removed bucket stores nothing. A late debit of an expired one
// creates a complete bucket.
func TestLateCreditsLeaveNoRemains(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	repo := dynamotest.Connect(t, table, &exactOptions)
	setDefaults(t, repo, perMinute60)
	account := consume(t, repo, 0, chargeOf("alice", 10), true).Payers[0].Account
	remove := func() {
		_, err := dynamotest.Client(t).DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
			TableName: &table, Key: bucketKeyOf(repo.NamespaceID(), "alice"),
		})
		must(t, err)
	}
	credit := func(d time.Duration, n int64) dynamotest.Item {
		must(t, repo.Credit(t.Context(), at(d), limiter.Credit{Account: account, Amounts: limiter.Tokens("rpm", n)}))
		return rawBucket(t, table, repo.NamespaceID(), "alice")
	}
	remove()
	for _, n := range []int64{5, -5} { // deleted, not expired: 7 fill times have not passed
		if left := credit(time.Minute, n); left != nil {
			t.Errorf("a credit of %d left %v", n, left)
		}
	}
	if left := credit(time.Hour, 5); left != nil {
		t.Errorf("a give-back to an expired bucket left %v", left)
	}
	if tokens := rawNumber(credit(time.Hour, -5), "b_rpm_tk"); tokens != "55000" {
		t.Errorf("a debit of an expired bucket left %s thousandths, want 55000", tokens)
	}
}

// The parent's refill time moves between our read and our write: one condition
// fails, and only that side decides again.
func TestNewChildBesideABusyParent(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	createChild(t, s.steady, "alice", "project")
	consume(t, s.steady, 0, chargeOf("project", 10), true)
	var once sync.Once
	s.proxy.SetPlan(func(op string, _ []byte) dynamotest.Fault {
		if op == put || op == update {
			once.Do(func() { consume(t, s.steady, 30*time.Second, chargeOf("project", 1), true) })
		}
		return dynamotest.Pass
	})
	out := consume(t, s.repo, 40*time.Second, chargeOf("alice", 20), true)
	if out.Payers[0].Tokens[0] != 40_000 || out.Payers[1].Tokens[0] != 40_000 {
		t.Errorf("balances %v and %v, want 40000 each", out.Payers[0].Tokens, out.Payers[1].Tokens)
	}
}

// Configs and namespaces are stored in spite of transaction conflicts.
func TestConflictsAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	s.proxy.SetPlan(dynamotest.First(3, transact, dynamotest.Conflict))
	cfg := limiter.Config{Scope: limiter.Scope{Entity: "alice", Resource: model}, Limits: []limiter.Limit{perMinute60}}
	must(t, s.repo.SetConfig(t.Context(), cfg, auditEvent("limits_set")))
	s.proxy.SetPlan(dynamotest.First(3, transact, dynamotest.Conflict))
	_, err := s.repo.RegisterNamespace(t.Context(), start, "tenant")
	must(t, err)
	if s.proxy.Count(dynamotest.Conflict) != 6 {
		t.Errorf("%d conflicts, want 6", s.proxy.Count(dynamotest.Conflict))
	}
}

// Every write path extends the TTL of a busy bucket. A TTL is never 0.
func TestBusyBucketsAreRenewed(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	repo := dynamotest.Connect(t, table, nil)
	setDefaults(t, repo, perMinute60)
	for _, d := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 10 * time.Minute} {
		consume(t, repo, d, chargeOf("alice", 20), true)
		want := fmt.Sprint(at(d).Unix() + 420)
		if got := rawNumber(rawBucket(t, table, repo.NamespaceID(), "alice"), "ttl"); got != want {
			t.Errorf("ttl %s after %v, want %s", got, d, want)
		}
	}
	setDefaults(t, repo, limiter.Custom("rpm", 1, 1000, time.Second))
	consume(t, repo, time.Hour, chargeOf("bob", 1), true)
	if got, want := rawNumber(
		rawBucket(t, table, repo.NamespaceID(), "bob"), "ttl",
	), fmt.Sprint(at(time.Hour).Unix()+1); got != want {
		t.Errorf("ttl %s of a bucket that fills in a millisecond, want %s", got, want)
	}
}

// A refusal reports the stored balance and the time to wait, even if the cached
// image was stale.
func TestRefusalShowsWhatOthersLeft(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	ours, others := dynamotest.Connect(t, table, nil), dynamotest.Connect(t, table, nil)
	setDefaults(t, others, perMinute60)
	consume(t, ours, 0, chargeOf("alice", 10), true)
	consume(t, others, 0, chargeOf("alice", 45), true)
	lim, err := limiter.New(ours, &limiter.Options{Now: func() time.Time { return start }})
	must(t, err)
	_, err = lim.Acquire(t.Context(), limiter.Request{
		Entity: "alice", Resource: model, Consume: limiter.Tokens("rpm", 20),
	})
	exceeded, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok || exceeded.Decision.Primary().Available != 5 || exceeded.Decision.RetryAfter() != 15001*time.Millisecond {
		t.Errorf("error %v, want one with 5 available and 15.001 s to wait", err)
	}
}

// A charge that is overtaken in every attempt is refused. It is no outage, which
// some callers allow.
func TestOvertakenTooOftenIsARefusal(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	warmUp(s)
	const idle = 5 * time.Minute
	consume(t, s.steady, idle, chargeOf("alice", 60), true)
	d := idle
	s.proxy.SetPlan(func(op string, _ []byte) dynamotest.Fault {
		if op == update {
			d += time.Second
			consume(t, s.steady, d, chargeOf("alice", 1), true) // all there is, so that the refill time moves
		}
		return dynamotest.Pass
	})
	lim, err := limiter.New(s.repo, &limiter.Options{Now: func() time.Time { return at(idle + time.Minute) }})
	must(t, err)
	_, err = lim.Acquire(t.Context(), limiter.Request{
		Entity: "alice", Resource: model, Consume: limiter.Tokens("rpm", 1), OnUnavailable: limiter.Allow,
	})
	if exceeded, ok := errors.AsType[*limiter.ExceededError](err); !ok || exceeded.Decision.RetryAfter() <= 0 {
		t.Errorf("error %v, want a refusal with a time to wait", err)
	}
}

// A failed batch read is not repeated key by key, which would double the load on
// a table in trouble.
func TestFailedReadIsNotRepeatedLevelByLevel(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	s.proxy.SetPlan(dynamotest.Always(dynamotest.Throttle))
	if _, err := s.repo.Consume(t.Context(), start, chargeOf("alice", 1)); err == nil {
		t.Error("no error")
	}
	if n := s.proxy.Count(dynamotest.Throttle); n > 3 {
		t.Errorf("%d requests, want the three of one read", n)
	}
}

// The SDK does not retry a debit; the store limits the attempts.
func TestDebitsOfUnknownResultAreSentAFewTimesOnly(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	warmUp(s)
	s.proxy.SetPlan(func(op string, _ []byte) dynamotest.Fault {
		if op == update {
			return dynamotest.DropReply
		}
		return dynamotest.Pass
	})
	if _, err := s.repo.Consume(t.Context(), start, chargeOf("alice", 1)); err == nil {
		t.Error("no error")
	}
	if n := s.proxy.Executed(update); n != 3 {
		t.Errorf("%d debits, want 3", n)
	}
	s.proxy.SetPlan(nil)
	s.checkBalance(0, "alice", 47)
}

// Without speculation every charge reads first.
func TestNoSpeculationReadsBeforeItWrites(t *testing.T) {
	t.Parallel()
	w := newCountedTable(t)
	w.repo = dynamotest.Connect(t, dynamotest.NewTable(t), &dynamo.Options{
		AWS: w.counter.Config(dynamotest.Endpoint(t)), NoSpeculation: true,
	})
	setDefaults(t, w.repo, perMinute60)
	consume(t, w.repo, 0, chargeOf("alice", 1), true)
	w.checkRequests("warm", 2, func() { consume(t, w.repo, 0, chargeOf("alice", 1), true) }, read, update)
}

// A bucket that is older than its entity, or was created as the parent of a
// charge, gets the entity's parent: Python reads it there only.
func TestBucketsLearnTheirParent(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	repo := dynamotest.Connect(t, table, nil)
	setDefaults(t, repo, perMinute60)
	createChild(t, repo, "child", "alice")
	consume(t, repo, 0, chargeOf("child", 1), true)
	createChild(t, repo, "alice", "project")
	consume(t, repo, 0, chargeOf("alice", 1), true)
	for entity, parent := range map[string]string{"child": "alice", "alice": "project"} {
		it := rawBucket(t, table, repo.NamespaceID(), entity)
		flag, _ := it["cascade"].(*types.AttributeValueMemberBOOL)
		if flag == nil || !flag.Value || dynamotest.Text(it, "parent_id") != parent {
			t.Errorf("the bucket of %s says cascade %v to %q, want %q", entity, it["cascade"],
				dynamotest.Text(it, "parent_id"), parent)
		}
	}
}

// manyLimits returns n limits with long names and an amount of one token each.
func manyLimits(prefix string, n int) (limits []limiter.Limit, amounts limiter.Amounts) {
	for i := range n {
		name := fmt.Sprintf("%s-%055d", prefix, i)
		limits, amounts = append(limits, limiter.PerMinute(name, 60)), amounts.And(name, 1)
	}
	return limits, amounts
}

// The size of an expression is limited. The maximum number of limits fits into
// every write, even when all of them are replaced.
func TestAsManyLimitsAsAnExpressionHolds(t *testing.T) {
	t.Parallel()
	const maxLimits = 24
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	charge := func(d time.Duration, amounts limiter.Amounts) *limiter.Account {
		return consume(t, repo, d, limiter.Charge{Entity: "alice", Resource: model, Amounts: amounts},
			true).Payers[0].Account
	}
	limits, amounts := manyLimits("old", maxLimits)
	setDefaults(t, repo, limits...)
	charge(0, amounts)                      // creates
	charge(0, amounts)                      // plain
	account := charge(time.Minute, amounts) // locked
	must(t, repo.Credit(t.Context(), at(time.Minute), limiter.Credit{Account: account, Amounts: amounts, Undo: true}))
	limits, amounts = manyLimits("new", maxLimits)
	setDefaults(t, repo, limits...)
	charge(time.Minute, amounts) // repairs
}

func TestMoreLimitsThanAnExpressionHoldsAreBadInput(t *testing.T) {
	t.Parallel()
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	limits, amounts := manyLimits("a", 25)
	invalid := func(what string, err error) {
		if bad, ok := errors.AsType[*limiter.InvalidError](err); !ok || bad.Field != "limits" {
			t.Errorf("%s: error %v, want *limiter.InvalidError about limits", what, err)
		}
	}
	cfg := limiter.Config{Scope: limiter.Scope{Resource: model}, Limits: limits}
	invalid("stored", repo.SetConfig(t.Context(), cfg, auditEvent("limits_set")))
	setDefaults(t, repo, limits[:13]...)
	charge := limiter.Charge{
		Entity: "alice", Resource: model, Limits: limits[:12], Amounts: limiter.Tokens(limits[0].Name, 1),
	}
	consume(t, repo, 0, charge, true)
	_, err := repo.Consume(t.Context(), start, limiter.Charge{
		Entity: "bob", Resource: model, Limits: limits, Amounts: amounts,
	})
	invalid("brought", err)
	charge.Limits, charge.Amounts = manyLimits("b", 13)
	_, err = repo.Consume(t.Context(), start, charge)
	invalid("brought to a bucket that has others", err)
}
