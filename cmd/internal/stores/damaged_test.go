package stores_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

func TestDamagedLimitsArePlannedAndReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo, err := sqlite.Open(bg, path, nil)
	check(t, err)
	defer repo.Close()
	gone, kept := limiter.Scope{Resource: "gone"}, limiter.Scope{Resource: "kept"}
	for i, s := range []limiter.Scope{{}, gone, kept} {
		storeConfig(t, repo, limiter.Config{Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}},
			fmt.Sprint(i))
	}
	check(t, repo.SetManaged(bg, epoch, "", "before", "", []limiter.Scope{gone}))
	db, err := sql.Open("sqlite", path)
	check(t, err)
	defer db.Close()
	_, err = db.ExecContext(bg, "UPDATE configs SET limits = 'nonsense'")
	check(t, err)
	if _, err := manifest.Export(bg, repo, ""); !strings.Contains(fmt.Sprint(err), "corrupt data") {
		t.Errorf("export: %v", err)
	}
	m := parse(t, "system: {on_unavailable: allow}\nresources: {kept: {limits: {rpm: {capacity: 1}}}}")
	plan, report, err := manifest.Apply(bg, repo, m, nil)
	check(t, err)
	var planned []string
	for _, c := range plan.Changes {
		planned = append(planned, fmt.Sprint(c.Action, " ", manifest.Level(c.Scope), " ", manifest.Target(c.Scope)))
	}
	equal(t, "plan", planned, []string{"update system ", "update resource kept", "delete resource gone"})
	equal(t, "what differs", plan.Changes[0].Fields(), []manifest.Field{
		{Name: "state", Before: "damaged", After: "sound"}, {Name: "on_unavailable", After: "allow"},
	})
	equal(t, "what goes", plan.Changes[2].Fields(), []manifest.Field{{Name: "state", Before: "damaged"}})
	equal(t, "failed", len(report.Failed()), 0)
	again, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	equal(t, "done", again.Done(), true)
}

// openDamaged returns a store with the given text as its list of managed
// levels.
func openDamaged(t *testing.T, list string, m *manifest.Manifest) limiter.Repository {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.db")
	repo, err := sqlite.Open(bg, path, nil)
	check(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	_, _, err = manifest.Apply(bg, repo, m, nil)
	check(t, err)
	db, err := sql.Open("sqlite", path)
	check(t, err)
	defer db.Close()
	_, err = db.ExecContext(bg, "UPDATE managed SET scopes = ?", list)
	check(t, err)
	return repo
}

// TestDamagedListSaysWhatToDo checks the suggested command, and that it works.
func TestDamagedListSaysWhatToDo(t *testing.T) {
	old, next := entityManifest("old", 2, 1), entityManifest("new", 2, 1)
	for name, damage := range map[string]string{"the list": "nonsense", "a name": `[["a b","gpt-4"]]`} {
		t.Run(name, func(t *testing.T) {
			repo := openDamaged(t, damage, old)
			_, planErr := manifest.NewPlan(bg, repo, next, nil)
			_, _, applyErr := manifest.Apply(bg, repo, next, nil)
			for _, err := range []error{planErr, applyErr} {
				if _, ok := errors.AsType[*limiter.CorruptError](err); !ok || !strings.Contains(
					err.Error(), "`zae-limiter limits apply FILE --forget`",
				) {
					t.Errorf("error %v", err)
				}
			}
			_, report, err := manifest.Apply(bg, repo, next, &manifest.Options{Forget: true})
			check(t, err)
			equal(t, "created", report.Count(manifest.Create), 2)
			got, err := manifest.Export(bg, repo, "")
			check(t, err)
			equal(t, "stored", declared(got),
				declared(&manifest.Manifest{Levels: slices.Concat(old.Levels, next.Levels)}))
			scopes, _ := managed(t, repo)
			equal(t, "managed", scopes, declared(next))
		})
	}
}
