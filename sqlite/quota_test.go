package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// TestQuotaOfTwoProcesses checks that each window of a quota admits its capacity
// once, whichever process takes it, and that a file which was closed in between
// goes on where it was.
func TestQuotaOfTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	limits := []limiter.Limit{limiter.Quota("tokens", 5, limiter.EveryDay).In("Europe/Berlin")}
	charge := chargeOf(limiter.Tokens("tokens", 2))
	charge.Defaults = limits
	midnight := time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC) // after a day of 23 hours
	for _, now := range []time.Time{
		midnight.Add(-23 * time.Hour), midnight.Add(-time.Millisecond), midnight,
		midnight.Add(24*time.Hour - 1),
	} {
		want := 2
		if now.Equal(midnight.Add(-time.Millisecond)) || now.After(midnight) {
			want = 0 // the window has been used up
		}
		admitted := 0
		repos := []*Repository{openFile(t, path, nil), openFile(t, path, nil)}
		for i := range 6 {
			out, err := repos[i%2].Consume(t.Context(), now, charge)
			if err != nil {
				t.Fatal(err)
			}
			if out.Admitted {
				admitted++
			}
		}
		if admitted != want {
			t.Errorf("%s: %d charges admitted, want %d", now, admitted, want)
		}
		for _, r := range repos {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestUnknownZoneIsNoDamage stores a zone that this process cannot load. A charge
// says so; reads and changes of limits work.
func TestUnknownZoneIsNoDamage(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := limiterOn(t, r)
	ctx := t.Context()
	set := func(l limiter.Limit) {
		t.Helper()
		if err := lim.SetLimits(ctx, "alice", "gpt-4", l); err != nil {
			t.Fatal(err)
		}
	}
	strand := func() { // as a process with other zone data
		t.Helper()
		err := r.write(ctx, time.Time{}, func(tx *tx) error {
			return tx.script(`UPDATE configs SET limits = replace(limits, 'Europe/Berlin', 'Mars/Olympus');
				UPDATE buckets_v7 SET limits = replace(limits, 'Europe/Berlin', 'Mars/Olympus'); UPDATE namespaces_v7 SET facts = facts + 1`)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	req := limiter.Request{
		Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("tokens", 1), OnUnavailable: limiter.Allow,
	}
	set(limiter.Quota("tokens", 5, limiter.EveryYear).In("Europe/Berlin"))
	lease, err := lim.Acquire(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	before := storedBucket(t, r)
	strand()
	checkUnknown := func(what string, err error) {
		t.Helper()
		if invalid, ok := errors.AsType[*limiter.InvalidError](err); !ok || invalid.Field != "zone" ||
			!strings.Contains(err.Error(), "time/tzdata") {
			t.Errorf("%s: got %v, want an InvalidError about the zone", what, err)
		}
	}
	_, err = lim.Acquire(ctx, req)
	checkUnknown("acquire", err)
	_, err = lim.Available(ctx, "alice", "gpt-4")
	checkUnknown("peek", err)
	checkUnknown("reset", lim.Reset(ctx, "alice", "gpt-4"))
	if limits, err := lim.Limits(ctx, "alice", "gpt-4"); err != nil || len(limits) != 1 ||
		limits[0].Zone != "Mars/Olympus" {
		t.Errorf("limits %v, %v", limits, err)
	}
	for b, err := range r.Buckets(ctx, time.Now(), limiter.Scope{}) {
		if err != nil || b.Tokens[0] != 4_000 {
			t.Errorf("bucket %+v, %v", b, err)
		}
	}
	if err := lease.Rollback(ctx); err != nil {
		t.Errorf("rollback: %v", err)
	}
	if after := storedBucket(t, r); after.Tokens[0] != 5_000 || !cmp.Equal(after.Starts, before.Starts) {
		t.Errorf("after the rollback %+v, want 5 tokens in the same window", after.Bucket)
	}
	set(limiter.Quota("tokens", 5, limiter.EveryYear))
	if _, err := lim.Acquire(ctx, req); err != nil {
		t.Errorf("with a zone that is known: %v", err)
	}
	set(limiter.Quota("tokens", 5, limiter.EveryYear).In("Europe/Berlin"))
	strand()
	if err := lim.DeleteLimits(ctx, "alice", "gpt-4"); err != nil {
		t.Error(err)
	}
}

// TestWhatWasSpentAboveACapacityIsRead reads a bucket of version 5, which stored what
// was spent above a capacity that was lowered after the starts of windows.
func TestWhatWasSpentAboveACapacityIsRead(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	charge := chargeOf(limiter.Tokens("tokens", 50))
	charge.Defaults = []limiter.Limit{limiter.PerMinute("rpm", 5), limiter.Quota("tokens", 50, limiter.EveryDay)}
	if _, err := r.Consume(t.Context(), newYear, charge); err != nil {
		t.Fatal(err)
	}
	err := r.write(t.Context(), time.Time{}, func(tx *tx) error {
		return tx.script(`UPDATE buckets_v7 SET starts = replace(starts, ']', ',0,40000]')`)
	})
	if err != nil {
		t.Fatal(err)
	}
	charge.Amounts = limiter.Tokens("tokens", 0)
	for _, c := range []struct {
		capacity, left int64
		after          time.Duration
	}{{50, -40_000, 0}, {50, 50_000, 24 * time.Hour}, {100, 10_000, 0}} {
		charge.Defaults[1].Capacity = c.capacity
		out, err := r.Peek(t.Context(), newYear.Add(c.after), charge)
		if err != nil || out.Payers[0].Tokens[1] != c.left {
			t.Errorf("%+v: %v left, %v", c, out.Payers[0].Tokens, err)
		}
	}
	if _, err := r.Consume(t.Context(), newYear, charge); err != nil {
		t.Fatal(err)
	}
	if after := storedBucket(t, r); after.Tokens[1] != 10_000 || len(after.Starts) != 2 || after.Peaks != nil {
		t.Errorf("stored %+v", after.Bucket)
	}
}

// storedBucket returns the only bucket in the file.
func storedBucket(t *testing.T, r *Repository) (found *record) {
	t.Helper()
	err := r.read(t.Context(), func(tx *tx) (err error) { found, err = tx.bucket("true"); return err })
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	return found
}

// TestDamagedWindowsAreNamed checks that damage to the new columns is a
// CorruptError.
func TestDamagedWindowsAreNamed(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	charge := chargeOf(limiter.Tokens("tokens", 1).And("rpm", 20))
	charge.Defaults = []limiter.Limit{
		limiter.PerMinute("rpm", 10).Shadow(), limiter.Quota("tokens", 5, limiter.EveryDay),
	}
	if _, err := r.Consume(t.Context(), newYear, charge); err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{
		"starts = NULL", "starts = '[1]'", "starts = 'soon'", "spared = '{}'",
		`limits = replace(limits, '"window":"day"', '"window":"day","zone":7')`,
		`limits = replace(limits, 'day', 'fortnight')`,
		`limits = replace(limits, '"window":"day"', '"window":"hour","zone":"Mars/Olympus"')`,
	} {
		err := r.write(t.Context(), time.Time{}, func(tx *tx) error {
			if err := tx.script("SAVEPOINT intact; UPDATE buckets_v7 SET " + damage); err != nil {
				return err
			}
			_, err := r.charge(tx, newYear.UnixMilli(), &charge, false)
			if !isCorrupt(err) {
				t.Errorf("%s: got %v, want a CorruptError", damage, err)
			}
			return tx.script("ROLLBACK TO intact; RELEASE intact")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// counting counts the statements of a transaction.
type counting struct {
	querier
	queries, execs *int
}

func (c counting) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	*c.execs++
	return c.querier.ExecContext(ctx, query, args...)
}

func (c counting) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	*c.queries++
	return c.querier.QueryContext(ctx, query, args...)
}

// TestChargeOfTwoStatements checks that quotas, shadow limits and switches of
// others cost a charge no statement, and a plain bucket no column.
func TestChargeOfTwoStatements(t *testing.T) {
	for name, limit := range map[string]limiter.Limit{
		"a rate": limiter.PerMinute("rpm", 10), "a quota": limiter.Quota("rpm", 10, limiter.EveryDay),
		"a shadow limit": limiter.PerMinute("rpm", 1).Shadow(),
	} {
		t.Run(name, func(t *testing.T) {
			r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
			lim := limiterOn(t, r)
			if err := lim.SetSystemDefaults(t.Context(), limit); err != nil {
				t.Fatal(err)
			}
			if err := lim.Disable(t.Context(), limiter.Scope{Entity: "bob"}, ""); err != nil {
				t.Fatal(err)
			}
			charge := chargeOf(limiter.Tokens("rpm", 1))
			for i := range 3 {
				var queries, execs int
				err := r.write(t.Context(), time.Time{}, func(tx *tx) error {
					plain := tx.on
					tx.on = counting{plain, &queries, &execs}
					defer func() { tx.on = plain }()
					out, err := r.charge(tx, newYear.UnixMilli(), &charge, true)
					if !out.Admitted {
						t.Errorf("charge %d was refused", i)
					}
					return err
				})
				if err != nil || i > 0 && (queries != 1 || execs != 1) {
					t.Errorf("charge %d: %d queries and %d writes, %v; want 1 and 1", i, queries, execs, err)
				}
			}
			if stored := storedBucket(t, r); stored.detailed != (limit.IsQuota() || limit.IsShadow) {
				t.Errorf("detailed: %t", stored.detailed)
			}
		})
	}
}
