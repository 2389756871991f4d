package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// Storing a position creates a stream record itself, in any shard.
func TestUntilEmptyEndsThoughItsPlacesAreInTheStream(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"a", "b"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			shards := map[string]*dynamotest.Shard{"a": f.stream.NewShard("a", nil), "b": f.stream.NewShard("b", nil)}
			f.server.Echo = shards[where]
			shards["a"].Put("1", "2")
			shards["b"].Put("3")
			for range 3 {
				f.drain(f.handleAll)
			}
			f.checkSeen("1", "2", "3")
			if n := f.server.Executed("PutItem"); n > 4 {
				t.Errorf("the place was kept %d times for 3 records", n)
			}
		})
	}
}

// Positions expire, and their removals are records with an old image.
func TestRemovedPlacesAreNotKeptAsProgress(t *testing.T) {
	t.Parallel()
	place := func(event string, members ...string) map[string]any {
		record := dynamotest.StreamRecord("_/SYSTEM#", "#STREAM#2029#shard", map[string]any{})
		all := record["dynamodb"].(map[string]any)
		all["OldImage"] = all["NewImage"]
		about := map[string]any{}
		for _, m := range members {
			about[m] = all[m]
		}
		return map[string]any{"eventName": event, "dynamodb": about}
	}
	for name, record := range map[string]map[string]any{
		"kept":              place("INSERT", "Keys", "NewImage"),
		"kept again":        place("MODIFY", "Keys", "NewImage", "OldImage"),
		"removed":           place("REMOVE", "Keys", "OldImage"),
		"only keys":         place("MODIFY", "Keys"),
		"only a new image":  place("MODIFY", "NewImage"),
		"only an old image": place("REMOVE", "OldImage"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.stream.NewShard("a", nil).Add(record)
			f.drain(f.handleAll)
			if n := f.server.Executed("PutItem"); n != 0 {
				t.Errorf("the place was kept %d times", n)
			}
		})
	}
}

// A shard may have nothing but positions for days. Its own position is stored
// now and then.
func TestManyPlacesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	a := f.stream.NewShard("a", nil)
	f.server.Echo, f.server.Batch = a, 100
	for range 1050 {
		a.Add(dynamotest.StreamRecord("_/SYSTEM#", "#STREAM#2029#shard", map[string]any{}))
	}
	read := 0
	count := func(_ context.Context, records []dynamo.StreamRecord) (int, error) {
		read += len(records)
		return len(records), nil
	}
	f.drain(count)
	f.drain(count)
	if want := 1051 + 51; read != want { // one for the position, and the records after it
		t.Errorf("read %d records, want %d", read, want)
	}
}

// When a shard ends, it has children that were not listed before.
func TestUntilEmptyReadsChildrenThatComeLater(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	last := f.stream.NewShard("9", nil).Put("9")
	f.drain(f.handleThen(func() {
		if n := len(f.seen); n < 5 {
			last.Close()
			last = f.stream.NewShard(fmt.Sprint(9-n), last).Put(fmt.Sprint(9 - n))
		}
	}))
	f.checkSeen("9", "8", "7", "6", "5")
}

// A shard without a parent may also appear later, and no end of another shard
// announces it.
func TestUntilEmptyListsShardsBeforeItEnds(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.stream.NewShard("a", nil).Put("a0")
	f.drain(f.handleThen(func() {
		if len(f.seen) == 1 {
			f.stream.NewShard("b", nil).Put("b0")
		}
	}))
	f.checkSeen("a0", "b0")
}

// The service searches a shard in parts, so answers without records come before
// the last one.
func TestUntilEmptyIsNotMisledByEmptyAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		blanks        int
		closed, child bool
	}{
		"open": {4, false, false}, "closed": {4, true, false}, "closed, and long": {40, true, false},
		"split": {40, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			p := f.stream.NewShard("p", nil).Put("p0")
			p.Blanks, p.Closed = test.blanks, test.closed
			if test.child {
				f.stream.NewShard("a", p).Put("a0")
			}
			f.drain(f.handleAll)
			f.checkHandled(f.allRecords()...)
		})
	}
}

func TestUntilEmptyEndsWithEmptyShards(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(*dynamotest.Stream){
		"no shards":   func(*dynamotest.Stream) {},
		"open":        func(st *dynamotest.Stream) { st.NewShard("a", nil) },
		"closed":      func(st *dynamotest.Stream) { st.NewShard("a", nil).Close() },
		"split":       func(st *dynamotest.Stream) { st.NewShard("a", st.NewShard("p", nil).Close()) },
		"two of them": func(st *dynamotest.Stream) { st.NewShard("a", nil); st.NewShard("b", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			script(f.stream)
			f.drain(f.handleAll)
			f.checkSeen()
			if n := len(f.server.Log()); n > 20 {
				t.Errorf("%d requests for nothing", n)
			}
		})
	}
}

func TestNoShardStarvesAnother(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.server.Batch = 1
	f.stream.NewShard("a", nil).Put(numberedNames("a", 30)...)
	f.stream.NewShard("b", nil).Put("b")
	c := f.stream.NewShard("c", nil).Put("c")
	f.drain(f.handleThen(func() {
		if len(f.seen) == 20 {
			c.Put("late")
		}
	}))
	for name, limit := range map[string]int{"b": 3, "c": 3, "late": 23} {
		if place := slices.Index(f.seen, name); place < 0 || place > limit {
			t.Errorf("%s is number %d, want %d at most", name, place, limit)
		}
	}
	if n := countRequests(f.server.Log(), "DescribeStream"); n > 5 {
		t.Errorf("%d listings for 32 batches; the service allows 10 a second", n)
	}
}

// Children that appear later do not wait until the other shards are empty.
func TestChildrenAreReadWhileOthersAreBusy(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.server.Batch = 1
	f.stream.NewShard("a", nil).Put(numberedNames("a", 30)...)
	p := f.stream.NewShard("p", nil).Put("p0")
	f.drain(f.handleThen(func() {
		if len(f.seen) == 2 {
			f.stream.NewShard("c", p.Close()).Put("c0")
		}
	}))
	if place := slices.Index(f.seen, "c0"); place < 0 || place > 9 {
		t.Errorf("the child is number %d", place)
	}
}

// Follow forgets a finished shard that is no longer listed: if it is listed
// again, its position is looked up.
func TestFinishedShardsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	p := f.stream.NewShard("p", nil).Put("p0").Close()
	f.stream.NewShard("a", p).Put("a0")
	ctx, cancel := context.WithCancel(t.Context())
	lookups, listings := 0, 0
	f.server.SetFaults(func(op string, body []byte) dynamotest.Fault {
		switch {
		case op == "BatchGetItem" && strings.Contains(string(body), p.ID):
			lookups++
		case op == "DescribeStream" && len(f.seen) == 2:
			listings++
			p.Update(func(h *dynamotest.Shard) { h.Hidden = listings == 1 })
			if listings == 10 {
				cancel()
			}
		}
		return dynamotest.Pass
	})
	if err := f.follow(ctx, dynamo.FollowOptions{}, f.handleAll); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.checkSeen("p0", "a0")
	if lookups != 2 {
		t.Errorf("the place was looked up %d times, want when the shard was listed first, and again", lookups)
	}
}

// A position has a TTL.
func TestPlacesExpire(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.stream.NewShard("a", nil).Put("1")
	var puts []string
	f.server.SetFaults(func(op string, body []byte) dynamotest.Fault {
		if op == "PutItem" {
			puts = append(puts, string(body))
		}
		return dynamotest.Pass
	})
	f.drain(f.handleAll)
	if len(puts) != 1 || !strings.Contains(puts[0], `"ttl":{"N":"`) {
		t.Errorf("kept %s", puts)
	}
}
