package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// faultyTable is a table with a process behind a proxy, repo, and one without,
// steady.
type faultyTable struct {
	testing.TB
	table        string
	repo, steady *dynamo.Repository
	proxy        *dynamotest.Proxy
}

func newFaultyTable(tb testing.TB) *faultyTable {
	tb.Helper()
	table := dynamotest.NewTable(tb)
	s := &faultyTable{
		TB: tb, table: table, steady: dynamotest.Connect(tb, table, &exactOptions),
		proxy: dynamotest.NewProxy(tb, nil),
	}
	setDefaults(tb, s.steady, perMinute60)
	opts := exactOptions
	opts.AWS = dynamotest.Config(s.proxy.URL)
	s.repo = dynamotest.Connect(tb, table, &opts)
	return s
}

// balance returns the tokens of an entity as steady sees them.
func (s *faultyTable) balance(d time.Duration, entity string) int64 {
	s.Helper()
	s.steady.Forget()
	out, err := s.steady.Peek(context.Background(), at(d), limiter.Charge{Entity: entity, Resource: model})
	must(s, err)
	return out.Payers[0].Tokens[0] / 1000
}

// checkBalance checks that the balance is one of several.
func (s *faultyTable) checkBalance(d time.Duration, entity string, oneOf ...int64) {
	s.Helper()
	if got := s.balance(d, entity); !slices.Contains(oneOf, got) {
		s.Errorf("%s holds %d, want one of %v", entity, got, oneOf)
	}
}

// writePath is a way to write a bucket. Its numbers are the balances of 60
// tokens after one execution, after a second one because the first reply was
// lost, and after none.
type writePath struct {
	name, op  string
	prepare   func(s *faultyTable) *limiter.Account
	write     func(s *faultyTable, a *limiter.Account) error
	once      int64
	again     int64
	untouched int64
	drops     bool // an unknown result is an error without a retry
	later     time.Duration
}

func warmUp(s *faultyTable) *limiter.Account {
	return consume(s, s.repo, 0, chargeOf("alice", 10), true).Payers[0].Account
}

func charge(d time.Duration) func(*faultyTable, *limiter.Account) error {
	return func(s *faultyTable, _ *limiter.Account) error {
		out, err := s.repo.Consume(context.Background(), at(d), chargeOf("alice", 10))
		if err == nil && !out.Admitted {
			err = errors.New("refused")
		}
		return err
	}
}

func credit(n int64, undo bool) func(*faultyTable, *limiter.Account) error {
	return func(s *faultyTable, a *limiter.Account) error {
		return s.repo.Credit(context.Background(), start, limiter.Credit{
			Account: a, Amounts: limiter.Tokens("rpm", n), Undo: undo,
		})
	}
}

var writePaths = []writePath{
	{name: "create", op: put, write: charge(0), once: 50, again: 40, untouched: 60},
	{name: "plain", op: update, prepare: warmUp, write: charge(0), once: 40, again: 30, untouched: 50},
	{
		name: "locked", op: update, prepare: warmUp, write: charge(30 * time.Second), once: 50, again: 40,
		untouched: 60, later: 30 * time.Second,
	},
	{name: "take", op: update, prepare: warmUp, write: credit(-5, false), once: 45, again: 40, untouched: 50},
	{
		name: "give", op: update, prepare: warmUp, write: credit(5, false), once: 55, again: 55, untouched: 50,
		drops: true,
	},
	{name: "undo", op: transact, prepare: warmUp, write: credit(10, true), once: 60, again: 60, untouched: 50},
}

// TestOneFault lets every write path meet every fault once. A debit may be taken
// twice if its result is unknown. Nothing may be given back twice. A write that
// surely was not executed is retried.
func TestOneFault(t *testing.T) {
	t.Parallel()
	for _, p := range writePaths {
		for _, f := range []dynamotest.Fault{
			dynamotest.DropReply, dynamotest.ResetBefore, dynamotest.Fail500, dynamotest.Fail500After,
			dynamotest.Throttle, dynamotest.Conflict,
		} {
			t.Run(p.name+" "+f.Name, func(t *testing.T) {
				s := newFaultyTable(t)
				var account *limiter.Account
				if p.prepare != nil {
					account = p.prepare(s)
				}
				s.proxy.SetPlan(dynamotest.First(1, p.op, f))
				err := p.write(s, account)
				if s.proxy.Count(f) != 1 {
					t.Fatalf("the fault did not happen")
				}
				p.check(s, f, err)
			})
		}
	}
}

func (p *writePath) check(s *faultyTable, f dynamotest.Fault, err error) {
	s.Helper()
	sure := f.Name == dynamotest.Throttle.Name || f.Name == dynamotest.Conflict.Name
	executed := f.Name == dynamotest.DropReply.Name || f.Name == dynamotest.Fail500After.Name
	switch {
	case p.drops && !sure:
		want := p.untouched
		if executed {
			want = p.once
		}
		s.checkBalance(p.later, "alice", want)
		if err == nil || s.repo.Stats().CreditsDropped != 1 {
			s.Errorf("error %v and %d credits dropped, want an error and 1", err, s.repo.Stats().CreditsDropped)
		}
		return
	case executed:
		s.checkBalance(p.later, "alice", p.again)
	default:
		s.checkBalance(p.later, "alice", p.once)
	}
	if err != nil {
		s.Errorf("error %v, want none: it is tried again", err)
	}
}

// A commit of unknown result that gives and takes retries the debit and drops
// the give-back.
func TestMixedCommitOfUnknownResultSendsOnlyItsDebitAgain(t *testing.T) {
	t.Parallel()
	for _, f := range []dynamotest.Fault{dynamotest.DropReply, dynamotest.ResetBefore} {
		t.Run(f.Name, func(t *testing.T) {
			s := newFaultyTable(t)
			setDefaults(t, s.steady, perMinute60, limiter.PerMinute("tpm", 60))
			s.repo.Forget()
			c := chargeOf("alice", 10)
			c.Amounts = c.Amounts.And("tpm", 10)
			account := consume(t, s.repo, 0, c, true).Payers[0].Account
			s.proxy.SetPlan(dynamotest.First(1, update, f))
			err := s.repo.Credit(t.Context(), start, limiter.Credit{
				Account: account, Amounts: limiter.Tokens("rpm", 5).And("tpm", -5),
			})
			if err == nil {
				t.Error("no error, though the give-back is lost")
			}
			out, err := s.steady.Peek(t.Context(), start, limiter.Charge{Entity: "alice", Resource: model})
			must(t, err)
			want := []int64{50_000, 45_000}
			if f.Name == dynamotest.DropReply.Name {
				want = []int64{55_000, 40_000}
			}
			if !slices.Equal(out.Payers[0].Tokens, want) {
				t.Errorf("holds %v, want %v", out.Payers[0].Tokens, want)
			}
		})
	}
}

// The first charge creates both buckets in one idempotent transaction: a lost
// reply does not charge twice.
func TestFirstCascadeIsOneTransaction(t *testing.T) {
	t.Parallel()
	for _, f := range []dynamotest.Fault{
		dynamotest.DropReply, dynamotest.ResetBefore, dynamotest.Fail500After, dynamotest.Throttle,
		dynamotest.Conflict,
	} {
		t.Run(f.Name, func(t *testing.T) {
			s := newFaultyTable(t)
			createChild(t, s.steady, "alice", "project")
			s.proxy.SetPlan(dynamotest.First(1, transact, f))
			must(t, charge(0)(s, nil))
			s.checkBalance(0, "alice", 50)
			s.checkBalance(0, "project", 50)
		})
	}
}

// onBucket returns a plan with a fault for the writes of one entity's bucket.
func onBucket(entity string, f dynamotest.Fault) dynamotest.Plan {
	return func(op string, body []byte) dynamotest.Fault {
		if op == update && bytes.Contains(body, []byte("ENTITY#"+entity+`"`)) {
			return f
		}
		return dynamotest.Pass
	}
}

// If one side of a cascade fails, the other gets back what it surely paid.
func TestFailedSideOfACascadeIsCompensated(t *testing.T) {
	for _, failing := range []string{"alice", "project"} {
		for _, f := range []dynamotest.Fault{dynamotest.Throttle, dynamotest.Fail500, dynamotest.ResetBefore} {
			t.Run(failing+" "+f.Name, func(t *testing.T) {
				dynamotest.CheckGoroutines(t)
				s := newFaultyTable(t)
				createChild(t, s.steady, "alice", "project")
				must(t, charge(0)(s, nil))
				s.proxy.SetPlan(onBucket(failing, f))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := s.repo.Consume(ctx, start, chargeOf("alice", 10)); err == nil {
					t.Error("no error")
				}
				s.proxy.SetPlan(nil)
				must(t, s.repo.Close()) // waits for the give-back
				s.checkBalance(0, "alice", 50)
				s.checkBalance(0, "project", 50)
			})
		}
	}
}

// A caller whose deadline has passed does not wait for a give-back.
func TestGiveBackDoesNotHoldUpTheCaller(t *testing.T) {
	dynamotest.CheckGoroutines(t)
	s := newFaultyTable(t)
	createChild(t, s.steady, "alice", "project")
	must(t, charge(0)(s, nil))
	goOn := make(chan struct{})
	s.proxy.SetPlan(func(op string, body []byte) dynamotest.Fault {
		if op == transact {
			<-goOn
			return dynamotest.Pass
		}
		return onBucket("project", dynamotest.Hang)(op, body)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	// returns while the give-back is blocked
	if _, err := s.repo.Consume(ctx, start, chargeOf("alice", 10)); err == nil {
		t.Error("no error")
	}
	close(goOn)
	must(t, s.repo.Close())
	s.checkBalance(0, "alice", 50)
	s.checkBalance(0, "project", 50)
}

// A call during an outage ends within the timeout, and takes no more than its
// attempts.
func TestOutageIsOverWithinTheTimeout(t *testing.T) {
	for _, f := range []dynamotest.Fault{
		dynamotest.Hang, dynamotest.HangAfter, dynamotest.Throttle, dynamotest.Fail500,
		dynamotest.Delay(time.Minute),
	} {
		for _, mode := range []limiter.OnUnavailable{limiter.Allow, limiter.Block} {
			t.Run(f.Name+" "+string(mode), func(t *testing.T) {
				dynamotest.CheckGoroutines(t)
				s := newFaultyTable(t)
				warmUp(s)
				s.proxy.SetPlan(dynamotest.Always(f))
				lim, err := limiter.New(s.repo, &limiter.Options{
					Timeout:       200 * time.Millisecond,
					OnUnavailable: mode, Now: func() time.Time {
						return start
					},
				})
				must(t, err)
				lease, err := lim.Acquire(t.Context(), limiter.Request{
					Entity: "alice", Resource: model, Consume: limiter.Tokens("rpm", 10),
				})
				_, outage := errors.AsType[*limiter.UnavailableError](err)
				switch {
				case mode == limiter.Block && !outage:
					t.Errorf("error %v, want *limiter.UnavailableError", err)
				case mode == limiter.Allow && (err != nil || lease.Outage() == nil):
					t.Errorf("error %v, want a lease that knows of the outage", err)
				}
				s.proxy.SetPlan(nil)
				s.checkBalance(0, "alice", 50, 40, 30, 20)
			})
		}
	}
}

// A config that seems absent would put lower limits in force, and an entity that
// seems absent would not cascade.
func TestUnprocessedFactsAreReadAgain(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	createChild(t, s.steady, "alice", "project")
	s.proxy.SetPlan(dynamotest.First(1000, read, dynamotest.Unprocessed))
	out := consume(t, s.repo, 0, chargeOf("alice", 10), true)
	if len(out.Payers) < 2 || s.proxy.Count(dynamotest.Unprocessed) == 0 {
		t.Errorf("%d payers after %d unprocessed batches", len(out.Payers), s.proxy.Count(dynamotest.Unprocessed))
	}
	s.checkBalance(0, "project", 50)
}

// A reply without the item leaves the result of the write unknown, so the write
// is retried.
func TestReplyWithoutAnItemIsRetried(t *testing.T) {
	t.Parallel()
	bare := dynamotest.Fault{Name: "bare", Act: func(x *dynamotest.Exchange) {
		reply := x.Execute(x.Body)
		reply.Body = []byte("{}")
		x.Answer(reply)
	}}
	for later, again := range map[time.Duration]int64{0: 30, 30 * time.Second: 40} { // plain and locked
		s := newFaultyTable(t)
		warmUp(s)
		s.proxy.SetPlan(dynamotest.First(1, update, bare))
		must(t, charge(later)(s, nil))
		s.checkBalance(later, "alice", again)
	}
}
