package dynamo_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// reset returns the reset of alice's bucket.
func reset(limits ...string) limiter.Fill {
	return limiter.Fill{Entity: "alice", Resource: model, Limits: limits}
}

// topUp returns a top-up of alice's bucket.
func topUp(n int64, id string) limiter.Fill {
	return limiter.Fill{Entity: "alice", Resource: model, Amounts: limiter.Tokens("rpm", n), ID: id}
}

// fill makes a fill with an event of its own.
func fill(repo limiter.Repository, d time.Duration, f limiter.Fill) (bool, error) {
	ev := auditEvent("filled")
	ev.ID, ev.Entity = rand.Text(), "alice"
	return repo.Fill(context.Background(), at(d), f, ev)
}

// fills returns how many fills of alice are in the audit trail.
func (s *faultyTable) fills() (n int) {
	s.Helper()
	for ev, err := range s.steady.AuditEvents(context.Background(), "alice", "") {
		must(s, err)
		if ev.Action == "filled" {
			n++
		}
	}
	return n
}

var everyFault = []dynamotest.Fault{
	dynamotest.DropReply, dynamotest.ResetBefore, dynamotest.Fail500, dynamotest.Fail500After,
	dynamotest.Throttle, dynamotest.Conflict,
}

// A fault of the transaction neither loses nor doubles a fill.
func TestFillFaults(t *testing.T) {
	t.Parallel()
	for _, f := range everyFault {
		for name, c := range map[string]struct {
			fill limiter.Fill
			want int64
		}{"reset": {reset(), 60}, "top-up": {topUp(20, "a"), 30}} {
			t.Run(name+" "+f.Name, func(t *testing.T) {
				s := newFaultyTable(t)
				consume(t, s.repo, 0, chargeOf("alice", 50), true)
				s.proxy.SetPlan(dynamotest.First(1, transact, f))
				if done, err := fill(s.repo, 0, c.fill); err != nil || !done {
					t.Fatalf("Fill returns %v, %v", done, err)
				}
				if s.proxy.Count(f) != 1 {
					t.Fatal("the fault did not happen")
				}
				s.checkBalance(0, "alice", c.want)
				consume(t, s.repo, 0, chargeOf("alice", c.want), true)
				if n := s.fills(); n != 1 {
					t.Errorf("%d events, want 1", n)
				}
			})
		}
	}
}

// The result of a top-up stays unknown, and the caller repeats it.
func TestTopUpIsRepeatedAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, f := range []dynamotest.Fault{dynamotest.DropReply, dynamotest.ResetBefore} {
		t.Run(f.Name, func(t *testing.T) {
			s := newFaultyTable(t)
			consume(t, s.repo, 0, chargeOf("alice", 50), true)
			s.proxy.SetPlan(dynamotest.First(1000, transact, f))
			if done, err := fill(s.repo, 0, topUp(20, "a")); err == nil || done {
				t.Fatalf("Fill returns %v, %v, want an error", done, err)
			}
			s.proxy.SetPlan(nil)
			done, err := fill(s.repo, 0, topUp(20, "a"))
			must(t, err)
			if executed := f.Name == dynamotest.DropReply.Name; done == executed {
				t.Errorf("the repetition reports %v", done)
			}
			s.checkBalance(0, "alice", 30)
			if n := s.fills(); n != 1 {
				t.Errorf("%d events, want 1", n)
			}
		})
	}
}

// Others charge the bucket between the read and the write of a fill.
func TestFillMeetsCharges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fill limiter.Fill
		d    time.Duration // of the fill
		want int64         // of 60, after 50, 5 and the fill
	}{
		"reset, plain charge":          {reset(), 0, 60},
		"top-up, plain charge":         {topUp(20, "a"), 0, 25},
		"top-up to the capacity":       {topUp(52, "a"), 0, 57},
		"reset, locked charge":         {reset(), 5 * time.Second, 60},
		"top-up, locked charge":        {topUp(20, "a"), 5 * time.Second, 30},
		"top-up over the capacity":     {topUp(1000, "a"), 0, 60},
		"reset of another limit alone": {reset("tpd"), 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFaultyTable(t)
			setDefaults(t, s.steady, perMinute60, tenPerDay)
			consume(t, s.steady, 0, chargeOf("alice", 50), true)
			f, held, goOn := holdRequest()
			s.proxy.SetPlan(dynamotest.First(1, transact, f))
			result := make(chan error, 1)
			go func() {
				done, err := fill(s.repo, c.d, c.fill)
				if err == nil && !done {
					err = errors.New("not done")
				}
				result <- err
			}()
			<-held
			consume(t, s.steady, c.d, chargeOf("alice", 5), true)
			close(goOn)
			must(t, <-result)
			s.checkBalance(c.d, "alice", c.want)
		})
	}
}

// A quota gains as much as a rate.
func TestFillOfAQuotaMeetsCharges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fill limiter.Fill
		want int64 // of 60, after 50, 5 and the fill
	}{
		"reset": {reset(), 60}, "top-up": {topUp(20, "a"), 25}, "to the capacity": {topUp(52, "a"), 57},
		"over the capacity": {topUp(1000, "a"), 60},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFaultyTable(t)
			setDefaults(t, s.steady, limiter.Quota("rpm", 60, limiter.EveryDay))
			consume(t, s.steady, 0, chargeOf("alice", 50), true)
			f, held, goOn := holdRequest()
			s.proxy.SetPlan(dynamotest.First(1, transact, f))
			result := make(chan error, 1)
			go func() {
				_, err := fill(s.repo, 0, c.fill)
				result <- err
			}()
			<-held
			consume(t, s.steady, 0, chargeOf("alice", 5), true)
			close(goOn)
			must(t, <-result)
			s.checkBalance(0, "alice", c.want)
		})
	}
}

// Others create the bucket while a fill finds none.
func TestFillMeetsANewBucket(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	f, held, goOn := holdRequest()
	s.proxy.SetPlan(dynamotest.First(1, transact, f))
	result := make(chan error, 1)
	go func() {
		_, err := fill(s.repo, 0, topUp(20, "a"))
		result <- err
	}()
	<-held
	consume(t, s.steady, 0, chargeOf("alice", 50), true)
	close(goOn)
	must(t, <-result)
	s.checkBalance(0, "alice", 30)
}

// Many processes make the same top-ups while others charge. Each top-up counts
// once.
func TestTopUpsOfManyProcesses(t *testing.T) {
	t.Parallel()
	const ids, charges = 5, 20
	s := newFaultyTable(t)
	setDefaults(t, s.steady, limiter.PerDay("rpm", 1_000_000))
	consume(t, s.steady, 0, chargeOf("alice", 500_000), true)
	var done atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		repo := s.connectOnce(dynamo.Options{})
		wg.Go(func() {
			for i := range ids {
				ok, err := fill(repo, 0, topUp(1000, string(rune('a'+i))))
				if err != nil {
					t.Error(err)
				}
				if ok {
					done.Add(1)
				}
			}
		})
		wg.Go(func() {
			for range charges {
				if out, err := repo.Consume(
					context.Background(), start, chargeOf("alice", 1),
				); err != nil || !out.Admitted {
					t.Errorf("admitted %v, %v", out.Admitted, err)
				}
			}
		})
	}
	wg.Wait()
	if done.Load() != ids {
		t.Errorf("%d top-ups are carried out, want %d", done.Load(), ids)
	}
	s.checkBalance(0, "alice", 500_000+ids*1000-3*charges)
}

// A fill works on a level that is off, and leaves the copy of the switch.
func TestFillOfADisabledBucket(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	consume(t, s.repo, 0, chargeOf("alice", 50), true)
	disable(t, s.steady, alice)
	if done, err := fill(s.repo, 0, reset()); err != nil || !done {
		t.Fatalf("Fill returns %v, %v", done, err)
	}
	checkDisabled(t, s.repo, 0, chargeOf("alice", 1), alice)
	enable(t, s.steady, alice)
	s.checkBalance(0, "alice", 60)
}

// A fill ends the refusals that its process remembers.
func TestFillEndsRememberedRefusals(t *testing.T) {
	t.Parallel()
	w := newCountedTable(t)
	consume(t, w.repo, 0, chargeOf("alice", 60), true)
	consume(t, w.repo, 0, chargeOf("alice", 1), false)
	if done, err := fill(w.repo, 0, reset()); err != nil || !done {
		t.Fatalf("Fill returns %v, %v", done, err)
	}
	w.checkRequests("a charge after a reset", 1, func() { consume(t, w.repo, 0, chargeOf("alice", 60), true) }, update)
}

// The ID of a top-up is an item that expires.
func TestTopUpItem(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	setDefaults(t, s.Repo, perMinute60)
	done, err := s.Repo.Fill(t.Context(), start, topUp(20, "invoice-7"), auditEvent("bucket_topped_up"))
	if err != nil || !done {
		t.Fatalf("Fill returns %v, %v", done, err)
	}
	s.CheckItem("{ns}/ENTITY#alice", "#TOPUP#gpt-4#invoice-7", `
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#alice
		entity_id S alice
		resource S gpt-4
		event_id S 01JPCOUNT0000000000000000A
		until N 1773587366000
		ttl N 1773587366`)
	if err := s.Repo.DeleteEntity(
		t.Context(), "alice", s.Event("entity_deleted", "alice", ""),
	); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("DeleteEntity of an entity without data returns %v, want limiter.ErrNotFound", err)
	}
}
