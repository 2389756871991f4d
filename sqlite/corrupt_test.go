package sqlite_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// TestDamagedRowsAreNamed checks that a damaged row is a CorruptError that names
// it, in either mode, and that new limits replace damaged ones.
func TestDamagedRowsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, nil)
	lim := limiterOn(t, repo)
	ctx := t.Context()
	req := limiter.Request{
		Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1), OnUnavailable: limiter.Allow,
	}
	set := func() {
		t.Helper()
		if err := lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 10)); err != nil {
			t.Fatal(err)
		}
	}
	set()
	if _, err := lim.Acquire(ctx, req); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, damage, repair, says string }{
		{
			"limits without a capacity",
			`UPDATE configs SET limits = '[{"name":"rpm"}]'; UPDATE namespaces_v7 SET facts = facts + 1`, "",
			"limits of resource gpt-4",
		},
		{
			"limits that are not JSON",
			`UPDATE configs SET limits = '['; UPDATE namespaces_v7 SET facts = facts + 1`, "",
			"limits of resource gpt-4",
		},
		{
			"a balance that is not a number", `UPDATE buckets_v7 SET tokens = '[many]'`,
			`UPDATE buckets_v7 SET tokens = '[9000]'`, "bucket of alice and gpt-4",
		},
		{
			"a missing balance", `UPDATE buckets_v7 SET tokens = '[]'`,
			`UPDATE buckets_v7 SET tokens = '[9000]'`, "bucket of alice and gpt-4",
		},
		{
			"an invalid level", `UPDATE buckets_v7 SET level = 7`, `UPDATE buckets_v7 SET level = 2`,
			"bucket of alice and gpt-4",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			script(ctx, t, path, c.damage)
			_, err := lim.Acquire(ctx, req)
			if !isType[*limiter.CorruptError](err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a CorruptError about %q", err, c.says)
			}
			if c.repair != "" {
				script(ctx, t, path, c.repair)
			}
			set()
			if _, err := lim.Acquire(ctx, req); err != nil {
				t.Errorf("after the repair: %v", err)
			}
		})
	}
}

// TestFailedChangeStoresNothing checks that a change of limits that fails on a
// damaged row stores nothing.
func TestFailedChangeStoresNothing(t *testing.T) {
	for name, damage := range map[string]string{
		"a bucket":                 `UPDATE buckets_v7 SET tokens = '[many]'`,
		"limits that would follow": `UPDATE configs SET limits = '[' WHERE entity = ''`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			lim := limiterOn(t, open(t, path, nil))
			ctx := t.Context()
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			check(lim.SetSystemDefaults(ctx, limiter.PerMinute("rpm", 1)))
			check(lim.SetLimits(ctx, "alice", "gpt-4", limiter.PerMinute("rpm", 10)))
			_, err := lim.Acquire(ctx, limiter.Request{
				Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
			})
			check(err)
			script(ctx, t, path, damage)
			if strings.Contains(damage, "buckets") {
				if err := lim.SetLimits(
					ctx, "alice", "gpt-4", limiter.PerMinute("rpm", 1000),
				); !isType[*limiter.CorruptError](err) {
					t.Errorf("set: %v, want a CorruptError", err)
				}
			}
			if err := lim.DeleteLimits(ctx, "alice", "gpt-4"); !isType[*limiter.CorruptError](err) {
				t.Errorf("delete: %v, want a CorruptError", err)
			}
			limits, err := lim.Limits(ctx, "alice", "gpt-4")
			check(err)
			if want := []limiter.Limit{limiter.PerMinute("rpm", 10)}; !slices.Equal(limits, want) {
				t.Errorf("limits are %v, want %v", limits, want)
			}
			events := 0
			for _, err := range lim.AuditEvents(ctx, "alice", "") {
				check(err)
				events++
			}
			if events != 1 {
				t.Errorf("%d audit events, want the one of the change that was stored", events)
			}
		})
	}
}

// TestOverwrittenFileIsCorrupt checks that the error is a CorruptError and not an
// outage.
func TestOverwrittenFileIsCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, nil)
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(content); i++ { // the header stays
		content[i] = 0xff
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := openError(t, path, nil); !isType[*limiter.CorruptError](err) {
		t.Error(err)
	}
}

// TestPagesLeaveDamagedBucketsOut checks that a damaged bucket, or damaged limits of
// one, hide no other bucket.
func TestPagesLeaveDamagedBucketsOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, nil)
	lim := limiterOn(t, repo)
	ctx := t.Context()
	for _, entity := range []string{"a", "b", "c", "d", "e"} {
		if err := lim.SetLimits(ctx, entity, "gpt-4", limiter.PerMinute("rpm", 10)); err != nil {
			t.Fatal(err)
		}
	}
	for _, entity := range []string{"a", "b", "c", "d", "e"} {
		if _, err := lim.Acquire(ctx, limiter.Request{
			Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
		}); err != nil {
			t.Fatal(err)
		}
	}
	script(ctx, t, path,
		`UPDATE buckets_v7 SET tokens = '[many]' WHERE entity = 'b'; UPDATE configs SET limits = '[' WHERE entity = 'd'; UPDATE namespaces_v7 SET facts = facts + 1`)
	for _, size := range []int{1, 2, 10} {
		var found, damaged []string
		q := limiter.BucketQuery{Max: size}
		for {
			page, err := repo.BucketPage(ctx, time.Now(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range page.Buckets {
				found = append(found, b.Account.Entity)
			}
			for _, s := range page.Damaged {
				damaged = append(damaged, s.Entity+" "+s.Resource)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if got := strings.Join(found, ",") + "; " + strings.Join(damaged, ","); got != "a,c,e; b gpt-4,d gpt-4" {
			t.Errorf("pages of %d: %s", size, got)
		}
	}
	if _, err := repo.BucketsAt(
		ctx, time.Now(), []limiter.Scope{{Entity: "b", Resource: "gpt-4"}},
	); !isType[*limiter.CorruptError](err) {
		t.Errorf("by key: %v, want a CorruptError", err)
	}
}
