package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// record returns the stream record of a bucket that changed from one image to
// another.
func record(sequence string, before, after map[string]types.AttributeValue) dynamo.StreamRecord {
	event := "MODIFY"
	if before == nil {
		event = "INSERT"
	}
	return dynamo.StreamRecord{Feed: "a", Sequence: sequence, Event: event, At: midnight, Old: before, New: after}
}

// 27 and D-10: the creation of a bucket counts, and so do give-backs.
func TestChangeIsWhatTheCountersMoved(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, perMinute)
	image := func() map[string]types.AttributeValue { return s.Item("{ns}/ENTITY#alice", "#BUCKET#gpt-4") }
	out, err := s.Repo.Consume(t.Context(), dynamotest.Dawn, limiter.Charge{
		Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens(perMinute.Name, 7),
	})
	s.Must(err)
	first := image()
	c, reason, ok := record("12", nil, first).Change()
	s.Equal("made "+reason, c.Used, map[string]int64{perMinute.Name: 7})
	s.Equal("position", c.Position, aggregator.Position{Feed: "a", Number: "0000000000000000000000000000000000000012"})
	s.Equal("bucket", c.Bucket, aggregator.ID{Namespace: s.NS, Entity: "alice", Resource: "gpt-4"})
	if !ok || c.State == nil || c.State.Tokens[0] != (perMinute.Capacity-7)*1000 ||
		!c.State.RefilledAt.Equal(dynamotest.Dawn) {
		t.Errorf("ok %t, state %+v", ok, c.State)
	}
	s.Must(s.Repo.Credit(t.Context(), dynamotest.Dawn, limiter.Credit{
		Account: out.Payers[0].Account, Amounts: limiter.Tokens(perMinute.Name, 3),
	}))
	c, reason, _ = record("13", first, image()).Change()
	s.Equal("given back "+reason, c.Used, map[string]int64{perMinute.Name: -3})
}

// aBucket is the image of a bucket whose limit name has every allowed kind of
// character.
const aBucket = "PK S n/ENTITY#alice\nSK S #BUCKET#gpt-4\nentity_id S alice\nrf N " +
	"1767323045000\nb_tok-ens.in_a_tc N 5000"

func TestRecordsThatAreNoChange(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	with := func(change func(*dynamo.StreamRecord)) dynamo.StreamRecord {
		r := record("1", nil, s.Attributes(aBucket))
		change(&r)
		return r
	}
	image := func(text string) dynamo.StreamRecord { return record("1", nil, s.Attributes(text)) }
	for name, c := range map[string]struct {
		record dynamo.StreamRecord
		reason string
	}{
		"a config":           {image("PK S n/SYSTEM#\nSK S #CONFIG"), ""},
		"nothing moved":      {record("1", s.Attributes(aBucket), s.Attributes(aBucket)), ""},
		"a bucket that went": {with(func(r *dynamo.StreamRecord) { r.Event, r.Old, r.New = "REMOVE", r.New, nil }), ""},
		"no image":           {record("1", nil, nil), "the record has no images"},
		"no old image": {with(func(r *dynamo.StreamRecord) {
			r.Event = "MODIFY"
		}), "the record has no old image; the stream must have new and old images"},
		"an unknown event": {with(func(r *dynamo.StreamRecord) { r.Event = "TRUNCATE" }), "the event is unknown"},
		"no number": {with(func(r *dynamo.StreamRecord) {
			r.Sequence = ""
		}), "the record has no position in a stream"},
		"no such number": {with(func(r *dynamo.StreamRecord) {
			r.Sequence = "12x"
		}), "the record has no position in a stream"},
		"no stream": {with(func(r *dynamo.StreamRecord) { r.Feed = "" }), "the record has no position in a stream"},
		"no time": {with(func(r *dynamo.StreamRecord) {
			r.At = time.Time{}
			delete(r.New, "rf")
		}), "the record has no time"},
		"no namespace": {
			image("PK S ENTITY#alice\nSK S #BUCKET#gpt-4\nentity_id S alice\nb_rpm_tc N 5"),
			"the table has no namespaces yet",
		},
		"no entity": {
			image("PK S n/ENTITY#alice\nSK S #BUCKET#gpt-4\nb_rpm_tc N 5000"), "the bucket has no entity_id",
		},
		"a counter is text": {
			image("PK S n/ENTITY#alice\nSK S #BUCKET#gpt-4\nentity_id S alice\nb_rpm_tc S x"),
			"corrupt data in item n/ENTITY#alice #BUCKET#gpt-4: b_rpm_tc is not a number",
		},
		"its old one was text": {
			record("1", s.Attributes("PK S n\nSK S k\nb_tok-ens.in_a_tc S x"), s.Attributes(aBucket)),
			"corrupt data in item n k: b_tok-ens.in_a_tc is not a number",
		},
	} {
		if change, reason, ok := c.record.Change(); ok || reason != c.reason {
			t.Errorf("%s: %+v, %q, %t", name, change, reason, ok)
		}
	}
}

// O-3: a change belongs to the window of its event, not of the last refill.
// Without a time of the event the refill time is the only one, and equal in
// every replay.
func TestChangeIsDatedByItsEvent(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	r := record("1", nil, s.Attributes(aBucket))
	c, reason, ok := r.Change()
	if !ok || !c.At.Equal(midnight) || c.Used["tok-ens.in_a"] != 5 {
		t.Errorf("%+v, %q", c, reason)
	}
	r.At = time.Time{}
	if c, _, _ := r.Change(); !c.At.Equal(time.UnixMilli(1767323045000)) {
		t.Errorf("without a time it is dated %v", c.At)
	}
}

// O-1: events are recognized by their sort key in every namespace.
func TestRemovedEventIsWhatWasStored(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	text := "PK S n/AUDIT#alice\nSK S #AUDIT#01JX\nentity_id S alice\naction S limits_set\nprincipal " +
		"NULL\nresource S gpt-4\ntimestamp S 2026-03-01T10:20:30Z"
	gone := func(change func(*dynamo.StreamRecord)) dynamo.StreamRecord {
		r := dynamo.StreamRecord{Event: "REMOVE", Expired: true, At: midnight, Old: s.Attributes(text)}
		change(&r)
		return r
	}
	at := time.Date(2026, time.March, 1, 10, 20, 30, 0, time.UTC)
	want := aggregator.Event{
		AuditEvent: limiter.AuditEvent{
			ID: "01JX", Entity: "alice", Action: "limits_set", Resource: "gpt-4", At: at,
		}, Namespace: "n", Expired: true,
	}
	e, reason, ok := gone(func(*dynamo.StreamRecord) {}).Removed()
	if diff := cmp.Diff(want, e); diff != "" || !ok {
		t.Errorf("%t, %q: %s", ok, reason, diff)
	}
	e, _, ok = gone(func(r *dynamo.StreamRecord) {
		r.Old["PK"] = &types.AttributeValueMemberS{Value: "AUDIT#alice"}
	}).Removed()
	if !ok || e.Namespace != "" {
		t.Errorf("of a table without namespaces: %t, %+v", ok, e)
	}
	e, _, ok = gone(func(r *dynamo.StreamRecord) {
		r.Old["timestamp"] = &types.AttributeValueMemberS{Value: "lately"}
	}).Removed()
	if !ok || !e.At.Equal(midnight) {
		t.Errorf("without a time that can be read: %t, %+v", ok, e)
	}
	for reason, change := range map[string]func(*dynamo.StreamRecord){
		"":                        func(r *dynamo.StreamRecord) { r.Event = "MODIFY" },
		"the event has no action": func(r *dynamo.StreamRecord) { delete(r.Old, "action") },
		"the event has no timestamp": func(r *dynamo.StreamRecord) {
			delete(r.Old, "timestamp")
			r.At = time.Time{}
		},
	} {
		if e, got, ok := gone(change).Removed(); ok || got != reason {
			t.Errorf("%+v, %q, %t; want %q", e, got, ok, reason)
		}
	}
}

// O-6, O-7, O-10: a limit may have any allowed name, a record is one event for
// any number of limits, and an empty bucket is refilled even if its accrual
// covers the next charge.
func TestBusyBucketIsCountedAndRefilled(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	limits := []limiter.Limit{limiter.PerMinute("tok-ens.in", 60), limiter.PerMinute("a.b-c_d", 600)}
	s.SetLimits(limiter.Scope{}, limits...)
	all := limiter.Tokens(limits[0].Name, 60).And(limits[1].Name, 600)
	_, err := s.Repo.Consume(t.Context(), dynamotest.Dawn, limiter.Charge{
		Entity: "alice", Resource: "gpt-4", Amounts: all,
	})
	s.Must(err)
	a, err := aggregator.New(s.Repo.UsageStore(0), &aggregator.Options{
		Windows: []limiter.Window{limiter.Hourly}, Now: func() time.Time {
			return dynamotest.Dawn.Add(30 * time.Second)
		},
	})
	s.Must(err)
	got := dynamo.Aggregate(t.Context(), a, []dynamo.StreamRecord{record("1", nil, s.bucketItem())})
	if got.Err != nil || got.Changes != 1 || got.Snapshots != 1 || got.Refills != 1 || got.Done != 1 {
		t.Errorf("got %+v", got)
	}
	s.Equal("usage", s.usage(limiter.UsageQuery{Entity: "alice"}), []string{
		"01T00 gpt-4 alice hourly map[a.b-c_d:600 tok-ens.in:60] 1",
	})
	s.Equal("tokens", s.state().Tokens, []int64{300_000, 30_000})
}

// The first failed record is the one to deliver again, whether the archive or
// the counters failed.
func TestFirstFailedRecordIsNamed(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	a, err := aggregator.New(s.Repo.UsageStore(0), &aggregator.Options{Archive: brokenFiles{}})
	s.Must(err)
	event := dynamo.StreamRecord{
		Event: "REMOVE", At: midnight,
		Old: s.Attributes("PK S n/AUDIT#a\nSK S #AUDIT#01JX\naction S limits_set"),
	}
	records := []dynamo.StreamRecord{record("1", nil, s.Attributes(aBucket)), {Event: "MODIFY"}, event, event}
	got := dynamo.Aggregate(t.Context(), a, records)
	if got.Done != 2 || got.Events != 0 || !errors.Is(got.Err, errBroken) || len(got.Skipped) != 1 ||
		got.Skipped[0].Record != 1 {
		t.Errorf("got %+v", got)
	}
}

var errBroken = errors.New("broken")

// brokenFiles is an archive whose calls fail.
type brokenFiles struct{}

func (brokenFiles) Read(context.Context, string) ([]byte, string, error) { return nil, "", errBroken }

func (brokenFiles) Write(context.Context, string, string, []byte) error { return errBroken }
