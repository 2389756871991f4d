package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// openError returns the error of opening a file. It checks that the error is one
// line that names the file.
func openError(t *testing.T, path string, opts *sqlite.Options) error {
	t.Helper()
	repo, err := sqlite.Open(t.Context(), path, opts)
	if err == nil {
		_ = repo.Close()
		t.Fatalf("%s was opened", path)
	}
	if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), filepath.Base(path)) {
		t.Errorf("the error is not one line that names the file: %v", err)
	}
	return err
}

func script(ctx context.Context, t *testing.T, path, script string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, script); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesUnusableFiles(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, content string, mode os.FileMode) {
		if err := os.WriteFile(path(name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("a missing folder", func(t *testing.T) {
		if err := openError(t, path("no/limits.db"), nil); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("a read-only file", func(t *testing.T) {
		write("readonly.db", "", 0o444)
		if err := openError(t, path("readonly.db"), nil); !errors.Is(err, fs.ErrPermission) ||
			!strings.Contains(err.Error(), "open it read-only") {
			t.Error(err)
		}
	})
	t.Run("a file that is no database", func(t *testing.T) {
		write("text.db", strings.Repeat("no database at all\n", 100), 0o644)
		if err := openError(t, path("text.db"), nil); !isType[*limiter.CorruptError](err) {
			t.Error(err)
		}
	})
	t.Run("a newer version", func(t *testing.T) {
		if err := open(t, path("newer.db"), nil).Close(); err != nil {
			t.Fatal(err)
		}
		script(t.Context(), t, path("newer.db"), "PRAGMA user_version = 99")
		for _, readOnly := range []bool{false, true} {
			if err := openError(
				t, path("newer.db"), &sqlite.Options{ReadOnly: readOnly},
			); !isType[*limiter.VersionError](err) {
				t.Error(err)
			}
		}
	})
	t.Run("a database of another program", func(t *testing.T) {
		script(t.Context(), t, path("other.db"), "CREATE TABLE orders (id INTEGER)")
		for _, readOnly := range []bool{false, true} {
			if err := openError(
				t, path("other.db"), &sqlite.Options{ReadOnly: readOnly},
			); !isType[*limiter.VersionError](err) {
				t.Error(err)
			}
		}
	})
	t.Run("a folder", func(t *testing.T) {
		if err := openError(t, folder, nil); !isType[*limiter.InvalidError](err) {
			t.Error(err)
		}
	})
	t.Run("a missing file, read-only", func(t *testing.T) {
		if err := openError(t, path("missing.db"), &sqlite.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := os.Stat(path("missing.db")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("it was created")
		}
	})
	t.Run("bad options", func(t *testing.T) {
		for _, o := range []sqlite.Options{
			{Namespace: "a#b"}, {Namespace: "_"}, {BusyTimeout: -1}, {AuditRetention: -1}, {UsageRetention: -1},
		} {
			if _, err := sqlite.Open(t.Context(), path("options.db"), &o); !isType[*limiter.InvalidError](err) {
				t.Errorf("%+v: %v", o, err)
			}
		}
		if _, err := os.Stat(path("options.db")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("the file was created")
		}
	})
}

func isType[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

func isClosed(err error) bool { return errors.Is(err, limiter.ErrClosed) }

func TestOpenCreatesTheFileAndItsNamespace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd name?#100%.db")
	for range 2 { // the second time it exists
		repo, err := sqlite.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for n, err := range repo.Namespaces(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, n.Name)
		}
		if len(names) != 1 || names[0] != "default" {
			t.Errorf("namespaces %v", names)
		}
		if err := repo.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// lock holds the write lock like another process, until unlock is called.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	do := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	do("BEGIN IMMEDIATE")
	return func() { do("ROLLBACK") }
}

func TestLockedFileIsAnOutage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, &sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	lim := limiterOn(t, repo)
	if err := lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, path)
	req := limiter.Request{Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)}

	_, err := lim.Acquire(t.Context(), req)
	if !isType[*limiter.UnavailableError](err) || !strings.Contains(err.Error(), "locked by another process") {
		t.Errorf("blocked: %v", err)
	}
	req.OnUnavailable = limiter.Allow
	lease, err := lim.Acquire(t.Context(), req)
	if err != nil || !isType[*limiter.UnavailableError](lease.Outage()) {
		t.Errorf("allowed: %v, outage %v", err, lease.Outage())
	}
	if _, err := sqlite.Open(
		t.Context(), filepath.Join(filepath.Dir(path), "limits.db"),
		&sqlite.Options{BusyTimeout: time.Millisecond},
	); err != nil && !strings.Contains(err.Error(), "locked") {
		t.Errorf("opening: %v", err)
	}
	unlock()
	req.OnUnavailable = ""
	if _, err := lim.Acquire(t.Context(), req); err != nil {
		t.Errorf("after the unlock: %v", err)
	}
}

// TestDeadlineEndsTheWaitForTheLock checks that a call does not wait for the busy
// timeout beyond its deadline, and stores nothing.
func TestDeadlineEndsTheWaitForTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, &sqlite.Options{BusyTimeout: time.Hour})
	lim := limiterOn(t, repo)
	if err := lim.SetSystemDefaults(t.Context(), slow("rpm", 10)); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := lim.Acquire(ctx, limiter.Request{Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)})
	if !isType[*limiter.UnavailableError](err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	unlock()
	left, err := lim.Available(t.Context(), "alice", "gpt-4")
	if err != nil || left.Get("rpm") != 10 {
		t.Errorf("%s left, want all of it: %v", left, err)
	}
}

func TestReadOnlyDoesNotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	writing := open(t, path, nil)
	if err := limiterOn(t, writing).SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)); err != nil {
		t.Fatal(err)
	}
	if err := writing.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	lim := limiterOn(t, open(t, path, &sqlite.Options{ReadOnly: true}))
	if limits, _, err := lim.SystemDefaults(t.Context()); err != nil || len(limits) != 1 {
		t.Errorf("reading: %v %v", limits, err)
	}
	_, err := lim.Acquire(t.Context(), limiter.Request{
		Entity: "a", Resource: "r", Consume: limiter.Tokens("rpm", 1), OnUnavailable: limiter.Allow,
	})
	if !errors.Is(err, limiter.ErrConflict) {
		t.Errorf("writing: %v", err)
	}
	if _, err := sqlite.Open(
		t.Context(), path, &sqlite.Options{ReadOnly: true, Namespace: "missing"},
	); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("a missing namespace: %v", err)
	}
}
