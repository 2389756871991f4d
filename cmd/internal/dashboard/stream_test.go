package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAViewerSeesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 10)
		v := r.view(r.cookie)
		v.watch("a", "b", "a")
		first := v.rows()
		if len(first.Rows) != 1 || len(first.Gone) != 1 || first.Gone[0] != [2]string{"b", "gpt-4"} ||
			first.At.IsZero() {
			t.Fatalf("first rows: %+v", first)
		}
		begun := time.Now()
		r.use("b", "gpt-4", "rpm", 10)
		for seen := false; !seen; {
			seen = slices.ContainsFunc(v.rows().Rows, func(r Row) bool { return r.Entity == "b" })
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("a change was seen after %v", took)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestFullBucketsSendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 1)
		time.Sleep(30 * time.Second) // full again
		v := r.watching("a")
		var events atomic.Int64
		go func() {
			for {
				name, _, err := v.read()
				if err != nil {
					return
				}
				if name == "rows" {
					events.Add(1)
				}
			}
		}()
		before := store.reads.Load()
		time.Sleep(10 * time.Second)
		if got := events.Load(); got != 0 {
			t.Errorf("%d events about a bucket that does not change", got)
		}
		if got := store.reads.Load() - before; got < 19 || got > 21 {
			t.Errorf("%d reads in 10 s, want 20", got)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestViewersShareOneReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 1)
		var all []*viewing
		for i := range 20 {
			v := r.view(r.cookie)
			v.watch("a", fmt.Sprintf("own-%d", i%3))
			v.rows()
			go v.drain()
			all = append(all, v)
		}
		synctest.Wait()
		reads, keys := store.reads.Load(), store.keys.Load()
		time.Sleep(10 * time.Second)
		reads, keys = store.reads.Load()-reads, store.keys.Load()-keys
		if reads > 21 || keys > 21*4 {
			t.Errorf("20 viewers of 4 rows: %d reads of %d keys in 10 s", reads, keys)
		}
		for _, v := range all {
			v.leave()
		}
		synctest.Wait()
		reads = store.reads.Load()
		time.Sleep(time.Minute)
		if got := store.reads.Load(); got != reads {
			t.Errorf("%d reads without viewers", got-reads)
		}
		if s := r.spaces["default"]; len(s.hub.cells) != 0 || len(s.hub.viewers) != 0 || s.hub.running {
			t.Errorf("left behind: %d rows, %d viewers, running %v", len(s.hub.cells), len(s.hub.viewers),
				s.hub.running)
		}
		v := r.view(r.cookie) // the reader starts again
		v.watch("a")
		v.rows()
		v.leave()
		r.ok(r.Close())
	})
}

func TestWatchingLessReadsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newCountedRig(t, Options{})
		v := r.watching("a", "b", "c")
		go v.drain()
		v.watch("b")
		synctest.Wait()
		keys := store.keys.Load()
		time.Sleep(10 * time.Second)
		if got := store.keys.Load() - keys; got > 21 {
			t.Errorf("%d keys were read for one row in 10 s", got)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestAViewerThatDoesNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 10)
		good, lazy := r.view(r.cookie), r.view(r.cookie)
		good.watch("a")
		lazy.watch("a")
		go good.drain()
		begun := time.Now()
		<-lazy.ended
		if took := time.Since(begun); took > 2*usualTimes.write {
			t.Errorf("the viewer was dropped after %v", took)
		}
		select {
		case <-good.ended:
			t.Error("the other viewer was dropped too")
		default:
		}
		good.leave()
		r.ok(r.Close())
	})
}

func TestASlowViewerGetsTheLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 10)
		v := r.watching("a")
		time.Sleep(usualTimes.write - time.Second) // while the bucket refills
		events := 0
		for v.rows().Rows[0].Limits[0].Available < 1 {
			if events++; events > 2 {
				t.Fatal("old events were kept for the viewer")
			}
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestTroubleDoesNotEndAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 1)
		v := r.watching("a")
		store.fail.Store(true)
		var s Status
		for s.Trouble == "" {
			v.next("status", &s)
		}
		if strings.Contains(s.Trouble, "network") || !strings.HasSuffix(s.Trouble, ".") {
			t.Errorf("trouble: %q", s.Trouble)
		}
		go func() {
			time.Sleep(5 * time.Minute)
			store.fail.Store(false)
			r.use("a", "gpt-4", "rpm", 5)
		}()
		before := store.reads.Load()
		begun := time.Now()
		for s.Trouble != "" {
			v.next("status", &s)
		}
		if got := store.reads.Load() - before; got > 20 {
			t.Errorf("%d reads of a broken store in 5 min", got)
		}
		if took := time.Since(begun); took > 5*time.Minute+2*maxBackOff {
			t.Errorf("the end of the trouble was seen after %v", took)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestADamagedRowHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported atomic.Int64
		r, store := newCountedRig(t, Options{OnError: func(error) { reported.Add(1) }})
		store.damaged = "c"
		all := []string{"a", "b", "c", "d", "e"}
		for _, id := range all {
			r.use(id, "gpt-4", "rpm", 1)
		}
		v := r.view(r.cookie)
		v.watch(all...)
		var s Status
		for s.Trouble == "" {
			v.next("status", &s)
		}
		other := r.view(r.cookie) // the rows are known
		other.watch(all...)
		d := other.rows()
		if len(d.Rows) != 4 || len(d.Gone) != 1 || d.Gone[0][0] != "c" {
			t.Errorf("rows: %+v", d)
		}
		other.leave()
		if !strings.Contains(s.Trouble, "damaged") || s.Interval != 500 {
			t.Errorf("status: %+v", s)
		}
		go v.drain()
		time.Sleep(time.Minute)
		if got := reported.Load(); got != 1 {
			t.Errorf("the damage was reported %d times", got)
		}
		v.leave()
		r.ok(r.Close())
	})
}
