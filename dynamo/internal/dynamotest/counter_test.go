package dynamotest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

func TestRoundTripsAreTheLongestChain(t *testing.T) {
	span := func(begin, end int) Request { return Request{begin: begin, end: end} }
	for _, test := range []struct {
		name string
		log  []Request
		want int
	}{
		{"nothing", nil, 0},
		{"one", []Request{span(1, 2)}, 1},
		{"one after the other", []Request{span(1, 2), span(3, 4), span(5, 6)}, 3},
		{"all at once", []Request{span(1, 6), span(2, 5), span(3, 4)}, 1},
		{"two and two", []Request{span(1, 3), span(2, 4), span(5, 8), span(6, 7)}, 2},
		{"a second beside a long one", []Request{span(1, 6), span(2, 3), span(4, 5)}, 2},
		{"each overlaps the next only", []Request{span(1, 3), span(2, 5), span(4, 6)}, 2},
		{"still running", []Request{span(1, 0), span(2, 0)}, 1},
		{"one still running", []Request{span(1, 0), span(2, 3), span(4, 0)}, 2},
	} {
		if got := roundTrips(test.log); got != test.want {
			t.Errorf("%s: %d round trips, want %d", test.name, got, test.want)
		}
	}
}

func TestCounterDistinguishesConcurrentFromSequential(t *testing.T) {
	table := newRawTable(t)
	c := NewCounter()
	c.patience = time.Hour // not needed
	counted := table.by(c.Config(Endpoint(t)))
	put := func() {
		if err := counted.put(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	}
	put()
	counted.keys()
	if diff := cmp.Diff([]string{"PutItem", "Scan"}, c.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if c.RoundTrips() != 2 {
		t.Errorf("one after the other are %d round trips", c.RoundTrips())
	}
	c.Reset()
	c.Together(3, 1)
	var all sync.WaitGroup
	for range 3 {
		all.Go(put)
	}
	all.Wait()
	put()
	if len(c.Requests()) != 4 || c.RoundTrips() != 2 {
		t.Errorf("three at once and one: %d requests, %d round trips", len(c.Requests()), c.RoundTrips())
	}
}

func TestCounterIsNotFooledByTogether(t *testing.T) {
	table := newRawTable(t)
	c := NewCounter()
	c.patience = time.Millisecond
	counted := table.by(c.Config(Endpoint(t)))
	c.Together(2)
	for range 2 {
		if err := counted.put(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if c.RoundTrips() != 2 {
		t.Errorf("one after the other are %d round trips", c.RoundTrips())
	}
}

func TestCounterLetsCallersLeave(t *testing.T) {
	table := newRawTable(t)
	c := NewCounter()
	c.patience = time.Hour
	c.Together(2)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		until(ctx, func() bool { return len(c.Requests()) == 1 })
		leave()
	}()
	if err := table.by(c.Config(Endpoint(t))).put(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("the client was told: %v", err)
	}
	if diff := cmp.Diff([]string{}, table.keys()); diff != "" {
		t.Errorf("in the table (-want +got):\n%s", diff)
	}
}

func TestCounterSumsWhatRepliesCost(t *testing.T) {
	table := newRawTable(t)
	c := NewCounter()
	counted := table.by(c.Config(Endpoint(t)))
	_, err := counted.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &table.name, Item: rawKey("a"), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil || c.Capacity() != 1 {
		t.Errorf("a put cost %v: %v", c.Capacity(), err)
	}
	_, err = counted.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{table.name: {
			Keys: []map[string]types.AttributeValue{rawKey("a")},
		}},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil || c.Capacity() != 1.5 {
		t.Errorf("with a read besides it cost %v: %v", c.Capacity(), err)
	}
	if size := c.Log()[0].size; size < int64(len(table.name)) {
		t.Errorf("the put had %d bytes", size)
	}
}
