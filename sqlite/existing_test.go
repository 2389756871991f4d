package sqlite_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// contents returns the contents of the files in a folder, by name.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func TestExistingCreatesNothing(t *testing.T) {
	isNotExist := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
	isNotFound := func(err error) bool { return errors.Is(err, limiter.ErrNotFound) }
	for name, c := range map[string]struct {
		prepare   func(t *testing.T, path string)
		namespace string
		refused   func(error) bool
	}{
		"a missing file": {func(*testing.T, string) {}, "", isNotExist},
		"an empty file": {func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "", isType[*limiter.VersionError]},
		"a database without tables": {func(t *testing.T, path string) {
			t.Helper()
			script(t.Context(), t, path, "CREATE TABLE gone (id INTEGER); DROP TABLE gone")
		}, "", isType[*limiter.VersionError]},
		"a missing namespace": {createStore, "missing", isNotFound},
		"a deleted namespace": {func(t *testing.T, path string) {
			t.Helper()
			createStore(t, path)
			script(t.Context(), t, path, "UPDATE namespaces_v7 SET deleted = 1")
		}, "", isNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "limits.db")
			c.prepare(t, path)
			before := contents(t, folder)
			if err := openError(t, path, &sqlite.Options{Namespace: c.namespace, Existing: true}); !c.refused(err) {
				t.Error(err)
			}
			if diff := cmp.Diff(before, contents(t, folder)); diff != "" {
				t.Errorf("the folder was changed:\n%s", diff)
			}
			if err := openError(t, path, &sqlite.Options{
				Namespace: c.namespace, Existing: true, ReadOnly: true,
			}); !c.refused(err) {
				t.Errorf("read-only: %v", err)
			}
		})
	}
}

// createStore creates a store and closes it.
func createStore(t *testing.T, path string) {
	t.Helper()
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestExistingDoesNotCreateTheFolder(t *testing.T) {
	folder := t.TempDir()
	if err := openError(
		t, filepath.Join(folder, "no", "limits.db"), &sqlite.Options{Existing: true},
	); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if files := contents(t, folder); len(files) > 0 {
		t.Errorf("it created %v", files)
	}
}

func TestExistingOpensAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	createStore(t, path)
	lim := limiterOn(t, open(t, path, &sqlite.Options{Existing: true}))
	if err := lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)); err != nil {
		t.Error(err)
	}
	if _, err := lim.RegisterNamespaces(t.Context(), "other"); err != nil { // an explicit call still creates one
		t.Error(err)
	}
	open(t, path, &sqlite.Options{Existing: true, Namespace: "other"})
}

func TestExistingMigratesAnOlderStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	script(t.Context(), t, path, "PRAGMA application_id = 0x7a61656c") // an empty store, before its first version
	if err := openError(t, path, &sqlite.Options{Existing: true}); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err) // it has tables now, but no namespace
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var version, namespaces int
	row := db.QueryRowContext(t.Context(),
		"SELECT user_version, (SELECT count(*) FROM namespaces_v7) FROM pragma_user_version")
	if err := row.Scan(&version, &namespaces); err != nil || version < 1 || namespaces != 0 {
		t.Errorf("version %d, %d namespaces, %v", version, namespaces, err)
	}
}

func TestSchemaVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, nil)
	newest := repo.SchemaVersion()
	if newest < 1 {
		t.Errorf("a new file has version %d", newest)
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	script(t.Context(), t, path, `DROP VIEW buckets; ALTER TABLE buckets_v7 RENAME TO buckets; DROP VIEW namespaces;
		ALTER TABLE namespaces_v7 RENAME TO namespaces; PRAGMA user_version = 0`) // as if it were older
	older := open(t, path, &sqlite.Options{ReadOnly: true})
	view, err := older.Namespace(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	if got := view.(*sqlite.Repository).SchemaVersion(); got != 0 {
		t.Errorf("version %d, want 0", got)
	}
}
