package dashboard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func TestTightestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Now: time.Now})
		for i := range 1500 {
			r.use(fmt.Sprintf("key-%04d", i), "gpt-4", "rpm", int64(i%10))
		}
		var o Overview
		for range 100 {
			if o = get[Overview](r, "/api/overview?order=tightest"); o.Done {
				break
			}
		}
		if !o.Done || o.Scanned != 1500 || len(o.Rows) != tightestOfAll {
			t.Fatalf("done %v, scanned %d, %d rows", o.Done, o.Scanned, len(o.Rows))
		}
		for _, row := range o.Rows {
			if row.Limits[0].Available != 1 {
				t.Fatalf("not among the tightest: %+v", row)
			}
		}
		if got := keysOf(
			get[Overview](r, "/api/overview?order=tightest&limit=1&prefix=key-00&search=19").Rows,
		); len(got) != 1 || got[0] != "key-0019/gpt-4" {
			t.Errorf("filtered: %v", got)
		}
		r.ok(r.Close())
	})
}

// TestASmallStoreIsScannedOften adds a bucket to a store of one page, and many to
// one that has more.
func TestASmallStoreIsScannedOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Now: time.Now})
		scanned := func() int {
			get[Overview](r, "/api/overview?order=tightest") // it may start a scan
			synctest.Wait()
			return get[Overview](r, "/api/overview?order=tightest").Scanned
		}
		r.use("key", "gpt-4", "rpm", 1)
		first := scanned()
		r.use("new", "gpt-4", "rpm", 1)
		p := r.spaces["default"].pace
		time.Sleep(p.smallFor + time.Millisecond)
		if second := scanned(); first != 1 || second != 2 {
			t.Errorf("scanned %d, and %d after %v", first, second, p.smallFor)
		}

		for i := range p.page {
			r.use(fmt.Sprintf("key-%04d", i), "gpt-4", "rpm", 1)
		}
		time.Sleep(p.scanFor)
		many := scanned()
		r.use("last", "gpt-4", "rpm", 1)
		time.Sleep(p.scanFor / 2)
		if soon := scanned(); many != p.page+2 || soon != many {
			t.Errorf("scanned %d, and %d after %v", many, soon, p.scanFor/2)
		}
		r.ok(r.Close())
	})
}

func TestAScanStopsIfNoViewerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Now: time.Now})
		for i := range 1200 {
			r.use(fmt.Sprintf("key-%04d", i), "gpt-4", "rpm", 1)
		}
		r.gate.enter() // a call that takes long
		r.want(200, "/api/info", "")
		s := r.spaces["default"]
		result := func() (*tally, bool) {
			s.h.gate.enter() // as a call does
			defer s.h.gate.leave()
			all, done, err := s.scanned(t.Context(), "")
			r.ok(err)
			return all, done
		}
		result()
		if first, _ := result(); first.scanned != s.pace.page {
			t.Errorf("scanned %d while a call is under way", first.scanned)
		}
		time.Sleep(scanInterest + time.Second)
		r.gate.leave()
		time.Sleep(scanPatience / 2)
		s.scans.update(func() {
			if one := s.scans.all[""]; one == nil || one.tally.scanned != s.pace.page {
				t.Errorf("without a viewer: %+v", one)
			}
		})
		time.Sleep(scanPatience)
		s.tallies.mu.Lock()
		s.scans.update(func() {
			if len(s.scans.all) != 0 || len(s.tallies.kept) != 0 {
				t.Error("the scan goes on without a viewer")
			}
		})
		s.tallies.mu.Unlock()
		result() // starts again
		time.Sleep(5 * time.Second)
		if got, done := result(); !done || got.scanned != 1200 {
			t.Errorf("done %v, %v", done, got.scanned)
		}
		r.ok(r.Close())
	})
}

func TestResourceView(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 15 {
		r.use(fmt.Sprintf("key-%02d", i), "gpt-4", "rpm", int64(i%11))
	}
	r.use("key-00", "gpt-4", "tpm", 400)
	v := get[ResourceView](r, "/api/resource?name=gpt-4")
	if !v.Done || v.Entities != 15 || len(v.Top) != 10 || v.Top[0].Entity != "key-10" || len(v.Defaults) != 2 {
		t.Errorf("view: %+v", v)
	}
	if got := v.Limits[0]; got.Name != "rpm" || got.Capacity != 150 || got.Available != 150-61 ||
		got.MissingPercent != 40.66 {
		t.Errorf("rpm: %+v", got)
	}
	if none := get[ResourceView](r, "/api/resource?name=unknown"); !none.Done || none.Entities != 0 ||
		none.Defaults != nil || none.Top == nil || none.Limits == nil {
		t.Errorf("unknown: %+v", none)
	}
	own := []limiter.Limit{limiter.PerMinute("calls", 7)}
	_, err := r.lim.Acquire(t.Context(), limiter.Request{
		Entity: "key", Resource: "seen/only", Consume: limiter.Tokens("calls", 1), Limits: own,
	})
	r.ok(err)
	get[Overview](r, "/api/overview")
	if diff := cmp.Diff([]string{"gpt-4", "seen/only"}, get[Resources](r, "/api/resources").Resources); diff != "" {
		t.Errorf("resources: %s", diff)
	}
}
