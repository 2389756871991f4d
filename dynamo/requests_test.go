package dynamo_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// countedTable is a table with a process whose requests are counted, and another
// one.
type countedTable struct {
	testing.TB
	repo, other *dynamo.Repository
	counter     *dynamotest.Counter
}

func newCountedTable(tb testing.TB) *countedTable {
	tb.Helper()
	table, wire := dynamotest.NewTable(tb), dynamotest.NewCounter()
	w := &countedTable{TB: tb, counter: wire, other: dynamotest.Connect(tb, table, nil)}
	setDefaults(tb, w.other, perMinute60)
	w.repo = dynamotest.Connect(tb, table, &dynamo.Options{AWS: wire.Config(dynamotest.Endpoint(tb))})
	wire.Reset()
	return w
}

// checkRequests checks the requests and round trips of work. It holds concurrent
// requests until all of them were made.
func (w *countedTable) checkRequests(what string, roundTrips int, work func(), want ...string) {
	w.Helper()
	w.counter.Reset()
	if len(want) > roundTrips && roundTrips > 0 {
		sizes := slices.Repeat([]int{1}, roundTrips-1)
		w.counter.Together(append(sizes, len(want)-roundTrips+1)...)
	}
	work()
	got := w.counter.Requests()
	// the last ones are concurrent, in any order
	if len(got) >= roundTrips && len(want) >= roundTrips && roundTrips > 0 {
		slices.Sort(got[roundTrips-1:])
		slices.Sort(want[roundTrips-1:])
	}
	if !slices.Equal(got, want) || w.counter.RoundTrips() != roundTrips {
		w.Errorf("%s: requests %v in %d round trips, want %v in %d", what, got, w.counter.RoundTrips(), want,
			roundTrips)
	}
}

const read, update, put, get, transact = "BatchGetItem", "UpdateItem", "PutItem", "GetItem", "TransactWriteItems"

// TestRequests checks the requests of each path, as listed in docs/dynamodb.md.
func TestRequests(t *testing.T) {
	t.Parallel()
	t.Run("one bucket", func(t *testing.T) {
		w := newCountedTable(t)
		take := func(d time.Duration, n int64, admitted bool) func() {
			return func() { consume(t, w.repo, d, chargeOf("alice", n), admitted) }
		}
		w.checkRequests("a brand-new bucket", 2, take(0, 1, true), read, put)
		w.checkRequests("warm, plain", 1, take(0, 1, true), update)
		w.checkRequests("warm, locked", 1, take(30*time.Second, 1, true), update)
		consume(t, w.other, 31*time.Second, chargeOf("alice", 59), true)
		w.checkRequests("an image that is stale", 2, take(50*time.Second, 10, true), update, update)
		w.checkRequests("cannot fit", 1, take(50*time.Second, 50, false), get)
		w.checkRequests("cannot fit, remembered", 0, take(50*time.Second, 50, false))
		w.checkRequests("does fit, though others were refused", 1, take(50*time.Second, 1, true), update)
		w.checkRequests("facts that are too old", 2, take(2*time.Minute, 1, true), read, update)
	})
	t.Run("a bucket that others made", func(t *testing.T) {
		w := newCountedTable(t)
		consume(t, w.other, 0, chargeOf("alice", 1), true)
		w.checkRequests("an unknown bucket", 2, func() {
			consume(t, w.repo, 0, chargeOf("alice", 1), true)
		}, read, update)
	})
	t.Run("limits that others changed", func(t *testing.T) {
		w := newCountedTable(t)
		take := func(repo *dynamo.Repository) func() {
			return func() { consume(t, repo, 0, chargeOf("alice", 1), true) }
		}
		take(w.repo)()
		setDefaults(t, w.other, limiter.PerMinute("rpm", 120))
		w.repo.Forget()
		w.checkRequests("an unknown bucket that has to follow", 3, take(w.repo), read, transactGet, update)
		setDefaults(t, w.other, perMinute60)
		take(w.other)()
		w.checkRequests("a bucket that others made follow", 3, take(w.repo), update, transactGet, update)
	})
	t.Run("cascade", func(t *testing.T) {
		w := newCountedTable(t)
		createChild(t, w.other, "key-1", "project")
		createChild(t, w.other, "key-2", "project")
		charge := func(entity string) func() {
			return func() { consume(t, w.repo, 0, chargeOf(entity, 1), true) }
		}
		w.checkRequests("both brand-new", 3, charge("key-1"), read, read, transact)
		w.checkRequests("both warm", 1, charge("key-1"), update, update)
		w.checkRequests("a brand-new child", 2, charge("key-2"), read, put, update)
		w.repo.Forget()
		w.checkRequests("everything unknown", 3, charge("key-1"), read, read, update, update)
	})
	t.Run("a deep tree", func(t *testing.T) {
		w := newCountedTable(t)
		must(t, w.other.SetConfig(t.Context(), limiter.Config{
			Scope: limiter.Scope{Entity: "org"}, Limits: []limiter.Limit{perMinute60},
		}, auditEvent("limits_set")))
		for id, parent := range map[string]string{"key": "project", "project": "team", "team": "org"} {
			must(t, w.other.CreateEntity(t.Context(), limiter.Entity{
				ID: id, Name: id, Parent: parent, Cascade: true, CreatedAt: start, Generation: 1,
			}, auditEvent("entity_created")))
		}
		charge := func() { consume(t, w.repo, 0, chargeOf("key", 1), true) }
		// team has no limits of its own, so it has no bucket to be read or written.
		w.checkRequests("all brand-new", 5, charge, read, read, read, read, transact)

		// Once a second, its switches are read.
		for range 40 {
			w.counter.Reset()
			if charge(); slices.Equal(w.counter.Requests(), []string{update, update, update}) {
				return
			}
		}
		t.Errorf("no warm charge costs a write for each level that pays; the last one made %v", w.counter.Requests())
	})
	t.Run("what is settled later", func(t *testing.T) {
		w := newCountedTable(t)
		createChild(t, w.other, "key-1", "project")
		lim, err := limiter.New(w.repo, &limiter.Options{Now: func() time.Time { return start }})
		must(t, err)
		acquire := func() *limiter.Lease {
			lease, err := lim.Acquire(t.Context(), limiter.Request{
				Entity: "key-1", Resource: model, Consume: limiter.Tokens("rpm", 2),
			})
			must(t, err)
			return lease
		}
		end := func(lease *limiter.Lease, adjust int64, how func(*limiter.Lease, context.Context) error) func() {
			return func() { must(t, errors.Join(lease.Adjust(limiter.Tokens("rpm", adjust)), how(lease, t.Context()))) }
		}
		w.checkRequests("commit without change", 0, end(acquire(), 0, (*limiter.Lease).Commit))
		w.checkRequests("commit of more", 1, end(acquire(), 1, (*limiter.Lease).Commit), update, update)
		w.checkRequests("commit of less", 1, end(acquire(), -1, (*limiter.Lease).Commit), update, update)
		w.checkRequests("rollback", 1, end(acquire(), 0, (*limiter.Lease).Rollback), transact, transact)
	})
}

// A failed conditional write is billed, so refusals must not hammer the table:
// here 100 calls a second at a limit of 5.
func TestRefusalsAreCheap(t *testing.T) {
	t.Parallel()
	w := newCountedTable(t)
	setDefaults(t, w.other, limiter.PerSecond("rpm", 5))
	refusals, writes, requests := 0, 0, 0
	for i := range 1000 {
		w.counter.Reset()
		out, err := w.repo.Consume(t.Context(), at(time.Duration(i)*10*time.Millisecond), chargeOf("alice", 1))
		must(t, err)
		if out.Admitted {
			continue
		}
		refusals++
		requests += len(w.counter.Requests())
		for _, op := range w.counter.Requests() {
			if op != read && op != get {
				writes++
			}
		}
	}
	t.Logf("%d refused, by %d requests with %d writes; %d refused locally", refusals, requests, writes,
		w.repo.Stats().LocalRejections)
	if refusals < 900 || float64(writes)/float64(refusals) > 0.13 || float64(requests)/float64(refusals) > 0.13 {
		t.Errorf("%d refusals took %d requests with %d writes; want at most 0.13 each", refusals, requests, writes)
	}
}
