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

// splitStreams returns scripts of streams whose shards have children. The shard
// names sort children first. Records are named after their shard.
func splitStreams() map[string]func(*dynamotest.Stream) {
	fill := func(h *dynamotest.Shard, n int) *dynamotest.Shard {
		for i := range n {
			h.Put(fmt.Sprintf("%s%d", h.Name, i))
		}
		return h
	}
	return map[string]func(*dynamotest.Stream){
		"split": func(st *dynamotest.Stream) {
			p := fill(st.NewShard("p", nil), 5).Close()
			fill(st.NewShard("a", p), 4)
			fill(st.NewShard("b", p), 3)
		},
		"children are listed first": func(st *dynamotest.Stream) {
			p := fill(st.NewShard("p", nil), 5).Close()
			fill(st.NewShard("a", p), 4)
			st.Shards[0], st.Shards[1] = st.Shards[1], st.Shards[0]
		},
		"chain": func(st *dynamotest.Stream) {
			p := fill(st.NewShard("p", nil), 3).Close()
			m := fill(st.NewShard("m", p), 3).Close()
			fill(st.NewShard("a", m), 3)
		},
		"chain with an empty middle": func(st *dynamotest.Stream) {
			p := fill(st.NewShard("p", nil), 5).Close()
			fill(st.NewShard("a", st.NewShard("m", p).Close()), 5)
		},
		"in pages": func(st *dynamotest.Stream) {
			st.Server.Page = 1
			p := fill(st.NewShard("p", nil), 5).Close()
			fill(st.NewShard("a", p), 2)
			fill(st.NewShard("z", nil), 4)
			fill(st.NewShard("b", fill(st.NewShard("c", p), 3).Close()), 3)
		},
		"in pages, children first": func(st *dynamotest.Stream) {
			st.Server.Page = 1
			p := fill(st.NewShard("p", nil), 5).Close()
			fill(st.NewShard("a", fill(st.NewShard("m", p), 3).Close()), 2)
			slices.Reverse(st.Shards)
		},
		"the parent was trimmed before": func(st *dynamotest.Stream) {
			p := st.NewShard("p", nil).Close()
			p.Hidden, p.Gone = true, true
			m := fill(st.NewShard("m", p), 4).Close()
			fill(st.NewShard("a", m), 3)
		},
	}
}

// checkOrder checks that every record of a shard was handled before the records
// of its children.
func (f *followedTable) checkOrder() {
	f.Helper()
	parents := map[string]*dynamotest.Shard{}
	for _, h := range f.stream.Shards {
		parents[h.ID] = h
	}
	first, last := map[string]int{}, map[string]int{} // index in seen by name
	for i, name := range slices.Backward(f.seen) {
		first[name] = i
	}
	for i, name := range f.seen {
		last[name] = i
	}
	for _, h := range f.stream.Shards {
		for _, mine := range h.RecordNames() {
			for p := parents[h.Parent]; p != nil; p = parents[p.Parent] {
				for _, theirs := range p.RecordNames() {
					if last[theirs] > first[mine] {
						f.Errorf("%s came before %s of a parent", mine, theirs)
					}
				}
			}
		}
	}
}

// allRecords returns the names of all readable records.
func (f *followedTable) allRecords() (names []string) {
	for _, h := range f.stream.Shards {
		names = append(names, h.RecordNames()...)
	}
	return names
}

func TestChildrenWaitForTheRestOfTheirParent(t *testing.T) {
	t.Parallel()
	for name, script := range splitStreams() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, batch := range []int{1, 2, 1000} {
				f := newFollowedTable(t)
				f.server.Batch = batch
				script(f.stream)
				f.drain(f.handleAll)
				f.checkOrder()
				f.checkHandled(f.allRecords()...)
			}
		})
	}
}

// The service lists 100 shards at a time.
func TestFollowReadsLongListings(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	p := f.stream.NewShard("p", nil).Put("p0").Close()
	f.stream.NewShard("a", p).Put("a0")
	for i := range 100 {
		f.stream.NewShard(fmt.Sprintf("o%03d", i), nil).Close()
	}
	slices.Reverse(f.stream.Shards)
	f.drain(f.handleAll)
	f.checkSeen("p0", "a0")
}

// Each process is killed when it stores its position, before or after the write.
// The next continues in the right order, and each kill repeats at most one
// batch.
func TestOrderOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	for name, script := range splitStreams() {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", kept ", kept), func(t *testing.T) {
				t.Parallel()
				f := newFollowedTable(t)
				f.server.Batch = 2
				script(f.stream)
				all, maxRepeats := f.allRecords(), 0
				for deaths := 0; !f.followUntilKilled(kept); deaths++ {
					if !kept {
						maxRepeats += f.server.Batch
					}
					if deaths > len(all)*2 {
						t.Fatalf("no end in sight: %v", f.seen)
					}
				}
				f.checkOrder()
				if n := len(f.seen) - len(all); n > maxRepeats {
					t.Errorf("%d records came again, want %d at most", n, maxRepeats)
				}
				f.seen = slices.Compact(slices.Sorted(slices.Values(f.seen)))
				f.checkHandled(all...)
			})
		}
	}
}

// followUntilKilled lets a process store its position once and kills it at the
// second time, after the write or before it. It reports whether the process
// finished instead.
func (f *followedTable) followUntilKilled(kept bool) (over bool) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	puts := 0
	f.server.SetFaults(func(op string, _ []byte) dynamotest.Fault {
		if op == "PutItem" {
			puts++
		}
		if op != "PutItem" || puts == 1 {
			return dynamotest.Pass
		}
		return dynamotest.Fault{Name: "killed", Act: func(x *dynamotest.Exchange) {
			if kept {
				x.Execute(x.Body)
			}
			cancel()
			x.Reset()
		}}
	})
	err := f.follow(ctx, dynamo.FollowOptions{UntilEmpty: true}, f.handleAll)
	if err != nil && !errors.Is(err, context.Canceled) {
		f.Fatal(err)
	}
	return err == nil
}

// The rest of a parent that disappears is lost, and the children are read.
func TestChildrenDoNotWaitForAParentThatVanished(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.server.Batch = 2
	p := f.stream.NewShard("p", nil).Put("p0", "p1", "p2").Close()
	f.stream.NewShard("a", p).Put("a0")
	f.drain(f.handleThen(func() {
		p.Update(func(h *dynamotest.Shard) { h.Hidden, h.Gone = true, true })
	}))
	f.checkSeen("p0", "p1", "a0")
}

// A listing may lack a shard, or all shards, for a moment.
func TestAnIncompleteListingLosesNothing(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprint("all ", all), func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.server.Batch = 1
			z := f.stream.NewShard("z", nil).Put("z0").Close()
			p := f.stream.NewShard("p", nil).Put("p0", "p1", "p2").Close()
			a := f.stream.NewShard("a", p).Put("a0")
			hide := func(hidden bool) {
				for _, h := range []*dynamotest.Shard{z, p, a} {
					h.Update(func(h *dynamotest.Shard) { h.Hidden = hidden && (all || h == p) })
				}
			}
			f.drain(f.handleThen(func() { hide(len(f.seen) < 4) }))
			f.checkOrder()
			f.checkHandled("z0", "p0", "p1", "p2", "a0")
		})
	}
}

// Otherwise a process that dies would repeat more than one batch.
func TestThePlaceIsKeptBeforeMoreIsRead(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.server.Batch = 1
	f.stream.NewShard("a", nil).Put("1", "2", "3")
	f.server.SetFaults(dynamotest.First(3, "PutItem", dynamotest.Throttle))
	f.drain(func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		if n := f.server.Executed("PutItem"); n != len(f.seen) {
			t.Errorf("kept %d places of %v", n, f.seen)
		}
		return f.handleAll(ctx, records)
	})
	f.checkSeen("1", "2", "3")
}

// The end of a parent has to be stored before a child is read: otherwise a new
// process would go back to the parent.
func TestChildrenWaitUntilTheEndOfTheParentIsKept(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	p := f.stream.NewShard("p", nil).Put("p0").Close()
	f.stream.NewShard("a", p).Put("a0")
	refused := 0
	f.server.SetFaults(func(op string, body []byte) dynamotest.Fault {
		if op == "PutItem" && strings.Contains(string(body), p.ID) && refused < 3 {
			refused++
			return dynamotest.Throttle
		}
		return dynamotest.Pass
	})
	f.drain(func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		if names := recordNames(records); names[0] == "a0" && refused < 3 {
			t.Errorf("%v was read when the parent's end was not kept", names)
		}
		return f.handleAll(ctx, records)
	})
	f.checkSeen("p0", "a0")
}
