package dynamo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Migration is a change of the stored data of older releases of zae-limiter to
// the schema that this package reads.
type Migration struct {
	Version     string // the release that introduced the new schema
	Description string // what changes
	Reversible  bool   // whether the old data can be restored from the new

	pending func(*migrator) bool
	run     func(*migrator, context.Context) error
}

// Migrations returns all migrations in the order in which they run.
func Migrations() []Migration {
	return []Migration{
		{
			Version:     "0.8.0",
			Description: "limits: an item for each limit becomes an item for each level",
			pending:     (*migrator).limitsPending,
			run:         (*migrator).migrateLimits,
		},
		{
			Version:     "0.10.0",
			Description: "namespaces: items without one move to the namespace default",
			pending:     (*migrator).keysPending,
			run:         (*migrator).migrateKeys,
		},
	}
}

// MigrateOptions configures [Migrate] and [PendingMigrations]. The zero value of
// a field means its default.
type MigrateOptions struct {
	// Options say how to reach the table. Options of buckets and caches have no
	// effect.
	Options Options
	// DeleteOriginals deletes items without a namespace once they have been copied
	// into one. Without it, an older release can still use them.
	DeleteOriginals bool
	// All runs every migration, whatever the version records say. It is needed for
	// a table without a version record that Python has opened: Python then records
	// the newest version without checking the data.
	All bool
	// Progress, if not nil, is called after every change. Calls do not overlap.
	Progress func(Progress)
}

// Progress describes the progress of a migration.
type Progress struct {
	Version string // the version of the migration
	Items   int64  // items written or deleted
	Kept    int64  // originals not deleted, because they have no copy
	Done    bool   // whether the migration is complete
}

// MigrationError reports the migration that failed. Its changes so far are kept,
// and the next Migrate continues from there.
type MigrationError struct {
	Version string   // the version of the failed migration
	Applied []string // the versions of the migrations completed before
	Err     error
}

// Error returns a message with the failed migration and the completed ones.
func (e *MigrationError) Error() string {
	applied := "nothing was applied before"
	if len(e.Applied) > 0 {
		applied = "applied before: " + strings.Join(e.Applied, ", ")
	}
	return fmt.Sprintf("migration to %s stopped, and can be run again (%s): %v", e.Version, applied, e.Err)
}

// Unwrap returns the cause of the failure.
func (e *MigrationError) Unwrap() error { return e.Err }

// Migrate migrates a table to the schema that this package reads. It returns the
// versions applied, none if the table is up to date. Every step can be repeated:
// after an error or a crash another call continues, and concurrent calls are
// safe. Migrate updates a version record only after its migration is complete,
// and only if the record has not changed.
//
// Services of Python's release 0.10.0 and of this package may run during a migration, but
// must not change limits. Stop services of older releases first: a migration
// loses what they write to an item after it was copied.
//
// Migrate returns the same errors as Connect before the first migration starts,
// and *MigrationError afterwards.
func Migrate(ctx context.Context, name string, opts *MigrateOptions) ([]string, error) {
	m, err := newMigrator(ctx, "migrate", name, opts)
	if err != nil {
		return nil, err
	}

	// A migration may have to wait for a busy table longer than a call would.
	ctx = withoutTryTimeout(ctx)
	var applied []string

	for _, migration := range Migrations() {
		if !m.options.All && !migration.pending(m) {
			continue
		}
		m.progress = Progress{Version: migration.Version}

		err := migration.run(m, ctx)
		if err == nil {
			// The next migration decides by the records that this one has
			// written.
			err = m.readVersions(ctx)
		}
		if err != nil {
			return applied, &MigrationError{
				Version: migration.Version, Applied: applied, Err: m.failure(ctx, "migrate", err),
			}
		}

		m.report(Progress{Done: true})
		applied = append(applied, migration.Version)
	}

	// A table without any version record would be searched for old items by
	// every run.
	if err := m.claimVersion(ctx); err != nil {
		return applied, m.failure(ctx, "migrate", err)
	}
	return applied, nil
}

// PendingMigrations returns the migrations that Migrate would run. It writes
// nothing.
func PendingMigrations(ctx context.Context, name string, opts *MigrateOptions) ([]Migration, error) {
	m, err := newMigrator(ctx, "migrate", name, opts)
	if err != nil {
		return nil, err
	}

	return slices.DeleteFunc(Migrations(), func(migration Migration) bool {
		return !m.options.All && !migration.pending(m)
	}), nil
}

// migrator is the state of one call of Migrate.
type migrator struct {
	*store
	options         MigrateOptions
	current, legacy item // version records with and without a namespace

	progressMu sync.Mutex
	progress   Progress // guarded by progressMu
	// registryMu is held while a registry is changed. All workers write the
	// same item, so their transactions would conflict.
	registryMu sync.Mutex
}

func newMigrator(ctx context.Context, op, name string, opts *MigrateOptions) (*migrator, error) {
	m := &migrator{}
	if opts != nil {
		m.options = *opts
	}
	var err error
	if m.store, err = newStore(ctx, op, name, &m.options.Options); err != nil {
		return nil, err
	}

	if err := m.readVersions(ctx); err != nil {
		return nil, m.failure(ctx, op, err)
	}
	return m, nil
}

// readVersions reads and checks both version records.
func (m *migrator) readVersions(ctx context.Context) error {
	found, err := m.getAll(ctx, []key{versionKey(), legacyVersionKey()})
	if err != nil {
		return err
	}

	m.current, m.legacy = found[versionKey()], found[legacyVersionKey()]
	for _, record := range []item{m.current, m.legacy} {
		if err := m.checkVersion(record); err != nil {
			return err
		}
	}
	return nil
}

// isOlder reports whether a valid version record has an older schema version than
// this package.
func isOlder(record item) bool {
	stored, _ := parseVersion(decodeVersion(record).schema)
	ours, _ := parseVersion(schemaVersion)
	return stored.compare(ours) < 0
}

// updateSchema sets the schema version in the version record to that of this
// package. It does nothing if another process has changed the schema version.
func (m *migrator) updateSchema(ctx context.Context) error {
	if m.current == nil || !isOlder(m.current) {
		return nil
	}

	in := &dynamodb.UpdateItemInput{TableName: &m.table, Key: versionKey().at()}
	seen := new(condition).same(m.current, attrSchema)
	in.UpdateExpression = aws.String("SET #schema = :schema, #at = :at, #by = :by")
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = seen.parts()
	maps.Copy(in.ExpressionAttributeNames, map[string]string{
		"#schema": attrSchema, "#at": attrUpdatedAt, "#by": attrUpdatedBy,
	})
	maps.Copy(in.ExpressionAttributeValues, item{
		":schema": text(schemaVersion), ":at": stamp(m.clock()), ":by": text(updatedBy),
	})

	_, err := m.slow.UpdateItem(ctx, in)
	if resultOf(err) == refused {
		return nil
	}
	return m.explain(err)
}

// report adds to the progress and calls the callback.
func (m *migrator) report(add Progress) {
	m.progressMu.Lock()
	defer m.progressMu.Unlock()
	m.progress.Items += add.Items
	m.progress.Kept += add.Kept
	m.progress.Done = add.Done

	if m.options.Progress != nil {
		m.options.Progress(m.progress)
	}
}
