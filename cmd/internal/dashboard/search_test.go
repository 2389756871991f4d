package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// searchAll returns the rows of all answers to a search.
func searchAll(r *rig, search string) (keys []string) {
	r.t.Helper()
	after := ""
	for range 1000 {
		o := get[Overview](r, "/api/overview?search="+url.QueryEscape(search)+"&after="+url.QueryEscape(after))
		keys = append(keys, keysOf(o.Rows)...)
		if o.Done != (o.Next == "") {
			r.t.Fatalf("done %v, next %q", o.Done, o.Next)
		}
		if after = o.Next; o.Done {
			return keys
		}
	}
	r.t.Fatal("the search does not end")
	return nil
}

// namedKeys charges n entities that have names.
func (r *rig) namedKeys(n int) (keys []string) {
	r.t.Helper()
	for i := range n {
		id := fmt.Sprintf("key-%02d", i)
		r.create(limiter.Entity{ID: id, Name: "Customer " + fmt.Sprint(i)})
		r.use(id, "gpt-4", "rpm", 1)
		keys = append(keys, id+"/gpt-4")
	}
	return keys
}

func TestSearchWaitsForNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{})
		store.recordTime = 2500 * time.Millisecond
		want := r.namedKeys(60)
		if diff := cmp.Diff(want, searchAll(r, "customer")); diff != "" {
			t.Errorf("rows: %s", diff)
		}
		r.ok(r.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{})
		store.recordTime = 5 * time.Second // no answer can wait for one
		want := r.namedKeys(30)
		if diff := cmp.Diff(want[23:24], searchAll(r, "customer 23")); diff != "" {
			t.Errorf("one: %s", diff)
		}
		r.ok(r.Close())
	})
}

// forgetful is a store whose records cannot be read for a while.
type forgetful struct {
	billed
	failures atomic.Int64
}

func (f *forgetful) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	if f.failures.Add(-1) >= 0 {
		return limiter.Entity{}, errors.New("busy")
	}
	return f.billed.Entity(ctx, id)
}

func TestSearchTriesNamesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Now: time.Now})
		store := &forgetful{billed: billed{counted: counted{Repository: r.repo}}}
		store.failures.Store(100)
		r.opts.Open = func(context.Context, string) (limiter.Repository, error) { return store, nil }
		want := r.namedKeys(30)
		if diff := cmp.Diff(want, searchAll(r, "customer")); diff != "" {
			t.Errorf("rows: %s", diff)
		}
		r.ok(r.Close())
	})
}

func TestPagesFitTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{ReadBudget: 1})
		store.pageTime = 2 * time.Second
		want := r.namedKeys(12)
		var got []string
		for after := ""; ; {
			o := get[Overview](r, "/api/overview?after="+after)
			if len(o.Rows) > 5 {
				t.Errorf("a page of %d rows", len(o.Rows))
			}
			got = append(got, keysOf(o.Rows)...)
			if after = o.Next; after == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rows: %s", diff)
		}
		r.ok(r.Close())
	})
}

func TestPositions(t *testing.T) {
	for _, p := range []position{{}, {page: "abc"}, {page: "a~b"}, {"", "e", "r"}, {"abc", "e~", "r/~"}} {
		for _, text := range []string{p.String(), p.inside()} {
			if got, err := parsePosition(text); err != nil || got != p {
				t.Errorf("%q: %+v, %v; want %+v", text, got, err, p)
			}
		}
		if p.inside() == "" {
			t.Errorf("%+v ends the overview", p)
		}
	}
	for _, bad := range []string{"~", "abc~", "~!", "~YQ"} {
		if _, err := parsePosition(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestLimitsThatNoLevelHolds(t *testing.T) {
	r := newRig(t, Options{})
	r.ok(r.lim.SetLimits(t.Context(), "ann", "", limiter.PerMinute("calls", 5)))
	r.use("ann", "search", "calls", 1)
	r.ok(r.lim.DeleteLimits(t.Context(), "ann", ""))
	r.use("bob", "gpt-4", "rpm", 1)
	rows := get[Overview](r, "/api/overview").Rows
	if len(rows) != 2 || rows[0].Source.Level != levelProgram || rows[1].Source.Level != "resource" {
		t.Errorf("rows: %+v", rows)
	}
}

func TestViewersFollowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{})
		store.rowTime = 5 * time.Minute // the reader is busy
		first := r.view(r.cookie)
		first.watch("a")
		second := r.view(r.cookie)
		var s Status
		for s.Viewers != 2 {
			first.next("status", &s)
		}
		second.leave()
		for s.Viewers != 1 {
			first.next("status", &s)
		}
		first.leave()
		r.ok(r.Close())
	})
}
