package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// olderFile creates a file of an older version, as the program of that time left
// it: alice has taken 4 of 10 tokens, and her bucket has booked one more.
func olderFile(t *testing.T, version int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "limits.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const limits = `[{"name":"rpm","capacity":10,"refill_amount":10,"refill_period_seconds":60}]`
	ms := newYear.UnixMilli()
	names := func(query string) string { return olderNames(version, query) }
	script := append([]string{"PRAGMA journal_mode = WAL; BEGIN"}, migrations[:version]...)
	script = append(script,
		fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version),
		names("INSERT INTO namespaces_v7 (id, name, created) VALUES ('first', 'default', 0)"),
		"INSERT INTO configs VALUES (1, '', '', '"+limits+"', 'allow')",
		fmt.Sprintf(names(`INSERT INTO buckets_v7 (ns, entity, resource, facts, parent, limits, level, tokens, at, idle, expires, hour, used, events)
			VALUES (1, 'alice', 'gpt-4', 1, '', '%s', 3, '[6000]', %d, 420000, %d, %d, '[4]', 1)`), limits, ms,
			ms+420000, ms),
		fmt.Sprintf(`INSERT INTO usage (ns, entity, resource, window, start, counters, events, expires)
			VALUES (1, 'alice', 'gpt-4', 'monthly', %d, '{"rpm":1}', 1, %d)`, newYear.Unix(),
			newYear.AddDate(1, 0, 0).Unix()),
		"COMMIT")
	if _, err := db.ExecContext(t.Context(), strings.Join(script, ";\n")); err != nil {
		t.Fatalf("version %d: %v", version, err)
	}
	return path
}

func chargeOf(amounts limiter.Amounts) limiter.Charge {
	return limiter.Charge{Entity: "alice", Resource: "gpt-4", Amounts: amounts}
}

// TestOlderFilesAreReadAndMigrated opens files of every released version: read-only
// they stay as they are, otherwise they are migrated.
func TestOlderFilesAreReadAndMigrated(t *testing.T) {
	for version := 1; version <= len(migrations); version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			path := olderFile(t, version)
			for _, opts := range []*Options{{ReadOnly: true}, nil} {
				r := openFile(t, path, opts)
				if want := version; opts != nil && r.SchemaVersion() != want {
					t.Errorf("version %d, want %d", r.SchemaVersion(), want)
				}
				checkOlder(t, r)
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			useNewColumns(t, openFile(t, path, nil))
		})
	}
}

// checkOlder checks every read of the contents of olderFile.
func checkOlder(t *testing.T, r *Repository) {
	t.Helper()
	out, err := r.Peek(t.Context(), newYear, chargeOf(limiter.Tokens("rpm", 2)))
	if err != nil || !out.Admitted || out.Payers[0].Tokens[0] != 4_000 || out.Payers[0].Detail != nil {
		t.Errorf("peek: %+v, %v; want 4 tokens left", out, err)
	}
	buckets := 0
	for b, err := range r.Buckets(t.Context(), newYear, limiter.Scope{}) {
		if err != nil || b.Tokens[0] != 6_000 {
			t.Errorf("bucket %+v, %v", b, err)
		}
		buckets++
	}
	if buckets != 1 {
		t.Errorf("%d buckets", buckets)
	}
	for u, err := range r.Usage(t.Context(), limiter.UsageQuery{Window: limiter.Monthly}) {
		if err != nil || u.Counters["rpm"] != 5 || u.WouldRefuse != nil {
			t.Errorf("usage %+v, %v; want 5", u, err)
		}
	}
	for s, err := range r.Switches(t.Context()) {
		t.Errorf("switch %+v, %v", s, err)
	}
	if mode := r.OnUnavailable(); mode != limiter.Allow {
		t.Errorf("mode %q", mode)
	}
	if off := r.LastSwitch("alice", "gpt-4"); off != nil {
		t.Errorf("off: %+v", off)
	}
}

// useNewColumns stores what only the newest version can store.
func useNewColumns(t *testing.T, r *Repository) {
	t.Helper()
	cfg := limiter.Config{Limits: []limiter.Limit{
		limiter.Quota("tokens", 5, limiter.EveryDay), limiter.PerMinute("rpm", 10).Shadow(),
	}}
	if err := r.SetConfig(t.Context(), cfg, limiter.AuditEvent{ID: "1", At: newYear}); err != nil {
		t.Fatal(err)
	}
	out, err := r.Consume(t.Context(), newYear, chargeOf(limiter.Tokens("rpm", 7).And("tokens", 5)))
	if err != nil || !out.Admitted || !cmp.Equal(out.Payers[0].Tokens, []int64{6_000, 0}) {
		t.Fatalf("%+v, %v; want the shadow limit spared and the quota empty", out, err)
	}
	want := &limiter.Detail{
		At: newYear.UnixMilli(), Starts: []int64{0, newYear.UnixMilli()}, Spared: []bool{true, false},
	}
	if diff := cmp.Diff(want, out.Payers[0].Detail); diff != "" {
		t.Error(diff)
	}
	for u, err := range r.Usage(t.Context(), limiter.UsageQuery{Window: limiter.Monthly}) {
		if err != nil || u.Counters["rpm"] != 12 || u.WouldRefuse["rpm"] != 1 {
			t.Errorf("usage %+v, %v; want 12, spared once", u, err)
		}
	}
}

// TestReaderOfAMigratedFile checks that a reader that opened an older file sees
// what the process that migrated it stores.
func TestReaderOfAMigratedFile(t *testing.T) {
	path := olderFile(t, quotasSince-1)
	reader := openFile(t, path, &Options{ReadOnly: true})
	checkOlder(t, reader)
	writer := openFile(t, path, nil)
	useNewColumns(t, writer)
	out, err := reader.Peek(t.Context(), newYear, chargeOf(limiter.Tokens("tokens", 1)))
	if err != nil || out.Admitted || out.Payers[0].Detail == nil {
		t.Errorf("%+v, %v; want the quota", out, err)
	}
	off := limiter.Switch{Scope: limiter.Scope{Entity: "alice"}, Reason: "leaked", Since: newYear}
	if err := writer.SetSwitch(t.Context(), off, limiter.AuditEvent{ID: "2", At: newYear}); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Peek(t.Context(), newYear, chargeOf(limiter.Amounts{})); !isDisabled(err) {
		t.Errorf("got %v, want a DisabledError", err)
	}
	if got := reader.LastSwitch("alice", "gpt-4"); got == nil || *got != off {
		t.Errorf("last switch %+v", got)
	}
}

func isDisabled(err error) bool {
	_, ok := errors.AsType[*limiter.DisabledError](err)
	return ok
}
