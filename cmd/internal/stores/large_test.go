package stores_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// TestFiveHundredEntities creates, compares and deletes 500 entities. On DynamoDB
// 150 are enough to exceed every batch and page. It logs the durations and does
// not check them.
func TestFiveHundredEntities(t *testing.T) {
	text, err := os.ReadFile("../../../manifest/testdata/valid/many.yaml")
	check(t, err)
	for _, name := range []string{"sqlite", "dynamo"} {
		t.Run(name, func(t *testing.T) {
			repo := managedStores[name](t)
			apply := func(m *manifest.Manifest, action manifest.Action, want int) {
				t.Helper()
				begin := time.Now()
				_, report, err := manifest.Apply(bg, repo, m, nil)
				check(t, err)
				t.Logf("%s %d in %v", action, want, time.Since(begin).Round(time.Millisecond))
				equal(t, "how many", report.Count(action), want)
				equal(t, "of how many", len(report.Results), want)
			}
			many := parse(t, string(text))
			many.Namespace = ""
			if name == "dynamo" {
				many.Levels = many.Levels[:150]
			}
			n := len(many.Levels)
			apply(many, manifest.Create, n)
			apply(many, manifest.Update, 0)
			checkInForce(t, repo, many)
			apply(&manifest.Manifest{}, manifest.Delete, n)
			checkInForce(t, repo, &manifest.Manifest{})
		})
	}
}

// createOldFile creates a file as an older version left it.
func createOldFile(t *testing.T, undo string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.db")
	repo, err := sqlite.Open(bg, path, nil)
	check(t, err)
	check(t, repo.SetManaged(bg, epoch, "", "before", "", []limiter.Scope{{Resource: "gone"}}))
	check(t, repo.Close())
	db, err := sql.Open("sqlite", path)
	check(t, err)
	defer db.Close()
	_, err = db.ExecContext(bg, undo)
	check(t, err)
	return path
}

// TestFileOfBeforeThereWereManifests checks that files without manifests or
// owners can be read, and are upgraded by a write.
func TestFileOfBeforeThereWereManifests(t *testing.T) {
	for undo, released := range map[string]int{
		"DROP TABLE managed; PRAGMA user_version = 1":                    0,
		"ALTER TABLE managed DROP COLUMN owner; PRAGMA user_version = 2": 1,
	} {
		const later = "DROP VIEW buckets; ALTER TABLE buckets_v7 RENAME TO buckets; DROP VIEW namespaces; " +
			"ALTER TABLE namespaces_v7 RENAME TO namespaces; " +
			"DROP TABLE switches; DROP TABLE top_ups; ALTER TABLE usage DROP COLUMN would_refuse; " +
			"ALTER TABLE buckets DROP COLUMN starts; ALTER TABLE buckets DROP COLUMN spared; ALTER TABLE " +
			"buckets DROP COLUMN pulled; " +
			"ALTER TABLE buckets DROP COLUMN peaks; ALTER TABLE buckets DROP COLUMN keep; " +
			"ALTER TABLE buckets DROP COLUMN left_limits; ALTER TABLE buckets DROP COLUMN left_levels; " +
			"ALTER TABLE namespaces DROP COLUMN switched; ALTER TABLE entities DROP COLUMN generation; "
		path := createOldFile(t, later+undo)
		read, err := sqlite.Open(bg, path, &sqlite.Options{ReadOnly: true})
		check(t, err)
		m := entityManifest("a", 2, 1)
		plan, err := manifest.NewPlan(bg, read, m, nil)
		check(t, err)
		equal(t, "changes", len(plan.Changes), 2)
		equal(t, "released", len(plan.Released), released)
		check(t, read.Close())
		repo, err := sqlite.Open(bg, path, nil)
		check(t, err)
		_, _, err = manifest.Apply(bg, repo, m, nil)
		check(t, err)
		checkInForce(t, repo, m)
		check(t, repo.Close())
	}
}
