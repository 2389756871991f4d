package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// Every fault of the transaction leaves switch and event together, one of a mark
// is repeated, and a repetition finishes the work.
func TestSwitchFaults(t *testing.T) {
	t.Parallel()
	for _, op := range []string{transact, update} {
		for _, f := range []dynamotest.Fault{
			dynamotest.DropReply, dynamotest.ResetBefore, dynamotest.Fail500, dynamotest.Fail500After,
			dynamotest.Throttle, dynamotest.Conflict,
		} {
			t.Run(op+", "+f.Name, func(t *testing.T) {
				s := newFaultyTable(t)
				warmUp(s)
				s.proxy.SetPlan(dynamotest.First(1, op, f))
				disable(t, s.repo, alice)
				checkDisabled(t, s.repo, 0, chargeOf("alice", 1), alice)
				checkDisabled(t, s.steady, 0, chargeOf("alice", 1), alice)
				s.proxy.SetPlan(dynamotest.First(1, op, f))
				enable(t, s.repo, alice)
				s.checkBalance(0, "alice", 50)
				for name, repo := range map[string]*dynamo.Repository{
					"the same process": s.repo, "another one": s.steady,
				} {
					if _, err := repo.Consume(t.Context(), at(time.Second), chargeOf("alice", 1)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
	}
}

// A bucket that throttles or conflicts is marked all the same.
func TestSwitchMarksBusyBuckets(t *testing.T) {
	t.Parallel()
	for _, f := range []dynamotest.Fault{dynamotest.Throttle, dynamotest.Conflict} {
		t.Run(f.Name, func(t *testing.T) {
			s := newFaultyTable(t)
			warmUp(s)
			consume(t, s.steady, 0, chargeOf("alice", 1), true)
			s.proxy.SetPlan(dynamotest.First(12, update, f)) // more than the retries of one pass
			disable(t, s.repo, alice)
			checkDisabled(t, s.steady, 0, chargeOf("alice", 1), alice)
		})
	}
}

// If buckets cannot be marked before the caller leaves, the error says so, and the
// switch is stored. Repeating the call marks them.
func TestSwitchThatCannotMark(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	warmUp(s)
	consume(t, s.steady, 0, chargeOf("alice", 1), true)
	ctx, cancel := context.WithCancel(t.Context())
	var marks atomic.Int64
	s.proxy.SetPlan(dynamotest.First(1<<30, update, dynamotest.Fault{
		Name: "throttle",
		Act: func(x *dynamotest.Exchange) {
			if marks.Add(1) == 10 {
				cancel()
			}
			dynamotest.Throttle.Act(x)
		},
	}))
	lim, err := limiter.New(s.repo, nil)
	must(t, err)
	err = lim.Disable(ctx, alice, "leaked")
	late, ok := errors.AsType[*limiter.SwitchDelayedError](err)
	if !ok || late.Scope != alice || !slices.Equal(late.Resources, []string{model}) || late.Within != time.Minute ||
		late.Err == nil {
		t.Fatalf("Disable returns %v, want a *limiter.SwitchDelayedError about %s", err, model)
	}
	if got := dynamotest.Collect(t, s.repo.Switches(t.Context())); len(got) != 1 || got[0].Scope != alice {
		t.Errorf("the switches are %v, want that of %s", got, alice)
	}
	if _, err := s.repo.Consume(t.Context(), start, chargeOf("alice", 1)); !isError[*limiter.DisabledError](err) {
		t.Errorf("in the same process: %v, want *limiter.DisabledError", err)
	}
	consume(t, s.steady, 0, chargeOf("alice", 1), true) // until its cache expires
	s.proxy.SetPlan(nil)
	disable(t, s.repo, alice)
	if _, err := s.steady.Consume(t.Context(), start, chargeOf("alice", 1)); !isError[*limiter.DisabledError](err) {
		t.Errorf("in another process: %v, want *limiter.DisabledError", err)
	}
}

// A caller that is cancelled after the switch was stored learns of it.
func TestSwitchOfACallerThatLeft(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	warmUp(s)
	ctx, cancel := context.WithCancel(t.Context())
	s.proxy.SetPlan(dynamotest.First(1<<30, update, dynamotest.Fault{Name: "leave", Act: func(x *dynamotest.Exchange) {
		cancel()
		dynamotest.Throttle.Act(x)
	}}))
	lim, err := limiter.New(s.repo, nil)
	must(t, err)
	if err := lim.Disable(ctx, alice, "leaked"); !isError[*limiter.SwitchDelayedError](err) {
		t.Errorf("Disable returns %v, want *limiter.SwitchDelayedError", err)
	}
}

// Another process hammers the bucket while it throttles every other mark. No charge
// that begins after Disable has returned is admitted.
func TestSwitchStopsAHammeredBucket(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	setDefaults(t, s.steady, limiter.PerMinute("rpm", 1_000_000))
	warmUp(s)
	var marks atomic.Int64
	s.proxy.SetPlan(func(op string, _ []byte) dynamotest.Fault {
		if op == update && marks.Add(1) < 10 {
			return dynamotest.Throttle
		}
		return dynamotest.Pass
	})
	var disabled atomic.Bool
	var before, after atomic.Int64
	stop := make(chan struct{})
	var hammers sync.WaitGroup
	for range 4 {
		hammers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				late := disabled.Load()
				_, err := s.steady.Consume(context.Background(), start, chargeOf("alice", 1))
				switch {
				case err == nil && late:
					after.Add(1)
				case err == nil:
					before.Add(1)
				case !isError[*limiter.DisabledError](err):
					t.Error(err)
				}
			}
		})
	}
	for before.Load() == 0 {
		runtime.Gosched()
	}
	disable(t, s.repo, alice)
	disabled.Store(true)
	checkDisabled(t, s.steady, 0, chargeOf("alice", 1), alice)
	close(stop)
	hammers.Wait()
	if n := after.Load(); n != 0 {
		t.Errorf("%d charges are admitted after Disable, %d before", n, before.Load())
	}
}

// The creation of a bucket is on its way while its entity is disabled. SetSwitch
// finds no bucket, goes on looking, and marks it.
func TestSwitchMarksABucketThatAppears(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	f, held, goOn := holdRequest()
	s.proxy.SetPlan(dynamotest.First(1, put, f))
	out := startCharge(t, s.repo, 0, 1)
	<-held
	looked, admitted := make(chan struct{}), make(chan struct{})
	network := dynamotest.NewProxy(t, nil)
	patient := dynamotest.Connect(t, s.table, &dynamo.Options{
		AWS: dynamotest.Config(network.URL), SwitchWait: time.Second,
	})
	network.SetPlan(dynamotest.First(1, "Query", dynamotest.Fault{Name: "heldAfter", Act: func(x *dynamotest.Exchange) {
		reply := x.Execute(x.Body)
		close(looked)
		<-admitted
		x.Answer(reply)
	}}))
	done := make(chan error, 1)
	go func() {
		done <- patient.SetSwitch(t.Context(), limiter.Switch{Scope: alice, Reason: "leaked", Since: start},
			auditEvent("disabled"))
	}()
	<-looked

	close(goOn)
	if !(<-out).Admitted {
		t.Error("the charge on its way is refused")
	}
	close(admitted)
	must(t, <-done)
	checkDisabled(t, s.repo, 0, chargeOf("alice", 1), alice) // its facts are older than the switch
}

// A caller that is cancelled while SetSwitch looks for more buckets learns that it
// was not done.
func TestSwitchOfACallerThatLeftEarly(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	ctx, cancel := context.WithCancel(t.Context())
	network := dynamotest.NewProxy(t, nil)
	patient := dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(network.URL), SwitchWait: time.Hour})
	network.SetPlan(dynamotest.First(1, "Query", dynamotest.Fault{Name: "leave", Act: func(x *dynamotest.Exchange) {
		x.Answer(x.Execute(x.Body))
		cancel()
	}}))
	err := patient.SetSwitch(ctx, limiter.Switch{Scope: alice, Reason: "leaked", Since: start}, auditEvent("disabled"))
	if !isError[*limiter.SwitchDelayedError](err) {
		t.Errorf("SetSwitch returns %v, want *limiter.SwitchDelayedError", err)
	}
}

// One process enables a level. Before it removes the copies, another one disables
// the level again: its mark stays.
func TestEnableLeavesALaterMark(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	warmUp(s)
	third := dynamotest.Connect(t, s.table, nil)
	consume(t, third, 0, chargeOf("alice", 1), true)
	disable(t, s.steady, alice)
	f, held, goOn := holdRequest()
	s.proxy.SetPlan(dynamotest.First(1, update, f))
	done := make(chan struct{})
	go func() {
		defer close(done)
		enable(t, s.repo, alice)
	}()
	<-held
	disable(t, s.steady, alice)
	close(goOn)
	<-done
	checkDisabled(t, third, 0, chargeOf("alice", 1), alice)
}

// One process disables a level. Before it marks the bucket, another one enables the
// level: the first returns, and the bucket admits.
func TestEnableOvertakesAMark(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	warmUp(s)
	f, held, goOn := holdRequest()
	s.proxy.SetPlan(dynamotest.First(1, update, f))
	done := make(chan struct{})
	go func() {
		defer close(done)
		disable(t, s.repo, alice)
	}()
	<-held
	enable(t, s.steady, alice)
	close(goOn)
	<-done
	for _, repo := range []*dynamo.Repository{s.steady, s.repo} {
		consume(t, repo, 2*time.Second, chargeOf("alice", 1), true)
	}
}

// A table that throttles does not keep a level from being enabled: charges remove
// the copies that are left.
func TestEnableOfBusyBuckets(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	warmUp(s)
	disable(t, s.repo, alice)
	s.proxy.SetPlan(dynamotest.First(1<<30, update, dynamotest.Throttle))
	enable(t, s.repo, alice)
	s.proxy.SetPlan(nil)
	consume(t, s.repo, 0, chargeOf("alice", 1), true)
	consume(t, s.steady, 2*time.Second, chargeOf("alice", 1), true)
}

// All buckets of an entity are marked, however many there are.
func TestSwitchOfManyBuckets(t *testing.T) {
	t.Parallel()
	const buckets = 130
	s := newFaultyTable(t)
	must(t,
		s.steady.SetConfig(t.Context(), limiter.Config{Limits: []limiter.Limit{perMinute60}}, auditEvent("limits_set")))
	charge := func(i int) limiter.Charge {
		return limiter.Charge{Entity: "alice", Resource: fmt.Sprintf("model-%d", i), Amounts: limiter.Tokens("rpm", 1)}
	}
	for i := range buckets {
		consume(t, s.repo, time.Duration(i)*time.Millisecond, charge(i), true)
	}
	disable(t, s.steady, alice)
	table := dynamotest.Client(t)
	out, err := table.Query(t.Context(), &dynamodb.QueryInput{
		TableName: &s.table, KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
		FilterExpression:         aws.String("attribute_not_exists(#off)"),
		ExpressionAttributeNames: map[string]string{"#off": "off"},
		ExpressionAttributeValues: dynamotest.Item{
			":pk": &types.AttributeValueMemberS{Value: s.repo.NamespaceID() + "/ENTITY#alice"},
			":sk": &types.AttributeValueMemberS{Value: "#BUCKET#"},
		},
	})
	must(t, err)
	if len(out.Items) > 0 {
		t.Errorf("%d buckets are not marked", len(out.Items))
	}
	enable(t, s.steady, alice)
	for i := range buckets {
		consume(t, s.repo, 2*time.Second, charge(i), true)
	}
}

// In an outage the last seen switches hold, also if the cache has lost them, and
// also with Allow.
func TestSwitchInAnOutage(t *testing.T) {
	t.Parallel()
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
	lim, err := limiter.New(s.repo, &limiter.Options{OnUnavailable: limiter.Allow, Now: func() time.Time {
		return now
	}})
	must(t, err)
	check := func(when string) {
		t.Helper()
		for entity, of := range map[string]limiter.Scope{"alice": alice, "key": project} {
			_, err := lim.Acquire(t.Context(), limiter.Request{
				Entity: entity, Resource: model, Consume: limiter.Tokens("rpm", 1),
			})
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
	t.Parallel()
	s := newFaultyTable(t)
	disable(t, s.repo, alice)
	s.proxy.SetPlan(dynamotest.Always(dynamotest.ResetBefore))
	if off := s.repo.LastSwitch("alice", model); off == nil || off.Scope != alice {
		t.Errorf("the last switch is %v, want that of %s", off, alice)
	}
}

// A lease of a level that is off settles.
func TestSwitchLetsLeasesSettle(t *testing.T) {
	t.Parallel()
	s := newFaultyTable(t)
	lease := warmUp(s)
	disable(t, s.steady, alice)
	must(t, s.repo.Credit(context.Background(), start,
		limiter.Credit{Account: lease, Amounts: limiter.Tokens("rpm", -5)},
		limiter.Credit{Account: lease, Amounts: limiter.Tokens("rpm", 10), Undo: true}))
	enable(t, s.steady, alice)
	s.checkBalance(0, "alice", 55)
}

// A switch outlives its entity, and goes with its namespace.
func TestSwitchOutlivesItsEntity(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	setDefaults(t, s.Repo, perMinute60)
	s.CreateEntity(limiter.Entity{ID: "alice"})
	consume(t, s.Repo, 0, chargeOf("alice", 1), true)
	disable(t, s.Repo, aliceModel)
	disable(t, s.Repo, everything)
	must(t, s.Repo.DeleteEntity(t.Context(), "alice", s.Event("entity_deleted", "alice", "")))
	checkDisabled(t, s.Repo, 0, chargeOf("alice", 1), aliceModel)
	if err := s.Repo.DeleteEntity(
		t.Context(), "alice", s.Event("entity_deleted", "alice", ""),
	); !errors.Is(err, limiter.ErrNotFound) {
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
