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

// Migration is a change from what older releases of zae-limiter stored to what
// this package reads.
type Migration struct {
	Version     string // the release that began to store the new form
	Description string // what becomes of what
	Reversible  bool   // whether the old form can be made again from the new one

	pending func(*migrator) bool
	run     func(*migrator, context.Context) error
}

// Migrations are all there are, in the order in which they run.
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

// MigrateOptions are those of [Migrate] and [PendingMigrations]. The zero value
// of a field is its default.
type MigrateOptions struct {
	Options Options // how to reach the table; what is about buckets and caches has no effect
	// DeleteOriginals removes items without a namespace once they have been
	// copied into one. Until then an older release finds them as they were.
	DeleteOriginals bool
	// All runs every migration, whatever the version records say. Python writes
	// the newest version into a table that has no record, and looks at nothing:
	// data that were there before then seem to be migrated.
	All bool
	// Progress is called after every change, from one goroutine at a time.
	Progress func(Progress)
}

// Progress is how far a migration has come.
type Progress struct {
	Version string // of the migration
	Items   int64  // that it has written or deleted
	Kept    int64  // originals that stay, because their copies have gone or never were
	Done    bool   // it is complete
}

// MigrationError says which migration failed. What it has done so far stays;
// the next Migrate goes on from there.
type MigrationError struct {
	Version string   // of the migration that failed
	Applied []string // versions of those that were complete before
	Err     error    // why
}

// Error names the migration that failed, and those that did not.
func (e *MigrationError) Error() string {
	applied := "nothing was applied before"
	if len(e.Applied) > 0 {
		applied = "applied before: " + strings.Join(e.Applied, ", ")
	}
	return fmt.Sprintf("migration to %s stopped, and can be run again (%s): %v", e.Version, applied, e.Err)
}

// Unwrap is why it failed.
func (e *MigrationError) Unwrap() error { return e.Err }

// Migrate brings a table to the form that this package reads, and returns the
// versions that were applied, none if it has that form already. Every step may
// be repeated: after an error, or when the process was killed, another call
// goes on, and several at once do no harm. A version record changes only after
// its migration is complete, and only if it still says what was read.
//
// Services of the release 0.10 may run meanwhile, and so may this package's,
// but nobody may change limits; services of older releases have to be stopped
// before, because what they write after an item was copied is lost.
//
// Errors: those of Connect, where no migration has begun; else *MigrationError.
func Migrate(ctx context.Context, name string, opts *MigrateOptions) ([]string, error) {
	m, err := newMigrator(ctx, "migrate", name, opts)
	if err != nil {
		return nil, err
	}
	ctx = patient(ctx)
	var applied []string
	for _, migration := range Migrations() {
		if !m.options.All && !migration.pending(m) {
			continue
		}
		m.so = Progress{Version: migration.Version}
		err := migration.run(m, ctx)
		if err == nil {
			err = m.readVersions(ctx)
		}
		if err != nil {
			return applied, &MigrationError{Version: migration.Version, Applied: applied, Err: m.failure(ctx, "migrate", err)}
		}
		m.report(Progress{Done: true})
		applied = append(applied, migration.Version)
	}
	if err := m.claimVersion(ctx); err != nil {
		return applied, m.failure(ctx, "migrate", err)
	}
	return applied, nil
}

// PendingMigrations are those that Migrate would run. It writes nothing.
func PendingMigrations(ctx context.Context, name string, opts *MigrateOptions) ([]Migration, error) {
	m, err := newMigrator(ctx, "migrate", name, opts)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(Migrations(), func(migration Migration) bool {
		return !m.options.All && !migration.pending(m)
	}), nil
}

// migrator is a migration under way.
type migrator struct {
	*store
	options         MigrateOptions
	current, legacy item // version records: of the table, and of one without namespaces

	progress sync.Mutex
	so       Progress   // guarded by progress
	registry sync.Mutex // held by who changes a registry, since all would change the same item
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

// older tells whether a version record, which has been checked, says that the
// table is older than this package's schema.
func older(record item) bool {
	stored, _ := parseVersion(decodeVersion(record).schema)
	ours, _ := parseVersion(schemaVersion)
	return stored.compare(ours) < 0
}

// raise makes the version record say that the table has this package's schema.
// It leaves the rest of the record as it is. A record that has changed since it
// was read is left alone: whoever wrote it knows better.
func (m *migrator) raise(ctx context.Context) error {
	if m.current == nil || !older(m.current) {
		return nil
	}
	in := &dynamodb.UpdateItemInput{TableName: &m.table, Key: versionKey().at()}
	seen := new(condition).same(m.current, attrSchema)
	in.UpdateExpression = aws.String("SET #schema = :schema, #at = :at, #by = :by")
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = seen.parts()
	maps.Copy(in.ExpressionAttributeNames, map[string]string{"#schema": attrSchema, "#at": attrUpdatedAt, "#by": attrUpdatedBy})
	maps.Copy(in.ExpressionAttributeValues, item{":schema": text(schemaVersion), ":at": stamp(m.clock()), ":by": text(updatedBy)})
	_, err := m.slow.UpdateItem(ctx, in)
	if resultOf(err) == refused {
		return nil
	}
	return m.explain(err)
}

// report counts items that were changed or kept, and tells whoever wants to
// know.
func (m *migrator) report(add Progress) {
	m.progress.Lock()
	defer m.progress.Unlock()
	m.so.Items += add.Items
	m.so.Kept += add.Kept
	m.so.Done = add.Done
	if m.options.Progress != nil {
		m.options.Progress(m.so)
	}
}
