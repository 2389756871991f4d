package dynamo_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// leave starts a charge of ten, waits until a request of it is held, and cancels it.
// The call returns at once.
func (s *faultyTable) leave(entity string, held <-chan struct{}) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := s.repo.Consume(ctx, start, chargeOf(entity, 10))
		failed <- err
	}()
	<-held
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		s.Errorf("Consume returns %v, want context.Canceled", err)
	}
}

// A caller leaves while a debit is under way. Once the response shows that it was
// executed, it is given back, and Close waits for that.
func TestCancelledChargeIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		for name, c := range map[string]struct {
			op, entity string
			warm       int64
		}{
			"new bucket": {put, "alice", 0}, "bucket": {update, "alice", 1},
			"child and parent": {update, "child", 1}, "new child and parent": {transact, "child", 0},
		} {
			hold := holdReply
			if before {
				hold, name = holdRequest, name+", before"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newFaultyTable(t)
				createChild(t, s.steady, "child", "project")
				if c.warm > 0 {
					consume(t, s.repo, 0, chargeOf(c.entity, c.warm), true)
				}
				f, held, goOn := hold()
				s.proxy.SetPlan(dynamotest.First(1, c.op, f))
				s.leave(c.entity, held)
				close(goOn)
				must(t, s.repo.Close())
				s.checkBalance(0, c.entity, 60-c.warm)
				if c.entity == "child" {
					s.checkBalance(0, "project", 60-c.warm)
				}
				if n := s.repo.Stats().CreditsDropped; n != 0 {
					t.Errorf("%d give-backs are dropped", n)
				}
			})
		}
	}
}

// A debit whose response is lost after its caller has left may be executed or not.
// It is not given back: that could mint.
func TestCancelledChargeOfUnknownFateStays(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	consume(t, s.repo, 0, chargeOf("alice", 10), true)
	held, goOn := make(chan struct{}), make(chan struct{})
	s.proxy.SetPlan(dynamotest.First(1, update, dynamotest.Fault{Name: "lost", Act: func(x *dynamotest.Exchange) {
		close(held)
		<-goOn
		dynamotest.DropReply.Act(x)
	}}))
	s.leave("alice", held)
	close(goOn)
	must(t, s.repo.Close())
	s.checkBalance(0, "alice", 40)
}

// A charge whose context ended before its write sends none.
func TestCancelledChargeDoesNotBegin(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	f, held, goOn := holdReply()
	s.proxy.SetPlan(dynamotest.First(1, read, f))
	s.leave("alice", held)
	close(goOn)
	must(t, s.repo.Close())
	if n := s.proxy.Executed(put) + s.proxy.Executed(update); n != 0 {
		t.Errorf("%d writes after the caller left", n)
	}
}

// TestCancelledChargesLeaveNothing cancels charges at random, and lets every response
// arrive. What was admitted is what is stored after Close.
func TestCancelledChargesLeaveNothing(t *testing.T) {
	t.Parallel()
	const callers, calls, capacity = 8, 60, 1_000_000
	table := dynamotest.NewTable(t)
	repo, other := dynamotest.Connect(t, table, nil), dynamotest.Connect(t, table, nil)
	setDefaults(t, repo, limiter.Custom("rpm", capacity, 1, 24*time.Hour))
	createChild(t, repo, "alice", "project")
	var admitted atomic.Int64
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for j := range calls {
				ctx, cancel := context.WithCancel(context.Background())
				timer := time.AfterFunc(100*time.Microsecond<<((i+j)%8), cancel)
				if out, err := repo.Consume(ctx, start, chargeOf("alice", 1)); err == nil && out.Admitted {
					admitted.Add(1)
				}
				timer.Stop()
				cancel()
			}
		})
	}
	group.Wait()
	must(t, repo.Close())
	dropped := repo.Stats().CreditsDropped
	for _, entity := range []string{"alice", "project"} {
		out, err := other.Peek(t.Context(), start, chargeOf(entity, 0))
		must(t, err)
		if got := capacity - out.Payers[0].Tokens[0]/1000; got < admitted.Load() || got > admitted.Load()+dropped {
			t.Errorf("%d of %s are stored, %d were admitted and %d give-backs dropped", got, entity,
				admitted.Load(), dropped)
		}
	}
}
