package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// connectOnce connects a process behind the proxy whose client does not retry.
func (s *faultyTable) connectOnce(opts dynamo.Options) *dynamo.Repository {
	s.Helper()
	opts.AWS = dynamotest.Config(s.proxy.URL)
	opts.AWS.RetryMaxAttempts = 1
	return dynamotest.Connect(s, s.table, &opts)
}

// bucketNumber returns a number of alice's bucket and whether it is stored.
func (s *faultyTable) bucketNumber(attr string) (int64, bool) {
	s.Helper()
	return storedNumber(s, s.table, s.steady.NamespaceID(), attr)
}

func storedNumber(tb testing.TB, table, ns, attr string) (int64, bool) {
	tb.Helper()
	text := rawNumber(rawBucket(tb, table, ns, "alice"), attr)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// onRequest returns a plan with a fault for the requests of an operation that
// contain a text.
func onRequest(op, text string, f dynamotest.Fault) dynamotest.Plan {
	return func(asked string, body []byte) dynamotest.Fault {
		if asked == op && bytes.Contains(body, []byte(text)) {
			return f
		}
		return dynamotest.Pass
	}
}

// holdReply returns a fault that executes a request and holds the reply until
// goOn is closed.
func holdReply() (f dynamotest.Fault, held, goOn chan struct{}) {
	held, goOn = make(chan struct{}), make(chan struct{})
	return dynamotest.Fault{Name: "slow", Act: func(x *dynamotest.Exchange) {
		reply := x.Execute(x.Body)
		close(held)
		<-goOn
		x.Answer(reply)
	}}, held, goOn
}

// failCondition makes the condition of a write fail.
var failCondition = dynamotest.Fault{Name: "refuse", Act: func(x *dynamotest.Exchange) {
	condition := []byte(`"ConditionExpression":"`)
	x.Answer(x.Execute(bytes.Replace(x.Body, condition, append(condition, "attribute_exists(nope) AND "...), 1)))
}}

// A connection timeout is an outage even for a caller without a deadline.
func TestSilentTableIsAnOutage(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	cfg := dynamotest.Config(s.proxy.URL)
	impatient := &http.Transport{ResponseHeaderTimeout: 50 * time.Millisecond}
	defer impatient.CloseIdleConnections()
	cfg.HTTPClient, cfg.RetryMaxAttempts = &http.Client{Transport: impatient}, 1
	repo := dynamotest.Connect(t, s.table, &dynamo.Options{AWS: cfg})
	s.proxy.SetPlan(dynamotest.Always(dynamotest.Hang))
	if _, err := repo.Consume(t.Context(), start, chargeOf("alice", 1)); err == nil {
		t.Error("no error")
	}
}

// A failed read of expired facts is an outage and not a missing namespace:
// callers that allow an outage go on.
func TestOutageIsNoMissingNamespace(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]dynamo.Options{
		"peek": {}, "no speculation": {NoSpeculation: true}, "image forgotten": {Images: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFaultyTable(t)
			repo := s.connectOnce(opts)
			consume(t, repo, 0, chargeOf("alice", 1), true)
			consume(t, repo, 0, chargeOf("bob", 1), true)
			s.proxy.SetPlan(onRequest(read, "", dynamotest.Fail500))
			ask := chargeOf("alice", 1)
			_, err := repo.Consume(t.Context(), at(2*time.Minute), ask)
			if name == "peek" {
				_, err = repo.Peek(t.Context(), at(2*time.Minute), ask)
			}
			if err == nil || errors.Is(err, limiter.ErrNotFound) {
				t.Errorf("error %v, want an outage", err)
			}
		})
	}
}

// Facts that could not be read again must not overwrite what another process
// stored.
func TestOldFactsRepairNothing(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	repo := s.connectOnce(exactOptions)
	setDefaults(t, s.steady, perMinute60, limiter.PerDay("tpd", 10))
	both := limiter.Charge{Entity: "alice", Resource: model, Amounts: limiter.Tokens("rpm", 1).And("tpd", 10)}
	account := consume(t, repo, 0, both, true).Payers[0].Account
	setDefaults(t, s.steady, limiter.PerMinute("rpm", 6))
	consume(t, s.steady, time.Second, chargeOf("alice", 1), true)
	must(t,
		repo.Credit(t.Context(), at(time.Second), limiter.Credit{Account: account, Amounts: limiter.Tokens("rpm", -1)}))
	s.proxy.SetPlan(onRequest(read, "", dynamotest.Fail500))
	_, _ = repo.Consume(t.Context(), at(2*time.Minute), both)
	if capacity, _ := s.bucketNumber("b_rpm_cp"); capacity != 6000 {
		t.Errorf("rpm has a capacity of %d thousandths, want 6000", capacity)
	}
	s.checkNoDailyLimit()
}

// A locked write based on a stale image loses no accrual.
func TestLockedWriteFromAnOldImageLosesNothing(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	one, two, reference := dynamotest.Connect(t, table, &exactOptions), dynamotest.Connect(t, table, &exactOptions), memory.New(nil)
	setDefaults(t, one, perMinute60)
	setDefaults(t, reference, perMinute60)
	var got, want limiter.Outcome
	for _, step := range []struct {
		repo limiter.Repository
		at   time.Duration
		n    int64
	}{{one, 0, 10}, {two, 5 * time.Second, 50}, {one, 50 * time.Second, 1}} {
		got = consume(t, step.repo, step.at, chargeOf("alice", step.n), true)
		want = consume(t, reference, step.at, chargeOf("alice", step.n), true)
	}
	if got.Payers[0].Tokens[0] != want.Payers[0].Tokens[0] {
		t.Errorf("%d thousandths are left, memory has %d", got.Payers[0].Tokens[0], want.Payers[0].Tokens[0])
	}
}

// A repair that a charge overtakes creates no debt.
func TestRepairThatIsOvertakenLeavesNoDebt(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	setDefaults(t, s.steady, limiter.PerMinute("rpm", 100))
	consume(t, s.steady, 0, chargeOf("alice", 1), true)
	setDefaults(t, dynamotest.Connect(t, s.table, &exactOptions), limiter.PerMinute("rpm", 10))
	held, goOn := make(chan struct{}), make(chan struct{})
	s.proxy.SetPlan(dynamotest.First(1, update, dynamotest.Fault{Name: "hold", Act: func(x *dynamotest.Exchange) {
		close(held)
		<-goOn
		x.Answer(x.Execute(x.Body))
	}}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.repo.Consume(context.Background(), start, chargeOf("alice", 50))
	}()
	<-held
	consume(t, s.steady, 0, chargeOf("alice", 80), true) // with stale limits
	close(goOn)
	<-done
	if tokens, _ := s.bucketNumber("b_rpm_tk"); tokens < 0 {
		t.Errorf("%d millitokens are left, though no charge exceeded the balance", tokens)
	}
}

// A write based on a stale image must not make a bucket in debt expire early.
func TestNoWriteForgivesTheDebtOfAnother(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"plain", "locked", "undo"} {
		t.Run(how, func(t *testing.T) {
			table := dynamotest.NewTable(t)
			one, two := dynamotest.Connect(t, table, &exactOptions), dynamotest.Connect(t, table, &exactOptions)
			setDefaults(t, one, perMinute60, limiter.PerMinute("tpm", 60))
			both := limiter.Charge{Entity: "alice", Resource: model, Amounts: limiter.Tokens("rpm", 10).And("tpm", 10)}
			lease := consume(t, one, 0, both, true).Payers[0].Account
			debtor := consume(t, two, 0, both, true).Payers[0].Account
			must(t,
				two.Credit(t.Context(), at(time.Second), limiter.Credit{
					Account: debtor, Amounts: limiter.Tokens("tpm", -1000),
				}))
			before, _ := storedNumber(t, table, one.NamespaceID(), "ttl")
			switch how {
			case "plain":
				consume(t, one, 2*time.Second, chargeOf("alice", 1), true)
			case "locked":
				consume(t, one, 15*time.Second, chargeOf("alice", 1), true)
			default:
				must(t,
					one.Credit(t.Context(), at(2*time.Second), limiter.Credit{
						Account: lease, Amounts: limiter.Tokens("rpm", 10), Undo: true,
					}))
			}
			if after, _ := storedNumber(t, table, one.NamespaceID(), "ttl"); after < before {
				t.Errorf("the bucket goes %d s before its debt is paid", before-after)
			}
		})
	}
}

// A read that a creation overtook does not invalidate leases of the new bucket.
func TestReadThatACreationOvertookDropsNoLease(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	_, err := s.repo.Peek(t.Context(), start, chargeOf("alice", 1)) // caches the facts
	must(t, err)
	f, held, goOn := holdReply()
	s.proxy.SetPlan(dynamotest.First(1, read, f))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.repo.Consume(context.Background(), start, chargeOf("alice", 1))
	}()
	<-held
	lease := consume(t, s.repo, 0, chargeOf("alice", 10), true).Payers[0].Account
	close(goOn)
	<-done
	must(t,
		s.repo.Credit(t.Context(), start, limiter.Credit{
			Account: lease, Amounts: limiter.Tokens("rpm", 10), Undo: true,
		}))
	s.checkBalance(0, "alice", 59)
}

// A refusal that a give-back of the same process overtook is not remembered.
func TestGiveBackClearsARefusalUnderWay(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	repo := s.connectOnce(dynamo.Options{Exact: true})
	lease := consume(t, repo, 0, chargeOf("alice", 60), true).Payers[0].Account
	f, held, goOn := holdReply()
	s.proxy.SetPlan(dynamotest.First(1, get, f))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = repo.Consume(context.Background(), start, chargeOf("alice", 60))
	}()
	<-held
	must(t, repo.Credit(t.Context(), start, limiter.Credit{Account: lease, Amounts: limiter.Tokens("rpm", 60)}))
	close(goOn)
	<-done
	consume(t, repo, 0, chargeOf("alice", 60), true)
}

// Stats counts every lost give-back.
func TestLostGiveBacksAreCounted(t *testing.T) {
	t.Parallel()
	t.Run("the bucket cannot be read", func(t *testing.T) {
		s := newFaultyTable(t)
		account := warmUp(s)
		s.repo.Forget()
		s.proxy.SetPlan(dynamotest.Always(dynamotest.Fail500))
		if err := credit(10, true)(s, account); err == nil || s.repo.Stats().CreditsDropped != 1 {
			t.Errorf("error %v and %d dropped, want an error and 1", err, s.repo.Stats().CreditsDropped)
		}
	})
	t.Run("the time is up", func(t *testing.T) {
		s := newFaultyTable(t)
		account := warmUp(s)
		s.proxy.SetPlan(onRequest(update, "", failCondition))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := s.repo.Credit(ctx, start, limiter.Credit{Account: account, Amounts: limiter.Tokens("rpm", 5)})
		if err == nil || s.repo.Stats().CreditsDropped != 1 {
			t.Errorf("error %v and %d dropped, want an error and 1", err, s.repo.Stats().CreditsDropped)
		}
	})
}

// The former parent gets its tokens back even if the new one cannot be read.
func TestFormerParentGetsItBack(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	createChild(t, s.steady, "alice", "old")
	must(t, charge(0)(s, nil))
	must(t, s.steady.DeleteEntity(t.Context(), "alice", auditEvent("entity_deleted")))
	createChild(t, s.steady, "alice", "new")
	s.proxy.SetPlan(onRequest(read, `ENTITY#new"`, dynamotest.Fail500))
	if _, err := s.repo.Consume(t.Context(), start, chargeOf("alice", 10)); err == nil {
		t.Error("no error")
	}
	must(t, s.repo.Close())
	s.checkBalance(0, "old", 50)
}

// Deleting the item repairs a bucket with a refill time far ahead, despite the
// caches of processes.
func TestDeletedBucketRecoversFromAFastClock(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	one, two, ahead := dynamotest.Connect(t, table, &exactOptions), dynamotest.Connect(t, table, &exactOptions), dynamotest.Connect(t, table, &exactOptions)
	setDefaults(t, one, perMinute60)
	consume(t, ahead, 365*24*time.Hour, chargeOf("alice", 60), true)
	consume(t, one, 0, chargeOf("alice", 1), false) // for a year
	_, err := dynamotest.Client(t).DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: &table, Key: bucketKeyOf(one.NamespaceID(), "alice"),
	})
	must(t, err)
	consume(t, two, time.Minute, chargeOf("alice", 1), true)
	consume(t, one, time.Minute, chargeOf("alice", 1), true)
	if refill, _ := storedNumber(t, table, one.NamespaceID(), "rf"); refill > at(time.Minute).UnixMilli() {
		t.Errorf("it is refilled up to %v", time.UnixMilli(refill))
	}
}

// The total also grows with the largest debits.
func TestHugeDebitCountsUp(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	account := warmUp(s)
	must(t, credit(-1<<62, false)(s, account))
	if total := rawNumber(
		rawBucket(t, s.table, s.steady.NamespaceID(), "alice"), "b_rpm_tc",
	); total == "" || total[0] == '-' {
		t.Errorf("the total is %q, though more was taken", total)
	}
}

// A charge that is overtaken too often is a refusal with a reason, even if only
// the parent has the limit.
func TestParentOvertakenTooOftenIsARefusal(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	createChild(t, s.steady, "alice", "project")
	cfg := limiter.Config{
		Scope:  limiter.Scope{Entity: "project", Resource: model},
		Limits: []limiter.Limit{limiter.PerMinute("tpm", 60)},
	}
	must(t, s.steady.SetConfig(t.Context(), cfg, auditEvent("limits_set")))
	lim, err := limiter.New(s.repo, &limiter.Options{Now: func() time.Time { return start }})
	must(t, err)
	req := limiter.Request{Entity: "alice", Resource: model, Consume: limiter.Tokens("tpm", 1)}
	_, err = lim.Acquire(t.Context(), req)
	must(t, err)
	s.proxy.SetPlan(onRequest(update, "ENTITY#project", failCondition))
	_, err = lim.Acquire(t.Context(), req)
	if refusal, ok := errors.AsType[*limiter.ExceededError](err); !ok || len(refusal.Decision.Violations()) == 0 ||
		refusal.Decision.RetryAfter() <= 0 {
		t.Errorf("error %v, want a refusal with a reason", err)
	}
}

// Undoing a charge gives back the tokens paid, not the tokens requested: the
// bucket may have got more limits meanwhile.
func TestUndoGivesBackOnlyWhatWasPaid(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	createChild(t, s.steady, "alice", "project")
	setDefaults(t, s.steady, perMinute60, limiter.PerDay("tpd", 100))
	own := limiter.Config{Scope: limiter.Scope{Entity: "alice", Resource: model}, Limits: []limiter.Limit{perMinute60}}
	must(t, s.steady.SetConfig(t.Context(), own, auditEvent("limits_set")))
	both := limiter.Charge{Entity: "alice", Resource: model, Amounts: limiter.Tokens("rpm", 1).And("tpd", 30)}
	consume(t, s.repo, 0, both, true)
	own.Limits = []limiter.Limit{limiter.PerMinute("rpm", 50), limiter.PerDay("tpd", 100)}
	paid := make(chan struct{})
	s.proxy.SetPlan(func(op string, body []byte) dynamotest.Fault {
		switch {
		case op != update:
			return dynamotest.Pass
		case bytes.Contains(body, []byte("ENTITY#alice")):
			return dynamotest.Fault{Name: "pay", Act: func(x *dynamotest.Exchange) {
				x.Answer(x.Execute(x.Body))
				close(paid)
			}}
		}
		return dynamotest.Fault{Name: "deny", Act: func(x *dynamotest.Exchange) {
			<-paid
			err := s.steady.SetConfig(context.Background(), own, auditEvent("limits_set"))
			_, charged := s.steady.Consume(context.Background(), start, limiter.Charge{
				Entity: "alice", Resource: model, Amounts: limiter.Tokens("tpd", 60),
			})
			if err != nil || charged != nil {
				t.Error(err, charged)
			}
			x.Answer(dynamotest.Failure(http.StatusBadRequest, "AccessDeniedException", `"message":"no"`))
		}}
	})
	if _, err := s.repo.Consume(t.Context(), start, both); err == nil {
		t.Error("no error")
	}
	if tokens, _ := s.bucketNumber("b_tpd_tk"); tokens != 40_000 {
		t.Errorf("tpd holds %d thousandths, want 40000: 60 of 100 were taken and none given back", tokens)
	}
}
