package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// Every fault of the transaction leaves switch, copy and event together, and a
// repetition finishes the work.
func TestSwitchFaults(t *testing.T) {
	for _, f := range []dynamotest.Fault{dynamotest.DropReply, dynamotest.ResetBefore, dynamotest.Fail500, dynamotest.Fail500After, dynamotest.Throttle, dynamotest.Conflict} {
		t.Run(f.Name, func(t *testing.T) {
			s := newFaultyTable(t)
			warmUp(s)
			s.proxy.SetPlan(dynamotest.First(1, transact, f))
			disable(t, s.repo, alice)
			checkDisabled(t, s.repo, 0, chargeOf("alice", 1), alice)
			checkDisabled(t, s.steady, 0, chargeOf("alice", 1), alice)
			s.proxy.SetPlan(dynamotest.First(1, transact, f))
			enable(t, s.repo, alice)
			s.checkBalance(0, "alice", 50)
			for name, repo := range map[string]*dynamo.Repository{"the same process": s.repo, "another one": s.steady} {
				if _, err := repo.Consume(t.Context(), at(time.Second), chargeOf("alice", 1)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// Buckets that are too busy for a transaction do not keep a level from being turned
// off and on.
func TestSwitchOfBusyBuckets(t *testing.T) {
	s := newFaultyTable(t)
	warmUp(s)
	consume(t, s.steady, 0, chargeOf("alice", 1), true)
	busy := dynamotest.Plan(func(op string, body []byte) dynamotest.Fault {
		if op == transact && bytes.Contains(body, []byte("#BUCKET#")) {
			return dynamotest.Conflict
		}
		return dynamotest.Pass
	})
	s.proxy.SetPlan(busy)
	disable(t, s.repo, alice)
	checkDisabled(t, s.repo, 0, chargeOf("alice", 1), alice)
	consume(t, s.steady, 0, chargeOf("alice", 1), true) // until its cache expires
	checkDisabled(t, s.steady, time.Minute, chargeOf("alice", 1), alice)
	s.proxy.SetPlan(nil)
	disable(t, s.repo, alice) // with the copy
	s.proxy.SetPlan(busy)
	enable(t, s.repo, alice) // without
	s.proxy.SetPlan(nil)
	consume(t, s.repo, time.Minute, chargeOf("alice", 1), true)
	consume(t, s.steady, 2*time.Minute, chargeOf("alice", 1), true)
}

// A transaction holds the copies of 98 buckets. The others follow when caches
// expire.
func TestSwitchOfManyBuckets(t *testing.T) {
	const buckets = 101
	w := newCountedTable(t)
	must(t, w.other.SetConfig(t.Context(), limiter.Config{Limits: []limiter.Limit{perMinute60}}, auditEvent("limits_set")))
	charge := func(i int) limiter.Charge {
		return limiter.Charge{Entity: "alice", Resource: fmt.Sprintf("model-%d", i), Amounts: limiter.Tokens("rpm", 1)}
	}
	for i := range buckets {
		consume(t, w.repo, time.Duration(i)*time.Millisecond, charge(i), true) // the first ones were refilled first
	}
	disable(t, w.other, alice)
	admitted := 0
	for i := range buckets {
		// The first refused write makes the process read the switches, so begin with the buckets without a copy.
		_, err := w.repo.Consume(t.Context(), at(time.Second), charge(i))
		switch {
		case err == nil:
			admitted++
		case !isError[*limiter.DisabledError](err):
			t.Fatal(err)
		}
	}
	if admitted != buckets-98 {
		t.Errorf("%d buckets admit a charge until the cache expires, want %d", admitted, buckets-98)
	}
	enable(t, w.other, alice)
	for i := range buckets {
		consume(t, w.repo, 2*time.Second, charge(i), true)
	}
}

// In an outage the last seen switches hold, also if the cache has lost them, and
// also with Allow.
func TestSwitchInAnOutage(t *testing.T) {
	s := newFaultyTable(t)
	createChild(t, s.steady, "key", "project")
	for _, entity := range []string{"alice", "key"} {
		consume(t, s.repo, 0, chargeOf(entity, 1), true)
	}
	project := limiter.Scope{Entity: "project"}
	disable(t, s.steady, alice)
	disable(t, s.steady, project)
	checkDisabled(t, s.repo, 0, chargeOf("alice", 1), alice)
	checkDisabled(t, s.repo, 0, chargeOf("key", 1), project)
	now := start
	lim, err := limiter.New(s.repo, &limiter.Options{OnUnavailable: limiter.Allow, Now: func() time.Time { return now }})
	must(t, err)
	check := func(when string) {
		t.Helper()
		for entity, of := range map[string]limiter.Scope{"alice": alice, "key": project} {
			_, err := lim.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: model, Consume: limiter.Tokens("rpm", 1)})
			if off, ok := errors.AsType[*limiter.DisabledError](err); !ok || off.Scope != of {
				t.Errorf("%s, Acquire of %s returns %v, want a *limiter.DisabledError of %s", when, entity, err, of)
			}
		}
	}
	s.proxy.SetPlan(dynamotest.Always(dynamotest.ResetBefore))
	check("at once")
	now = at(time.Hour)
	check("after an hour")
	s.repo.Forget()
	check("without a cache")
	if off := s.repo.LastSwitch("bob", model); off != nil {
		t.Errorf("the last switch of bob is %v, want none", off)
	}
	s.proxy.SetPlan(nil)
	enable(t, s.repo, alice)
	enable(t, s.repo, project)
	for _, entity := range []string{"alice", "key"} {
		if off := s.repo.LastSwitch(entity, model); off != nil {
			t.Errorf("after Enable the last switch of %s is %v, want none", entity, off)
		}
	}
}

// A level that this process turned off is known in an outage that begins before
// the next charge.
func TestSwitchSetBeforeAnOutage(t *testing.T) {
	s := newFaultyTable(t)
	disable(t, s.repo, alice)
	s.proxy.SetPlan(dynamotest.Always(dynamotest.ResetBefore))
	if off := s.repo.LastSwitch("alice", model); off == nil || off.Scope != alice {
		t.Errorf("the last switch is %v, want that of %s", off, alice)
	}
}

// A lease of a level that is off settles.
func TestSwitchLetsLeasesSettle(t *testing.T) {
	s := newFaultyTable(t)
	lease := warmUp(s)
	disable(t, s.steady, alice)
	must(t, s.repo.Credit(context.Background(), start,
		limiter.Credit{Account: lease, Amounts: limiter.Tokens("rpm", -5)}, limiter.Credit{Account: lease, Amounts: limiter.Tokens("rpm", 10), Undo: true}))
	enable(t, s.steady, alice)
	s.checkBalance(0, "alice", 55)
}

// A switch outlives its entity, and goes with its namespace.
func TestSwitchOutlivesItsEntity(t *testing.T) {
	s := newStoredTable(t)
	setDefaults(t, s.Repo, perMinute60)
	s.CreateEntity(limiter.Entity{ID: "alice"})
	consume(t, s.Repo, 0, chargeOf("alice", 1), true)
	disable(t, s.Repo, aliceModel)
	disable(t, s.Repo, everything)
	must(t, s.Repo.DeleteEntity(t.Context(), "alice", s.Event("entity_deleted", "alice", "")))
	checkDisabled(t, s.Repo, 0, chargeOf("alice", 1), aliceModel)
	if err := s.Repo.DeleteEntity(t.Context(), "alice", s.Event("entity_deleted", "alice", "")); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("the second DeleteEntity returns %v, want limiter.ErrNotFound", err)
	}
	s.CheckItem("{ns}/ENTITY#alice", "#SWITCH", `
		GSI3PK S {ns}/SWITCH#
		GSI3SK S alice
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#alice
		entity_id S alice
		l_off_resources M {gpt-4 M {reason S leaked; since S 2026-03-14T15:09:26Z}}`)
	s.CheckItem("{ns}/SYSTEM#", "#SWITCH", `
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#
		l_off M {reason S leaked; since S 2026-03-14T15:09:26Z}`)
	must(t, s.Repo.DeleteNamespace(t.Context(), start, "default"))
	must(t, s.Repo.PurgeNamespace(t.Context(), s.NS))
	for _, pk := range []string{"{ns}/ENTITY#alice", "{ns}/SYSTEM#"} {
		s.CheckNoItem(pk, "#SWITCH")
	}
	if off := s.Repo.LastSwitch("alice", model); off != nil {
		t.Errorf("after the purge the last switch is %v", off)
	}
}
