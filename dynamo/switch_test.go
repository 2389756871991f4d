package dynamo_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// disable turns a level off.
func disable(tb testing.TB, repo limiter.Repository, of limiter.Scope) {
	tb.Helper()
	ev := auditEvent("disabled")
	ev.ID = rand.Text() // copies differ by it
	must(tb, repo.SetSwitch(context.Background(), limiter.Switch{Scope: of, Reason: "leaked", Since: start}, ev))
}

// enable turns a level on.
func enable(tb testing.TB, repo limiter.Repository, of limiter.Scope) {
	tb.Helper()
	must(tb, repo.DeleteSwitch(context.Background(), of, auditEvent("enabled")))
}

// checkDisabled checks that a level refuses a charge.
func checkDisabled(tb testing.TB, repo limiter.Repository, d time.Duration, c limiter.Charge, of limiter.Scope) {
	tb.Helper()
	_, err := repo.Consume(context.Background(), at(d), c)
	want := limiter.DisabledError{Entity: c.Entity, Resource: c.Resource, Scope: of, Reason: "leaked", Since: start}
	off, ok := errors.AsType[*limiter.DisabledError](err)
	if !ok || *off != want {
		tb.Fatalf("Consume of %s at %v: error %v, want %v", c.Entity, d, err, &want)
	}
}

var (
	alice      = limiter.Scope{Entity: "alice"}
	aliceModel = limiter.Scope{Entity: "alice", Resource: model}
	wholeModel = limiter.Scope{Resource: model}
	everything = limiter.Scope{}
)

// modelBucket returns the bucket of alice and the model.
func (s *storedTable) modelBucket() map[string]types.AttributeValue {
	s.Helper()
	return s.Item("{ns}/ENTITY#alice", "#BUCKET#"+model)
}

// putCopy puts the copy of a switch on the bucket of alice and the model.
func (s *storedTable) putCopy(event string) {
	s.Helper()
	_, err := s.Client.UpdateItem(s.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.TableName, Key: s.Attributes("PK S {ns}/ENTITY#alice\nSK S #BUCKET#" + model),
		UpdateExpression: aws.String("SET #off = :off"), ExpressionAttributeNames: map[string]string{"#off": "off"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":off": &types.AttributeValueMemberM{
			Value: map[string]types.AttributeValue{"event": &types.AttributeValueMemberS{Value: event}},
		}},
	})
	s.Must(err)
}

// Each level refuses at once in the process that turned it off, and in another one
// at the latest when its cache expires. Both admit again within a second.
func TestSwitchLevels(t *testing.T) {
	t.Parallel()
	for _, of := range []limiter.Scope{aliceModel, alice, wholeModel, everything} {
		t.Run(of.Level(), func(t *testing.T) {
			w := newCountedTable(t)
			consume(t, w.repo, 0, chargeOf("alice", 1), true)
			consume(t, w.other, 0, chargeOf("alice", 1), true)
			disable(t, w.other, of)
			checkDisabled(t, w.other, 0, chargeOf("alice", 1), of)
			checkDisabled(t, w.repo, time.Minute, chargeOf("alice", 1), of)
			checkDisabled(t, w.repo, time.Minute,
				limiter.Charge{
					Entity: "alice", Resource: model, Amounts: limiter.Tokens("rpm", 1),
					Limits: []limiter.Limit{perMinute60},
				},
				of)
			checkDisabled(t, w.repo, time.Minute,
				limiter.Charge{Entity: "alice", Resource: model, Amounts: limiter.Tokens("unknown", 1)}, of)
			if _, err := w.repo.Peek(
				t.Context(), at(time.Minute), chargeOf("alice", 1),
			); !isError[*limiter.DisabledError](err) {
				t.Errorf("Peek returns %v, want *limiter.DisabledError", err)
			}
			if got := dynamotest.Collect(t, w.repo.Switches(t.Context())); !slices.Equal(got, []limiter.Switch{
				{Scope: of, Reason: "leaked", Since: start},
			}) {
				t.Errorf("the switches are %v", got)
			}
			enable(t, w.other, of)
			consume(t, w.other, time.Minute, chargeOf("alice", 1), true)
			consume(t, w.repo, time.Minute+time.Second, chargeOf("alice", 1), true)
			if err := w.other.DeleteSwitch(
				t.Context(), of, auditEvent("enabled"),
			); !errors.Is(err, limiter.ErrNotFound) {
				t.Errorf("the second DeleteSwitch returns %v, want limiter.ErrNotFound", err)
			}
		})
	}
}

// A level that does not concern a charge does not refuse it.
func TestSwitchOfOthers(t *testing.T) {
	t.Parallel()
	w := newCountedTable(t)
	for _, of := range []limiter.Scope{{Entity: "bob"}, {Entity: "alice", Resource: "other"}, {Resource: "other"}} {
		disable(t, w.other, of)
	}
	consume(t, w.repo, 0, chargeOf("alice", 1), true)
	want := []string{"resource other", "entity alice and resource other", "entity bob"}
	var got []string
	for _, s := range dynamotest.Collect(t, w.repo.Switches(t.Context())) {
		got = append(got, s.Scope.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the switches are %q, want %q", got, want)
	}
}

// The copy on a bucket makes a switch of an entity immediate for a process with
// older facts, for one write and one read. Further calls cost nothing for a second.
func TestSwitchIsImmediateOnABucket(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]limiter.Limit{
		"stored limits": nil, "limits of the call": {limiter.PerMinute("rpm", 30)},
	} {
		for _, of := range []limiter.Scope{alice, aliceModel} {
			t.Run(name+", "+of.Level(), func(t *testing.T) {
				w := newCountedTable(t)
				charge := chargeOf("alice", 1)
				charge.Limits = limits
				full := perMinute60.Capacity * 1000
				if limits != nil {
					full = limits[0].Capacity * 1000
				}
				consume(t, w.repo, 0, charge, true)
				disable(t, w.other, of)
				refused := func(d time.Duration) func() { return func() { checkDisabled(t, w.repo, d, charge, of) } }
				w.checkRequests("the first charge", 2, refused(0), update, transactGet)
				w.checkRequests("the second charge", 0, refused(500*time.Millisecond))
				w.checkRequests("a charge a second later", 1, refused(time.Second), read)
				enable(t, w.other, of)
				w.checkRequests("a charge while the switch is remembered", 0, refused(1500*time.Millisecond))
				w.checkRequests("a charge that reads the switch", 3, func() {
					consume(t, w.repo, 2*time.Second, charge, true)
				}, read, transactGet, update)
				w.checkRequests("a warm charge", 1, func() { consume(t, w.repo, 2*time.Second, charge, true) }, update)
				if out, err := w.other.Peek(
					t.Context(), at(2*time.Second), chargeOf("alice", 0),
				); err != nil || out.Payers[0].Tokens[0] != full-2_000 {
					t.Errorf("the bucket holds %v (%v): the refused charges took something", out.Payers[0].Tokens, err)
				}
			})
		}
	}
}

// A process with older facts reads the switches before it creates a bucket.
func TestSwitchHoldsForNewBuckets(t *testing.T) {
	t.Parallel()
	for _, of := range []limiter.Scope{alice, aliceModel, wholeModel, everything} {
		t.Run(of.Level(), func(t *testing.T) {
			w := newCountedTable(t)
			w.repo.StopClock()
			if _, err := w.repo.Consume(t.Context(), start, limiter.Charge{
				Entity: "alice", Resource: model, Amounts: limiter.Tokens("unknown", 1),
			}); err == nil {
				t.Fatal("no error")
			}
			disable(t, w.other, of)
			w.checkRequests("a charge of a new bucket", 1, func() {
				checkDisabled(t, w.repo, 0, chargeOf("alice", 1), of)
			}, read)
			w.checkRequests("one more", 1, func() { checkDisabled(t, w.repo, 0, chargeOf("alice", 1), of) }, read)
			w.checkRequests("one that remembers the switch", 0, func() {
				checkDisabled(t, w.repo, 0, chargeOf("alice", 1), of)
			})
		})
	}
}

// A parent that is off refuses its children and takes nothing from them.
func TestSwitchOfAParent(t *testing.T) {
	t.Parallel()
	w := newCountedTable(t)
	createChild(t, w.other, "alice", "project")
	consume(t, w.repo, 0, chargeOf("alice", 10), true)
	off := limiter.Scope{Entity: "project"}
	disable(t, w.other, off)
	checkDisabled(t, w.repo, 0, chargeOf("alice", 10), off)
	must(t, w.repo.Close())
	enable(t, w.other, off)
	if out := consume(
		t, w.other, 0, chargeOf("alice", 0), true,
	); out.Payers[0].Tokens[0] != 50_000 || out.Payers[1].Tokens[0] != 50_000 {
		t.Errorf("child and parent hold %v and %v, want 50000", out.Payers[0].Tokens, out.Payers[1].Tokens)
	}
	disable(t, w.other, off)
	disable(t, w.other, aliceModel)
	checkDisabled(t, w.other, 0, chargeOf("alice", 10), aliceModel)
}

// The parent's switch comes before the missing limits of the child.
func TestSwitchOfAParentPrecedesMissingLimits(t *testing.T) {
	t.Parallel()
	w := newCountedTable(t)
	createChild(t, w.other, "alice", "project")
	off := limiter.Scope{Entity: "project"}
	disable(t, w.other, off)
	checkDisabled(t, w.repo, 0,
		limiter.Charge{Entity: "alice", Resource: "none", Amounts: limiter.Tokens("rpm", 1)}, off)
}

// Disable commits while a charge is on its way to the table.
func TestSwitchOvertakesACharge(t *testing.T) {
	t.Parallel()
	for kind, opts := range bothModes {
		for what, d := range map[string]time.Duration{"plain": 0, "locked": 30 * time.Second} {
			t.Run(kind+", "+what, func(t *testing.T) {
				s := newFaultyTable(t)
				repo := s.connectOnce(opts)
				consume(t, repo, 0, chargeOf("alice", 10), true)
				f, held, goOn := holdRequest()
				s.proxy.SetPlan(dynamotest.First(1, update, f))
				failed := make(chan error, 1)
				go func() {
					_, err := repo.Consume(context.Background(), at(d), chargeOf("alice", 10))
					failed <- err
				}()
				<-held
				disable(t, s.steady, alice)
				close(goOn)
				if err := <-failed; !isError[*limiter.DisabledError](err) {
					t.Errorf("error %v, want *limiter.DisabledError", err)
				}
				enable(t, s.steady, alice)
				s.checkBalance(0, "alice", 50)
			})
		}
	}
}

// A copy without a switch costs a charge one read, and is removed by its write or,
// if it is refused, by a repair.
func TestStrayCopyIsRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		amount   int64
		override bool
		expired  bool
	}{
		"admitted": {amount: 1}, "refused": {amount: 70}, "override": {amount: 1, override: true},
		"expired": {amount: 1, expired: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStoredTable(t)
			setDefaults(t, s.Repo, perMinute60)
			consume(t, s.Repo, 0, chargeOf("alice", 1), true)
			s.putCopy("stray")
			charge := chargeOf("alice", c.amount)
			d := time.Second
			if c.override {
				charge.Limits = []limiter.Limit{limiter.PerMinute("rpm", 50)}
			}
			if c.expired {
				d = time.Hour
			}
			consume(t, s.Repo, d, charge, c.amount < 60)
			if it := s.modelBucket(); it["off"] != nil {
				t.Errorf("the bucket still has the copy %v", it["off"])
			}
			if c.amount < 60 {
				consume(t, s.Repo, d, charge, true)
			}
		})
	}
}

// A change of limits repairs a bucket that is off, and leaves the copy.
func TestRepairKeepsTheCopyOfASwitch(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	setDefaults(t, s.Repo, perMinute60)
	consume(t, s.Repo, 0, chargeOf("alice", 1), true)
	disable(t, s.Repo, alice)
	must(t,
		s.Repo.SetConfig(t.Context(),
			limiter.Config{Scope: aliceModel, Limits: []limiter.Limit{limiter.PerMinute("rpm", 90)}},
			auditEvent("limits_set")))
	it := s.modelBucket()
	if it["off"] == nil || dynamotest.FormatAttribute(it["b_rpm_cp"]) != "N 90000" {
		t.Errorf("the bucket has the copy %v and the capacity %v", it["off"],
			dynamotest.FormatAttribute(it["b_rpm_cp"]))
	}
}

// Enabling an entity keeps the copy of a resource that is off.
func TestCopiesFollowBothLevels(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	setDefaults(t, s.Repo, perMinute60)
	consume(t, s.Repo, 0, chargeOf("alice", 1), true)
	for _, step := range []struct {
		change func(testing.TB, limiter.Repository, limiter.Scope)
		of     limiter.Scope
		off    bool
	}{
		{disable, aliceModel, true},
		{disable, alice, true},
		{enable, alice, true},
		{enable, aliceModel, false},
		{disable, alice, true},
		{enable, alice, false},
	} {
		step.change(t, s.Repo, step.of)
		if got := s.modelBucket()["off"] != nil; got != step.off {
			t.Fatalf("after a change of %s the bucket has a copy: %v, want %v", step.of, got, step.off)
		}
	}
	if got := dynamotest.Collect(t, s.Repo.Switches(t.Context())); len(got) > 0 {
		t.Errorf("the switches are %v, want none", got)
	}
}

// A switch precedes a refusal by the other payer, also in a process whose facts are
// older than the switch.
func TestSwitchPrecedesARefusalOfTheOtherPayer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ off, empty string }{
		"the child is off":  {"alice", "project"},
		"the parent is off": {"project", "alice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := dynamotest.NewTable(t)
			admin, repo := dynamotest.Connect(t, table, nil), dynamotest.Connect(t, table, nil)
			setDefaults(t, admin, limiter.Quota("rpm", 10, limiter.EveryDay))
			createChild(t, admin, "alice", "project")
			small := limiter.Config{
				Scope:  limiter.Scope{Entity: test.empty, Resource: model},
				Limits: []limiter.Limit{limiter.Quota("rpm", 2, limiter.EveryDay)},
			}
			must(t, admin.SetConfig(t.Context(), small, auditEvent("limits_set")))
			consume(t, repo, 0, chargeOf("alice", 1), true)
			consume(t, repo, 0, chargeOf("alice", 5), false)
			disable(t, admin, limiter.Scope{Entity: test.off})
			checkDisabled(t, repo, 5*time.Second, chargeOf("alice", 5), limiter.Scope{Entity: test.off})
		})
	}
}

// A payer that has none of the limits of a charge writes nothing that would meet the
// copy of its switch. The switches of its entity are read at most once a second.
func TestSwitchOfAPayerThatPaysNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ pays, off string }{
		"the child is off":  {"project", "alice"},
		"the parent is off": {"alice", "project"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCountedTable(t)
			spend := limiter.Config{
				Scope:  limiter.Scope{Entity: test.pays, Resource: model},
				Limits: []limiter.Limit{limiter.Quota("spend", 100, limiter.EveryDay), perMinute60},
			}
			must(t, w.other.SetConfig(t.Context(), spend, auditEvent("limits_set")))
			createChild(t, w.other, "alice", "project")
			both, one := chargeNamed(limiter.Tokens("rpm", 1).And("spend", 1)), chargeNamed(limiter.Tokens("spend", 1))
			consume(t, w.repo, 0, both, true)
			charge := func(d time.Duration) func() { return func() { consume(t, w.repo, d, one, true) } }
			w.checkRequests("facts that were just read", 1, charge(0), update)
			w.checkRequests("facts of two seconds ago", 2, charge(2*time.Second), read, update)
			w.checkRequests("again", 1, charge(2*time.Second), update)
			w.checkRequests("a charge that both pay", 1, func() {
				consume(t, w.repo, 9*time.Second, both, true)
			}, update, update)
			disable(t, w.other, limiter.Scope{Entity: test.off})
			checkDisabled(t, w.repo, 10*time.Second, one, limiter.Scope{Entity: test.off})
		})
	}
}
