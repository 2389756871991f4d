package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// keysOf returns the rows as "entity/resource".

func keysOf(rows []Row) []string {
	keys := []string{}
	for _, r := range rows {
		keys = append(keys, r.Entity+"/"+r.Resource)
	}
	return keys
}

func (r *rig) create(e limiter.Entity) {
	r.t.Helper()
	_, err := r.lim.CreateEntity(context.Background(), e)
	r.ok(err)
}

// TestARowShowsASwitchOfAnyAncestor checks that a row shows the switch that refuses its
// calls, however far above it is.
func TestARowShowsASwitchOfAnyAncestor(t *testing.T) {
	r := newRig(t, Options{})
	for id, parent := range map[string]string{"key": "project", "project": "team", "team": "org"} {
		r.create(limiter.Entity{ID: id, Parent: parent, Cascade: true})
	}
	r.use("key", "gpt-4", "rpm", 1)
	r.ok(r.lim.Disable(t.Context(), limiter.Scope{Entity: "org"}, "unpaid"))
	for _, row := range get[Overview](r, "/api/overview?search=k").Rows {
		if row.Off == nil || *row.Off.Reason != "unpaid" {
			t.Errorf("%s: %+v", row.Entity, row.Off)
		}
	}
	if off := get[EntityView](r, "/api/entity?id=key").Disabled; len(off) != 1 {
		t.Errorf("the entity shows %v", off)
	}
}

func TestARowShowsABucket(t *testing.T) {
	r := newRig(t, Options{})
	r.create(limiter.Entity{ID: "key", Name: "<script>\u202e", Parent: "org", Cascade: true})
	r.use("key", "gpt-4", "rpm", 5)
	got := get[Overview](r, "/api/overview").Rows[0]
	if got.Name != "<script>\u202e" || got.Parent != "org" || !got.Cascade ||
		got.Source != (Source{"resource", "", "gpt-4"}) || got.Updated == nil {
		t.Errorf("row: %+v", got)
	}
	rpm := got.Limits[0]
	if rpm.Name != "rpm" || rpm.Available != 5 || rpm.MissingPercent != 50 || rpm.Debt != 0 ||
		rpm.FullAfter != 30.001 || rpm.Capacity != 10 || rpm.Refill != 10 || rpm.Seconds != 60 {
		t.Errorf("limit: %+v", rpm)
	}
}

func TestMissingPercentShowsDebt(t *testing.T) {
	limit := limiter.PerMinute("rpm", 3)
	for tokens, want := range map[int64]float64{
		3000: 0, 2999: 0.03, 1501: 49.96, 1500: 50, 1: 99.96, 0: 100, -1: 100.03, -2220: 174, -9000: 400,
		9000: 0,
	} {
		if got := missingPercent(limit, tokens); got != want {
			t.Errorf("%d thousandths left: %v %%, want %v", tokens, got, want)
		}
	}
	huge := limiter.PerMinute("tpm", 9_000_000_000_000_000)
	if got := rowLimit(huge, -9_000_000_000_000_000_000, 0); got.MissingPercent != 200 ||
		got.Debt != 9_000_000_000_000_000 || got.FullAfter < 60 {
		t.Errorf("large debt: %+v", got)
	}
	if got := rowLimit(limit, -1, time.Hour); got.Debt != 1 || got.Available != -1 || got.FullAfter < 3660 {
		t.Errorf("small debt with a clock that is ahead: %+v", got)
	}
}

func TestTheSourceOfLimitsOfAProgram(t *testing.T) {
	r := newRig(t, Options{})
	own := []limiter.Limit{limiter.PerMinute("calls", 7)}
	_, err := r.lim.Acquire(t.Context(), limiter.Request{
		Entity: "key", Resource: "other", Consume: limiter.Tokens("calls", 1), Limits: own,
	})
	r.ok(err)
	if got := get[Overview](r, "/api/overview").Rows[0].Source.Level; got != "program" {
		t.Errorf("level: %s", got)
	}
	r.ok(r.lim.SetSystemDefaults(t.Context(), own...))
	r.Handler.spaces["default"].configs.forget()
	if got := get[Overview](r, "/api/overview").Rows[0].Source.Level; got != "system" {
		t.Errorf("level with system limits: %s", got)
	}
}

func TestOverviewInPages(t *testing.T) {
	r := newRig(t, Options{})
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("key-%02d", i)
		r.use(id, "gpt-4", "rpm", 1)
		want = append(want, id+"/gpt-4")
	}
	for _, limit := range []int{1, 7, 25, 100} {
		var got []string
		after := ""
		for {
			o := get[Overview](r, fmt.Sprintf("/api/overview?limit=%d&after=%s", limit, url.QueryEscape(after)))
			if len(o.Rows) > limit || o.Done != (o.Next == "") {
				t.Fatalf("limit %d: %d rows, done %v, next %q", limit, len(o.Rows), o.Done, o.Next)
			}
			got = append(got, keysOf(o.Rows)...)
			if after = o.Next; after == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: (-want +got)\n%s", limit, diff)
		}
	}
	if got := keysOf(get[Overview](r, "/api/overview?prefix=key-1").Rows); len(got) != 10 || got[0] != "key-10/gpt-4" {
		t.Errorf("prefix: %v", got)
	}
}

func TestSearchFindsIDsAndNames(t *testing.T) {
	r := newRig(t, Options{})
	r.create(limiter.Entity{ID: "k1", Name: "Müller & Söhne"})
	for _, id := range []string{"k1", "k2", "Team-A", "team-b"} {
		r.use(id, "gpt-4", "rpm", 1)
	}
	for search, want := range map[string][]string{
		"team": {"Team-A/gpt-4", "team-b/gpt-4"}, "SÖHNE": {"k1/gpt-4"}, "k": {"k1/gpt-4", "k2/gpt-4"}, "gpt": {},
		`<script>"'`: {},
	} {
		o := get[Overview](r, "/api/overview?search="+url.QueryEscape(search))
		if diff := cmp.Diff(want, keysOf(o.Rows)); diff != "" || !o.Done {
			t.Errorf("%s: done %v (-want +got)\n%s", search, o.Done, diff)
		}
	}
}

// failing is a store whose reads of buckets fail.

// wounded leaves a bucket of each page out.
type wounded struct{ limiter.Repository }

func (w wounded) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	page, err := w.Repository.(limiter.BucketPager).BucketPage(ctx, now, q)
	page.Damaged = []limiter.Scope{{Entity: "bad", Resource: "gpt-4"}}
	return page, err
}

func (w wounded) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	return w.Repository.(limiter.BucketPager).BucketsAt(ctx, now, keys)
}

func TestDamagedBucketsHideNoOthers(t *testing.T) {
	r := newRig(t, Options{})
	r.opts.Open = func(context.Context, string) (limiter.Repository, error) { return wounded{r.repo}, nil }
	r.use("a", "gpt-4", "rpm", 1)
	for _, path := range []string{"/api/overview", "/api/overview?search=a", "/api/overview?order=tightest"} {
		var o Overview
		for !o.Done {
			o = get[Overview](r, path)
		}
		if len(o.Rows) != 1 || o.Damaged != 1 {
			t.Errorf("%s: %+v", path, o)
		}
	}
}

// rowLimit returns the row of a bucket with one limit.
func rowLimit(l limiter.Limit, tokens int64, ahead time.Duration) RowLimit {
	return newRowLimits(limiter.Bucket{
		Account: &limiter.Account{Limits: []limiter.Limit{l}}, Tokens: []int64{tokens}, Ahead: ahead,
	})[0]
}
