package dynamo_test

import (
	"context"
	"slices"
	"strconv"
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

// A cached image may be older than the writes of this process: a reply was late,
// or others wrote meanwhile. No give-back of a lease may be lost.

// giveBack gives back tokens of a lease, as a credit and as an undo, and checks
// that none is dropped.
func (s *faultyTable) giveBack(
	repo *dynamo.Repository, d time.Duration, lease *limiter.Account, amounts limiter.Amounts,
) {
	s.Helper()
	for _, undo := range []bool{false, true} {
		must(s, repo.Credit(s.Context(), at(d), limiter.Credit{Account: lease, Amounts: amounts, Undo: undo}))
	}
	if n := repo.Stats().CreditsDropped; n != 0 {
		s.Errorf("%d give-backs are dropped", n)
	}
}

// The reply to the creation of a bucket arrives after another call has charged
// it: that lease belongs to the same bucket.
func TestLateAnswerEndsNoLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op    string
		later time.Duration
	}{"new bucket": {put, 0}, "expired bucket": {update, 8 * time.Minute}} {
		for kind, opts := range bothModes {
			t.Run(name+", "+kind, func(t *testing.T) {
				s := newFaultyTable(t)
				repo := s.connectOnce(opts)
				if c.op == update {
					consume(t, repo, 0, chargeOf("alice", 10), true)
				}
				f, held, goOn := holdReply()
				s.proxy.SetPlan(dynamotest.First(1, c.op, f))
				out := startCharge(t, repo, c.later, 10)
				<-held
				lease := consume(t, repo, c.later, chargeOf("alice", 20), true).Payers[0].Account
				close(goOn)
				<-out
				s.giveBack(repo, c.later, lease, limiter.Tokens("rpm", 10))
				s.checkBalance(c.later, "alice", 50)
			})
		}
	}
}

// A lease lasts longer than the TTL of its bucket, and its process has not seen
// that others extend it.
func TestLongLeaseGivesBackToABucketThatOthersKept(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	lease := consume(t, s.repo, 0, chargeOf("alice", 20), true).Payers[0].Account
	consume(t, s.steady, 6*time.Minute, chargeOf("alice", 1), true)
	consume(t, s.steady, 8*time.Minute, chargeOf("alice", 60), true)
	s.giveBack(s.repo, 8*time.Minute, lease, limiter.Tokens("rpm", 10))
	s.checkBalance(8*time.Minute, "alice", 20)
}

// A reply from before a limit was added arrives after one that has it. Both have
// the same refill time.
func TestLateAnswerHidesNoLimit(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	repo := s.connectOnce(exactOptions)
	consume(t, repo, 0, chargeOf("alice", 1), true)
	f, held, goOn := holdReply()
	s.proxy.SetPlan(dynamotest.First(1, update, f))
	out := startCharge(t, repo, 0, 1)
	<-held
	setDefaults(t, repo, perMinute60, tenPerDay)
	lease := consume(t, repo, 0, dailyCharge(8), true).Payers[0].Account
	close(goOn)
	<-out
	s.giveBack(repo, 0, lease, limiter.Tokens("tpd", 4))
	if n, _ := s.bucketNumber("b_tpd_tk"); n != 10_000 {
		t.Errorf("the daily limit holds %d thousandths, want 10000", n)
	}
}

// A refusal is remembered with the image it was based on, not with an older one
// without a give-back of this process.
func TestLateAnswerDoesNotJoinARememberedRefusal(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	setDefaults(t, s.steady, perMinute60, limiter.PerMinute("tpm", 60))
	repo := s.connectOnce(dynamo.Options{Exact: true})
	all := chargeOf("alice", 60)
	all.Amounts = all.Amounts.And("tpm", 60)
	lease := consume(t, repo, 0, all, true).Payers[0].Account
	f, held, goOn := holdReply()
	s.proxy.SetPlan(dynamotest.First(1, get, f))
	out := startCharge(t, repo, 0, 5)
	<-held
	s.giveBack(repo, 0, lease, limiter.Tokens("tpm", 25))
	consume(t, repo, 0, chargeOf("alice", 5), false)
	close(goOn)
	<-out
	consume(t, repo, 0, limiter.Charge{Entity: "alice", Resource: model, Amounts: limiter.Tokens("tpm", 50)}, true)
}

// bothModes has the options of an exact store and of the default one.
var bothModes = map[string]dynamo.Options{"exact": exactOptions, "default": {}}

// holdRequest returns a fault that holds a request before it reaches the engine,
// until goOn is closed.
func holdRequest() (f dynamotest.Fault, held, goOn chan struct{}) {
	held, goOn = make(chan struct{}), make(chan struct{})
	return dynamotest.Fault{Name: "heldBefore", Act: func(x *dynamotest.Exchange) {
		close(held)
		<-goOn
		x.Answer(x.Execute(x.Body))
	}}, held, goOn
}

// startCharge starts a charge and sends its outcome.
func startCharge(tb testing.TB, repo *dynamo.Repository, d time.Duration, n int64) <-chan limiter.Outcome {
	tb.Helper()
	done := make(chan limiter.Outcome, 1)
	go func() {
		out, err := repo.Consume(context.Background(), at(d), chargeOf("alice", n))
		if err != nil {
			tb.Error(err)
		}
		done <- out
	}()
	return done
}

// connectWithFacts connects a process that has cached everything about alice but
// her bucket.
func (s *faultyTable) connectWithFacts(opts dynamo.Options) *dynamo.Repository {
	s.Helper()
	repo := s.connectOnce(opts)
	_, err := repo.Peek(context.Background(), at(time.Minute), chargeOf("alice", 1))
	must(s, err)
	return repo
}

// A read whose reply arrives after the reply to a later write of the same
// process does not refuse tokens that the bucket has.
func TestAnswerThatAWriteOvertookRefusesNothing(t *testing.T) {
	t.Parallel()
	for name, opts := range bothModes {
		t.Run(name+", unknown bucket", func(t *testing.T) {
			s := newFaultyTable(t)
			repo := s.connectWithFacts(opts)
			consume(t, s.steady, 0, chargeOf("alice", 60), true)
			f, held, goOn := holdReply()
			s.proxy.SetPlan(dynamotest.First(1, read, f))
			out := startCharge(t, repo, time.Minute, 30)
			<-held
			consume(t, repo, time.Minute, chargeOf("alice", 1), true)
			close(goOn)
			if !(<-out).Admitted {
				t.Error("30 are refused though 59 are there")
			}
			s.checkBalance(time.Minute, "alice", 29)
		})
		t.Run(name+", remembered bucket", func(t *testing.T) {
			s := newFaultyTable(t)
			repo := s.connectOnce(opts)
			consume(t, repo, 0, chargeOf("alice", 30), true)
			lease := consume(t, s.steady, 0, chargeOf("alice", 30), true).Payers[0].Account
			consume(t, repo, 0, chargeOf("alice", 1), false) // caches the empty bucket
			must(t,
				s.steady.Credit(t.Context(), start, limiter.Credit{Account: lease, Amounts: limiter.Tokens("rpm", 25)}))
			f, held, goOn := holdReply()
			s.proxy.SetPlan(dynamotest.First(1, get, f))
			out := startCharge(t, repo, 10*time.Second, 30)
			<-held
			consume(t, repo, 10*time.Second, chargeOf("alice", 1), true)
			close(goOn)
			if !(<-out).Admitted {
				t.Error("30 are refused though 34 are there")
			}
			s.checkBalance(10*time.Second, "alice", 4)
		})
	}
}

// setRefillTime sets the refill time as a writer with a slow clock does.
func (s *faultyTable) setRefillTime(d time.Duration) {
	s.Helper()
	_, err := dynamotest.Client(s).UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: bucketKeyOf(s.steady.NamespaceID(), "alice"),
		UpdateExpression: aws.String("SET rf = :rf"),
		ExpressionAttributeValues: dynamotest.Item{":rf": &types.AttributeValueMemberN{
			Value: strconv.FormatInt(at(d).UnixMilli(), 10),
		}},
	})
	must(s, err)
}

// If the stored refill time goes back, the same time is not refilled twice:
// neither by a later call, nor by a call whose read was overtaken.
func TestRefillTimeThatWentBackRefillsNothingTwice(t *testing.T) {
	t.Parallel()
	for name, opts := range bothModes {
		t.Run(name, func(t *testing.T) {
			s := newFaultyTable(t)
			repo := s.connectOnce(opts)
			consume(t, repo, time.Minute, chargeOf("alice", 60), true)
			s.setRefillTime(30 * time.Second)
			consume(t, repo, time.Minute, chargeOf("alice", 20), false)
		})
		t.Run(name+", overtaken", func(t *testing.T) {
			s := newFaultyTable(t)
			repo := s.connectWithFacts(opts)
			consume(t, s.steady, 0, chargeOf("alice", 60), true)
			f, held, goOn := holdRequest()
			s.proxy.SetPlan(dynamotest.First(1, read, f))
			out := startCharge(t, repo, time.Minute, 20)
			<-held
			consume(t, repo, time.Minute, chargeOf("alice", 60), true)
			s.setRefillTime(30 * time.Second)
			before := s.proxy.Executed(get)
			close(goOn)
			if (<-out).Admitted {
				t.Error("20 more are admitted though 60 of 60 are spent")
			}
			if n := s.proxy.Executed(get) - before; n != 1 {
				t.Errorf("the bucket is read %d times more, want once", n)
			}
		})
	}
}

// Concurrent callers charge a bucket that has filled up since it was emptied.
// None of them is refused.
func TestForgottenBucketRefusesNoCaller(t *testing.T) {
	t.Parallel()
	const callers, rounds = 24, 40
	for name, opts := range bothModes {
		t.Run(name, func(t *testing.T) {
			repo := dynamotest.Connect(t, dynamotest.NewTable(t), &opts)
			setDefaults(t, repo, perMinute60)
			now := time.Duration(0)
			consume(t, repo, now, chargeOf("alice", 60), true)
			refused := 0
			for range rounds {
				now += time.Minute
				repo.Forget()
				var wg sync.WaitGroup
				outcomes := make([]limiter.Outcome, callers)
				errs := make([]error, callers)
				for i := range callers {
					wg.Go(func() {
						outcomes[i], errs[i] = repo.Consume(context.Background(), at(now), chargeOf("alice", 1))
					})
				}
				wg.Wait()
				for i, out := range outcomes {
					must(t, errs[i])
					if !out.Admitted {
						refused++
					}
				}
				consume(t, repo, now, chargeOf("alice", 60-callers+int64(countRefused(outcomes))), true)
			}
			if refused > 0 {
				t.Errorf("%d of %d are refused", refused, callers*rounds)
			}
		})
	}
}

func countRefused(outcomes []limiter.Outcome) int {
	return len(slices.DeleteFunc(slices.Clone(outcomes), func(o limiter.Outcome) bool { return o.Admitted }))
}
