package dynamo_test

import (
	"testing"
	"time"

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
