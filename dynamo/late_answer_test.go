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

// What a process remembers may be older than what it gave and took since: an
// answer was late, or others went on. Nothing that a lease gives back is lost by
// that.

// gives gives back what a lease took.
func (s *shaky) gives(repo *dynamo.Repository, d time.Duration, lease *limiter.Account, amounts limiter.Amounts) {
	s.Helper()
	for _, undo := range []bool{false, true} {
		must(s, repo.Credit(s.Context(), at(d), limiter.Credit{Account: lease, Amounts: amounts, Undo: undo}))
	}
	if n := repo.Stats().CreditsDropped; n != 0 {
		s.Errorf("%d give-backs are dropped", n)
	}
}

// The answer to the write that made a bucket comes after another call has charged
// it: the lease of that one is of the same bucket.
func TestLateAnswerEndsNoLease(t *testing.T) {
	for name, c := range map[string]struct {
		op    string
		later time.Duration
	}{"new bucket": {put, 0}, "expired bucket": {update, 8 * time.Minute}} {
		for kind, opts := range exactOrNot {
			t.Run(name+", "+kind, func(t *testing.T) {
				s := newShaky(t)
				repo := s.once(opts)
				if c.op == update {
					consume(t, repo, 0, ask("alice", 10), true)
				}
				f, held, goOn := slow()
				s.wire.SetPlan(dynamotest.First(1, c.op, f))
				out := asideCharge(t, repo, c.later, 10)
				<-held
				lease := consume(t, repo, c.later, ask("alice", 20), true).Self.Account
				close(goOn)
				<-out
				s.gives(repo, c.later, lease, limiter.Tokens("rpm", 10))
				s.holds(c.later, "alice", 50)
			})
		}
	}
}

// A lease lasts longer than the bucket would stay untouched, and only the process
// that holds it has not seen that others use the bucket.
func TestLongLeaseGivesBackToABucketThatOthersKept(t *testing.T) {
	s := newShaky(t)
	lease := consume(t, s.repo, 0, ask("alice", 20), true).Self.Account
	consume(t, s.steady, 8*time.Minute, ask("alice", 60), true)
	s.gives(s.repo, 8*time.Minute, lease, limiter.Tokens("rpm", 10))
	s.holds(8*time.Minute, "alice", 20)
}

// An answer from before a limit joined comes after one that shows it, and both
// have the same refill time.
func TestLateAnswerHidesNoLimit(t *testing.T) {
	s := newShaky(t)
	repo := s.once(exactly)
	consume(t, repo, 0, ask("alice", 1), true)
	f, held, goOn := slow()
	s.wire.SetPlan(dynamotest.First(1, update, f))
	out := asideCharge(t, repo, 0, 1)
	<-held
	setDefaults(t, repo, perMinute60, tenADay)
	lease := consume(t, repo, 0, daily(8), true).Self.Account
	close(goOn)
	<-out
	s.gives(repo, 0, lease, limiter.Tokens("tpd", 4))
	if n, _ := s.stored("b_tpd_tk"); n != 10_000 {
		t.Errorf("the daily limit holds %d thousandths, want 10000", n)
	}
}

// A refusal is remembered with the image that it rests on, not with an older one
// that lacks what this process gave back.
func TestLateAnswerDoesNotJoinARememberedRefusal(t *testing.T) {
	s := newShaky(t)
	setDefaults(t, s.steady, perMinute60, limiter.PerMinute("tpm", 60))
	repo := s.once(dynamo.Options{Exact: true})
	all := ask("alice", 60)
	all.Amounts = all.Amounts.And("tpm", 60)
	lease := consume(t, repo, 0, all, true).Self.Account
	f, held, goOn := slow()
	s.wire.SetPlan(dynamotest.First(1, get, f))
	out := asideCharge(t, repo, 0, 5)
	<-held
	s.gives(repo, 0, lease, limiter.Tokens("tpm", 25))
	consume(t, repo, 0, ask("alice", 5), false)
	close(goOn)
	<-out
	consume(t, repo, 0, limiter.Charge{Entity: "alice", Resource: model, Amounts: limiter.Tokens("tpm", 50)}, true)
}

// exactOrNot are the options under which a store is exact, and the default ones.
var exactOrNot = map[string]dynamo.Options{"exact": exactly, "default": {}}

// heldBefore is a fault that holds a request until it may reach the engine.
func heldBefore() (f dynamotest.Fault, held, goOn chan struct{}) {
	held, goOn = make(chan struct{}), make(chan struct{})
	return dynamotest.Fault{Name: "heldBefore", Act: func(x *dynamotest.Exchange) {
		close(held)
		<-goOn
		x.Answer(x.Execute(x.Body))
	}}, held, goOn
}

// asideCharge starts a charge whose outcome is sent.
func asideCharge(tb testing.TB, repo *dynamo.Repository, d time.Duration, n int64) <-chan limiter.Outcome {
	tb.Helper()
	done := make(chan limiter.Outcome, 1)
	go func() {
		out, err := repo.Consume(context.Background(), at(d), ask("alice", n))
		if err != nil {
			tb.Error(err)
		}
		done <- out
	}()
	return done
}

// informed is a process that knows all facts about alice, and not her bucket.
func (s *shaky) informed(opts dynamo.Options) *dynamo.Repository {
	s.Helper()
	repo := s.once(opts)
	_, err := repo.Peek(context.Background(), at(time.Minute), ask("alice", 1))
	must(s, err)
	return repo
}

// A read whose answer comes after that of a later write of the same process does
// not refuse what the bucket has.
func TestAnswerThatAWriteOvertookRefusesNothing(t *testing.T) {
	for name, opts := range exactOrNot {
		t.Run(name+", unknown bucket", func(t *testing.T) {
			s := newShaky(t)
			repo := s.informed(opts)
			consume(t, s.steady, 0, ask("alice", 60), true)
			f, held, goOn := slow()
			s.wire.SetPlan(dynamotest.First(1, read, f))
			out := asideCharge(t, repo, time.Minute, 30)
			<-held
			consume(t, repo, time.Minute, ask("alice", 1), true)
			close(goOn)
			if !(<-out).Admitted {
				t.Error("30 are refused though 59 are there")
			}
			s.holds(time.Minute, "alice", 29)
		})
		t.Run(name+", remembered bucket", func(t *testing.T) {
			s := newShaky(t)
			repo := s.once(opts)
			consume(t, repo, 0, ask("alice", 30), true)
			lease := consume(t, s.steady, 0, ask("alice", 30), true).Self.Account
			consume(t, repo, 0, ask("alice", 1), false) // it knows now
			must(t, s.steady.Credit(t.Context(), start, limiter.Credit{Account: lease, Amounts: limiter.Tokens("rpm", 25)}))
			f, held, goOn := slow()
			s.wire.SetPlan(dynamotest.First(1, get, f))
			out := asideCharge(t, repo, 10*time.Second, 30)
			<-held
			consume(t, repo, 10*time.Second, ask("alice", 1), true)
			close(goOn)
			if !(<-out).Admitted {
				t.Error("30 are refused though 34 are there")
			}
			s.holds(10*time.Second, "alice", 4)
		})
	}
}

// setBack is a writer with a slow clock.
func (s *shaky) setBack(d time.Duration) {
	s.Helper()
	_, err := dynamotest.Client(s).UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: bucketKeyOf(s.steady.NamespaceID(), "alice"), UpdateExpression: aws.String("SET rf = :rf"),
		ExpressionAttributeValues: dynamotest.Item{":rf": &types.AttributeValueMemberN{Value: strconv.FormatInt(at(d).UnixMilli(), 10)}},
	})
	must(s, err)
}

// Where the refill time really went back, the same time is not refilled twice:
// neither by a call that begins afterwards, nor by one whose read did not show
// whether it had.
func TestRefillTimeThatWentBackMintsNothing(t *testing.T) {
	for name, opts := range exactOrNot {
		t.Run(name, func(t *testing.T) {
			s := newShaky(t)
			repo := s.once(opts)
			consume(t, repo, time.Minute, ask("alice", 60), true)
			s.setBack(30 * time.Second)
			consume(t, repo, time.Minute, ask("alice", 20), false)
		})
		t.Run(name+", overtaken", func(t *testing.T) {
			s := newShaky(t)
			repo := s.informed(opts)
			consume(t, s.steady, 0, ask("alice", 60), true)
			f, held, goOn := heldBefore()
			s.wire.SetPlan(dynamotest.First(1, read, f))
			out := asideCharge(t, repo, time.Minute, 20)
			<-held
			consume(t, repo, time.Minute, ask("alice", 60), true)
			s.setBack(30 * time.Second)
			before := s.wire.Executed(get)
			close(goOn)
			if (<-out).Admitted {
				t.Error("20 more are admitted though 60 of 60 are spent")
			}
			if n := s.wire.Executed(get) - before; n != 1 {
				t.Errorf("the bucket is read %d times more, want once", n)
			}
		})
	}
}

// Many callers at once meet a bucket that has filled up since it was emptied.
// None of them is refused.
func TestForgottenBucketRefusesNoCaller(t *testing.T) {
	const callers, rounds = 24, 40
	for name, opts := range exactOrNot {
		t.Run(name, func(t *testing.T) {
			repo := dynamotest.Connect(t, dynamotest.NewTable(t), &opts)
			setDefaults(t, repo, perMinute60)
			now := time.Duration(0)
			consume(t, repo, now, ask("alice", 60), true)
			refused := 0
			for range rounds {
				now += time.Minute
				repo.Forget()
				var wg sync.WaitGroup
				outcomes := make([]limiter.Outcome, callers)
				errs := make([]error, callers)
				for i := range callers {
					wg.Go(func() { outcomes[i], errs[i] = repo.Consume(context.Background(), at(now), ask("alice", 1)) })
				}
				wg.Wait()
				for i, out := range outcomes {
					must(t, errs[i])
					if !out.Admitted {
						refused++
					}
				}
				consume(t, repo, now, ask("alice", 60-callers+int64(countRefused(outcomes))), true)
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
