package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// The statements that calls of version 4 begin or end with.
const (
	columnsOf4 = "b.id, b.entity, b.resource, b.facts, b.parent, b.limits, b.level, b.tokens, b.at, b.idle, " +
		"b.expires, b.hour, b.used, b.events, b.pulled"
	chargeOf4 = "SELECT n.facts, " + columnsOf4 + ` FROM namespaces n LEFT JOIN buckets b ON b.ns = n.key AND b.entity = 'alice' AND b.resource = 'gpt-4'
		WHERE n.key = 1 AND n.deleted IS NULL`
	configOf4 = "SELECT facts FROM namespaces WHERE key = 1 AND deleted IS NULL"
	openOf4   = "SELECT key, id, name, created, deleted, purging FROM namespaces WHERE name = 'default' " +
		"AND deleted IS NULL"
	pingOf4   = "SELECT 1 FROM namespaces LIMIT 1"
	creditOf4 = "SELECT b.tokens FROM buckets b WHERE b.id = 1"
	saveOf4   = "UPDATE buckets SET tokens = '[0]', at = 0, expires = 0, hour = 0, used = '[0]', events = " +
		"0, pulled = 0 WHERE id = 1"
	expireOf4   = "DELETE FROM buckets WHERE id = 1"
	purgeOf4    = "DELETE FROM buckets WHERE rowid IN (SELECT rowid FROM buckets WHERE ns = 1 LIMIT 1)"
	registerOf4 = "INSERT INTO namespaces (id, name, created) VALUES ('second', 'other', 0)"
	changeOf4   = "UPDATE namespaces SET facts = facts + 1 WHERE key = 1"
	createOf4   = `INSERT INTO buckets (facts, parent, limits, level, tokens, at, idle, expires, hour, used, events, pulled, ns, entity, resource)
		VALUES (1, '', '[]', 3, '[]', 0, 0, 0, 0, '[]', 0, 0, 1, 'bob', 'gpt-4')`
)

// TestOlderProcessIsLockedOut migrates a file while a process of version 4 has it
// open, with prepared statements. That process finds no namespace, which it treats
// as an error and not as an outage, and no bucket that it can read or write.
func TestOlderProcessIsLockedOut(t *testing.T) {
	path := olderFile(t, quotasSince-1)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	prepared := map[string]*sql.Stmt{}
	reads, writes := []string{chargeOf4, configOf4, openOf4, pingOf4}, []string{
		saveOf4, expireOf4, purgeOf4, registerOf4, changeOf4, createOf4,
	}
	for _, query := range slices.Concat(reads, writes, []string{creditOf4}) {
		//nolint:sqlclosecheck // db closes them
		if prepared[query], err = db.PrepareContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	checkRows := func(want int) {
		t.Helper()
		for _, query := range reads {
			if found, err := countRows(t.Context(), prepared[query]); err != nil || found != want {
				t.Errorf("%s: %d rows, %v; want %d", query, found, err, want)
			}
		}
	}
	checkRows(1)
	r := openFile(t, path, nil)
	useNewColumns(t, r)
	before := storedBucket(t, r)
	checkRows(0)
	for _, query := range writes {
		if _, err := prepared[query].ExecContext(t.Context()); err == nil {
			t.Errorf("%s: done by the older process", query)
		}
	}
	var tokens string // what a credit and a sweep read
	if err := prepared[creditOf4].QueryRowContext(t.Context()).Scan(&tokens); err != nil ||
		strings.HasPrefix(tokens, "[") {
		t.Errorf("tokens %q, %v; want a sentence, which is no list", tokens, err)
	}
	if after := storedBucket(t, r); !cmp.Equal(before.Tokens, after.Tokens) || before.Events != after.Events {
		t.Errorf("the bucket is %+v, was %+v", after, before)
	}
}

func countRows(ctx context.Context, s *sql.Stmt) (found int, err error) {
	rows, err := s.QueryContext(ctx)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		found++
	}
	return found, rows.Err()
}

// TestNewerProcessLocksThisOneOut renames a table as the migration of a later
// version would. Calls say that the file is newer; they are not an outage, so that
// Allow admits nothing.
func TestNewerProcessLocksThisOneOut(t *testing.T) {
	path := olderFile(t, len(migrations))
	r := openFile(t, path, nil)
	reader := openFile(t, path, &Options{ReadOnly: true})
	lim := limiterOn(t, r)
	req := limiter.Request{
		Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1), OnUnavailable: limiter.Allow,
	}
	lease, err := lim.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(
		t.Context(),
		"ALTER TABLE namespaces_v7 RENAME TO namespaces_v99; ALTER TABLE buckets_v7 RENAME TO buckets_v99; "+
			"PRAGMA user_version = 99",
	); err != nil {
		t.Fatal(err)
	}
	check := func(what string, err error) {
		t.Helper()
		if newer, ok := errors.AsType[*limiter.VersionError](err); !ok || newer.Schema != "99" {
			t.Errorf("%s: got %v, want a VersionError", what, err)
		}
	}
	_, err = lim.Acquire(t.Context(), req)
	check("acquire", err)
	check("rollback", lease.Rollback(t.Context()))
	check("set limits", lim.SetLimits(t.Context(), "alice", "gpt-4", limiter.PerMinute("rpm", 5)))
	check("ping", r.Ping(t.Context()))
	_, err = reader.Peek(t.Context(), time.Now(), chargeOf(limiter.Tokens("rpm", 1)))
	check("peek", err)
}

// TestListsOfAnOlderProcess reads a bucket whose limits a process of version 4
// changed: it left the starts of windows and the counters of the limits before.
func TestListsOfAnOlderProcess(t *testing.T) {
	r := openFile(t, olderFile(t, len(migrations)), nil)
	for _, left := range []string{
		"starts = '[0,5]'", "starts = '[7]'", "starts = '[0,5,0,1]'", "spared = '[3,0]'",
		"starts = '[0,5,7]', spared = '[3,0,0]'",
	} {
		err := r.write(t.Context(), time.Time{}, func(tx *tx) error {
			return tx.script("UPDATE buckets_v7 SET " + left)
		})
		if err != nil {
			t.Fatal(err)
		}
		checkOlder(t, r)
	}
	if out, err := r.Consume(t.Context(), newYear, chargeOf(limiter.Tokens("rpm", 2))); err != nil || !out.Admitted {
		t.Fatal(out, err)
	}
	if found := storedBucket(t, r); found.detailed {
		t.Errorf("%+v; want a bucket without starts and counters", found)
	}
}
