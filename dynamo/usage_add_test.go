package dynamo_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// midnight is the beginning of an hour, a day and a month.
var midnight = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

// addition returns changes of a snapshot of alice, each with one request and ten
// tokens.
func (s *storedTable) addition(feed string, window limiter.Window, numbers ...int) aggregator.Addition {
	a := aggregator.Addition{
		Bucket: aggregator.ID{Namespace: s.NS, Entity: "alice", Resource: "gpt-4"}, Window: window, Start: midnight,
	}
	for _, n := range numbers {
		a.Entries = append(a.Entries, aggregator.Entry{
			Position: aggregator.Position{Feed: feed, Number: fmt.Sprintf("%040d", n)},
			Used:     map[string]int64{"rpm": 1, "tok-ens.in": 10},
		})
	}
	return a
}

func TestUsageIsAddedOnce(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	u := s.Repo.UsageStore(0)
	for _, step := range []struct {
		what    string
		feed    string
		numbers []int
		want    string
	}{
		{"the first", "a", []int{5, 7, 9}, "map[rpm:3 tok-ens.in:30] 3"},
		{"the same again", "a", []int{5, 7, 9}, "map[rpm:3 tok-ens.in:30] 3"},
		{"a part of them", "a", []int{7}, "map[rpm:3 tok-ens.in:30] 3"},
		{"some of them, and others", "a", []int{7, 9, 10, 100}, "map[rpm:5 tok-ens.in:50] 5"},
		{"nothing", "a", nil, "map[rpm:5 tok-ens.in:50] 5"},
		{"another stream, whose numbers begin again", "b", []int{1, 2}, "map[rpm:7 tok-ens.in:70] 7"},
		{"that one again", "b", []int{1, 2, 3}, "map[rpm:8 tok-ens.in:80] 8"},
	} {
		s.Must(u.AddUsage(t.Context(), s.addition(step.feed, limiter.Daily, step.numbers...)))
		s.Equal(step.what, s.usage(limiter.UsageQuery{Entity: "alice"}),
			[]string{"01T00 gpt-4 alice daily " + step.want})
	}
}

// 19: windows that begin together are separate in every query.
func TestWindowsThatBeginTogetherAreApart(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	u := s.Repo.UsageStore(24 * time.Hour)
	for i, window := range []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly} {
		for n := range i + 1 {
			s.Must(u.AddUsage(t.Context(), s.addition("a", window, n+1)))
		}
	}
	want := []string{
		"01T00 gpt-4 alice daily map[rpm:2 tok-ens.in:20] 2",
		"01T00 gpt-4 alice hourly map[rpm:1 tok-ens.in:10] 1",
		"01T00 gpt-4 alice monthly map[rpm:3 tok-ens.in:30] 3",
	}
	for _, q := range []limiter.UsageQuery{
		{Entity: "alice"}, {Resource: "gpt-4"}, {Entity: "alice", Resource: "gpt-4"},
	} {
		s.Equal(fmt.Sprint(q), s.usage(q), want)
	}
	it := s.Item("{ns}/ENTITY#alice", "#USAGE#gpt-4#2026-03-01T00:00:00Z")
	ttl, ok := it["ttl"].(*types.AttributeValueMemberN)
	if !ok || len(ttl.Value) != 10 {
		t.Errorf("no time to live: %v", it["ttl"])
	}
	delete(it, "ttl")
	s.Equal("the item", dynamotest.FormatItem(it), dynamotest.FormatItem(s.Attributes(`
		PK S {ns}/ENTITY#alice
		SK S #USAGE#gpt-4#2026-03-01T00:00:00Z
		entity_id S alice
		resource S gpt-4
		window S hourly
		window_start S 2026-03-01T00:00:00Z
		GSI2PK S {ns}/RESOURCE#gpt-4
		GSI2SK S USAGE#2026-03-01T00:00:00Z#alice
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#alice
		_sq S a:0000000000000000000000000000000000000001
		rpm N 1
		tok-ens.in N 10
		total_events N 1`)))
}

// The counts of Python's aggregator stay and add up with ours.
func TestUsageOfBothAggregatorsAddsUp(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.PutSnapshot("alice", "gpt-4", "hourly", "2026-03-01T00:00:00Z", "", "rpm N 3\ntotal_events N 4")
	s.Must(s.Repo.UsageStore(0).AddUsage(t.Context(), s.addition("a", limiter.Hourly, 1)))
	s.Equal("usage", s.usage(limiter.UsageQuery{Entity: "alice"}), []string{
		"01T00 gpt-4 alice hourly map[rpm:4 tok-ens.in:10] 5",
	})
}

func TestUsageThatCannotBeAdded(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	u := s.Repo.UsageStore(0)
	s.PutItem("{ns}/ENTITY#alice", "#USAGE#gpt-4#2026-03-01T00:00:00Z", "rpm S many")
	err := u.AddUsage(t.Context(), s.addition("a", limiter.Hourly, 1))
	if _, damaged := errors.AsType[*limiter.CorruptError](err); !damaged {
		t.Errorf("a counter is text: %v", err)
	}
	gone := s.addition("a", limiter.Hourly, 1)
	gone.Bucket.Namespace = "gone"
	s.Must(u.AddUsage(t.Context(), gone))
	s.CheckNoItem("gone/ENTITY#alice", "#USAGE#gpt-4#2026-03-01T00:00:00Z")
	reserved := s.addition("a", limiter.Daily, 1)
	reserved.Entries[0].Used = map[string]int64{"window": 1, "ttl": 5, "rpm": 2}
	s.Must(u.AddUsage(t.Context(), reserved))
	s.Equal("usage", s.usage(limiter.UsageQuery{Entity: "alice", Window: limiter.Daily}),
		[]string{"01T00 gpt-4 alice daily map[rpm:2] 1"})
}
