// Package sqlite implements a limiter's store in one SQLite file, for one or
// several processes on the same machine. The driver is pure Go, so nothing needs
// to be installed.
//
// The file is in WAL mode with synchronous NORMAL. Stored charges survive the
// death of the process. A power failure may lose the last commits, but does not
// corrupt the file. Concurrent calls share a commit.
//
// A change of limits, entities or switches applies to the next charge of every
// process, since every charge reads the file. Only in an outage a process relies on
// the switches that it read last.
//
// A call returns when its context ends. A charge that is stored afterwards is given
// back by the next commit, also while the store is closed. A change of limits stays,
// and its error says that the outcome is unknown.
//
// The write-ahead log (the file's name with -wal) is copied into the file every
// 4 MB, or every quarter of the free disk space if that is less, and truncated at
// twice that size. Reads are short and only delay this. A program that keeps a
// transaction open lets the log grow until the transaction ends.
//
// A file of an older version is migrated when it is opened for writing. Processes
// of the older version that have it open fail with every call from then on, so end
// them before. If a newer version migrates the file in a way that this one must not
// survive, calls return a *limiter.VersionError, which is not an outage.
//
// If the file is removed or replaced while it is open, calls fail within a second
// as in an outage, with an error that names the cause.
//
// All callers share the clock of the machine. If a caller with a wrong clock
// charges a bucket far in the future, the bucket does not refill until that time.
// The store corrects this for callers whose time is within two seconds of the
// machine's: their next write moves the bucket back, so that it waits at most its
// longest fill time. That wait makes up for the tokens that the jump created.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Default values of [Options].
const (
	DefaultBusyTimeout = 5 * time.Second
	DefaultRetention   = 90 * 24 * time.Hour
	DefaultMode        = fs.FileMode(0o600)
)

// Options configures [Open]. A zero field means its default.
type Options struct {
	// Namespace is the namespace to use. It is registered if it is missing. The
	// default is "default".
	Namespace string
	// Existing makes Open fail instead of creating anything. A missing file is
	// fs.ErrNotExist, a missing namespace limiter.ErrNotFound, and an empty file
	// a *limiter.VersionError. A file of an older version is still migrated.
	Existing bool
	// BucketTTL is the number of fill times after which an idle bucket expires.
	// The default is 7; a negative value means never. Buckets in debt do not
	// expire, nor do buckets whose entity has its own limits for the resource.
	BucketTTL int
	// BusyTimeout is how long a call waits for other processes that write,
	// counted from its start. The default is DefaultBusyTimeout.
	BusyTimeout time.Duration
	// AuditRetention and UsageRetention are how long audit events and usage
	// snapshots are kept. The default is DefaultRetention.
	AuditRetention, UsageRetention time.Duration
	// ReadOnly opens an existing file for reading and leaves no other files
	// behind. Calls that would write return an error that matches
	// limiter.ErrConflict. If this user cannot write to the file and no process
	// has it open, later writes of other processes may not be visible.
	ReadOnly bool
	// Mode is the permissions of a file that Open creates; default 0600, since other
	// users of a shared folder must not read or change limits. Programs of several
	// users need a common group and 0660. SQLite gives the permissions of the file
	// to its log, the files that end with -wal and -shm. An existing file keeps its
	// own. Windows ignores Mode.
	Mode fs.FileMode
	// Purged, if not nil, is called while PurgeNamespace runs, with the number of
	// items removed so far. Calls are never concurrent. The purge waits for each.
	Purged func(items int)
}

// mayCreate reports whether Open creates a missing file or namespace.
func (o *Options) mayCreate() bool { return !o.Existing && !o.ReadOnly }

// complete sets the defaults and validates the options.
func (o *Options) complete() error {
	if o.Namespace == "" {
		o.Namespace = "default"
	}

	if o.Mode = cmp.Or(o.Mode, DefaultMode); o.Mode&^fs.ModePerm != 0 || o.Mode&0o600 != 0o600 {
		return &limiter.InvalidError{
			Field: "mode", Value: fmt.Sprintf("%#o", uint32(o.Mode)),
			Reason: "must be permissions with which the owner can read and write, such as 0600 or 0660",
		}
	}

	for _, d := range []struct {
		field    string
		value    *time.Duration
		fallback time.Duration
	}{
		{"busy_timeout", &o.BusyTimeout, DefaultBusyTimeout},
		{"audit_retention", &o.AuditRetention, DefaultRetention},
		{"usage_retention", &o.UsageRetention, DefaultRetention},
	} {
		if *d.value < 0 {
			return &limiter.InvalidError{
				Field: d.field, Value: d.value.String(), Reason: "must not be negative; 0 is the default",
			}
		}
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}

	return limiter.Namespace{Name: o.Namespace}.Validate()
}

// Repository is a view of the file on one namespace. It is safe for concurrent
// use.
type Repository struct {
	*file
	*namespace
	view bool
}

var _ limiter.Repository = (*Repository)(nil)

// file is an open file, which all views share.
type file struct {
	path     string
	opts     Options
	ttl      int
	readers  *sql.DB
	writer   *writer // nil if read-only
	closed   atomic.Bool
	parsed   *limitCache
	schema   int // version of the tables when the file was opened
	machine  rules.Machine
	purgedMu sync.Mutex   // held while Purged is called
	writes   atomic.Int64 // calls that the writer has finished
	commits  atomic.Int64
	fileWatch
}

// Open opens the file at path. It creates the file if it is missing, and migrates
// a file of an older version. The folder must exist.
//
// The error is a *limiter.VersionError for a file of a newer version or of
// another program, a *limiter.CorruptError for a file that is damaged or no
// database, and a *limiter.InvalidError for invalid options. It matches
// limiter.ErrNotFound for a missing namespace that Open may not create, and
// fs.ErrNotExist or fs.ErrPermission if the file cannot be opened.
func Open(ctx context.Context, path string, opts *Options) (*Repository, error) {
	var o Options
	if opts != nil {
		o = *opts
	}

	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := checkPath(path, &o); err != nil {
		return nil, err
	}

	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}

	f := &file{path: path, opts: o, ttl: rules.Multiplier(o.BucketTTL), parsed: newLimitCache()}
	if err := f.open(ctx); err != nil {
		return nil, errors.Join(err, f.close())
	}

	n, err := f.openNamespace(ctx, o.Namespace)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return &Repository{file: f, namespace: n}, nil
}

// checkPath checks the file and its folder, since SQLite's own errors are less
// specific.
func checkPath(path string, o *Options) error {
	if path == "" {
		return &limiter.InvalidError{Field: "path", Reason: "must not be empty; give the path of a file"}
	}
	if path == ":memory:" {
		return &limiter.InvalidError{
			Field: "path", Value: path, Reason: "is not a file; use package memory for a store without a file",
		}
	}

	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !o.mayCreate():
		return fmt.Errorf("sqlite: %s: %w", path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrNotExist):
		folder, name := filepath.Dir(path), filepath.Base(path)
		if _, err := os.Stat(folder); err != nil {
			return fmt.Errorf("sqlite: cannot create file %s: folder %s must exist: %w", name, folder, err)
		}
		if !canCreateIn(folder) {
			return fmt.Errorf(
				"sqlite: cannot create file %s: %w; make folder %s writable for this user, or choose another path",
				name, fs.ErrPermission, folder,
			)
		}
		return nil
	case err != nil:
		return fmt.Errorf("sqlite: %w", err)
	case info.IsDir():
		return &limiter.InvalidError{Field: "path", Value: path, Reason: "is a folder; give the path of a file"}
	case !info.Mode().IsRegular():
		return &limiter.InvalidError{
			Field: "path", Value: path, Reason: "is a device or a pipe; give the path of a file",
		}
	case !canRead(path):
		return fmt.Errorf("sqlite: cannot read %s: %w; make it readable for this user", path, fs.ErrPermission)
	// SQLite would open the file for reading, and leave a log that its owner
	// may not write.
	case !o.ReadOnly && !canWrite(path, info):
		return fmt.Errorf("sqlite: %s is read-only: %w; make it writable for this user, or open it read-only", path,
			fs.ErrPermission)
	}
	return nil
}

// dsn returns the data source name of the file.
func (f *file) dsn(params ...string) string {
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(f.path)

	// SQLite's own timeout is off: see retryBusy.
	params = append(params, "_pragma=busy_timeout(0)")
	return "file:" + escaped + "?" + strings.Join(params, "&")
}

func (f *file) open(ctx context.Context) error {
	if !f.opts.ReadOnly {
		if err := f.create(); err != nil {
			return err
		}

		w, err := newWriter(ctx, f)
		if err != nil {
			return err
		}
		f.writer = w
	}

	if err := f.openReaders(ctx); err != nil {
		return err
	}

	// A log that this process does not write may come and go, so only the
	// writer's is watched.
	f.identity.Store(identify(f.path, f.writer != nil))
	return nil
}

// checkSchema returns an error if the file is not a store of a known version. It
// records the version.
func (f *file) checkSchema(tx *tx) error {
	application, version, tables, err := tx.version()
	if err != nil {
		return err
	}

	f.schema = version
	if err := f.checkNotEmpty(application, tables); err != nil {
		return err
	}

	// A reader cannot turn an empty file into a store, and the writer has created one by
	// now. One table more makes checkVersion refuse an empty file, as it refuses a file of
	// another program.
	return checkVersion(f.path, application, version, tables+1)
}

// checkNotEmpty returns an error for an empty file if the options do not let Open
// create a store in it.
func (f *file) checkNotEmpty(application, tables int) error {
	if f.opts.mayCreate() || application != 0 || tables != 0 {
		return nil
	}
	return &limiter.VersionError{
		Store: f.path, Schema: "0", Client: strconv.Itoa(len(migrations)),
		Reason: "the file is empty; choose the path of an existing store",
	}
}

// SchemaVersion returns the version of the file's tables when it was opened. Only
// a file that was opened read-only can have an older version than this program.
func (r *Repository) SchemaVersion() int { return r.schema }

// Ping checks that the file can be read.
func (r *Repository) Ping(ctx context.Context) error {
	return r.read(ctx, func(tx *tx) error {
		var one int
		return tx.row("SELECT 1 FROM namespaces_v7 LIMIT 1").scan(&one)
	})
}

// Close waits for pending calls and closes the file. Later calls return
// limiter.ErrClosed. Close of a view does nothing.
func (r *Repository) Close() error {
	if r.view {
		return nil
	}
	return r.close()
}

func (f *file) close() error {
	f.closed.Store(true)

	var errs []error

	// The readers close first. The writer is then the last, and SQLite removes
	// the log.
	if f.readers != nil {
		errs = append(errs, f.readers.Close())
	}
	if f.writer != nil {
		errs = append(errs, f.writer.close())
	}
	return errors.Join(errs...)
}

// write runs work in a transaction that it may share with other calls. If write
// returns nil, the changes are stored. If it returns an error, they are not,
// unless ctx ended while work was running: the outcome is unknown then.
//
// work may go on after its caller has returned, so it must not share memory with
// it. If work returns an error, it must have written nothing, or have called
// tx.fail.
func (f *file) write(ctx context.Context, now time.Time, work func(*tx) error) error {
	return f.send(ctx, newQueuedWrite(now.UnixMilli(), work))
}

// send queues a write and waits for it.
func (f *file) send(ctx context.Context, q *queuedWrite) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	if f.closed.Load() {
		return limiter.ErrClosed
	}
	if f.writer == nil {
		return fmt.Errorf("sqlite: %s was opened read-only: %w", f.path, limiter.ErrConflict)
	}

	return f.explain(ctx, f.writer.do(ctx, q))
}

// writeValue calls f.write for work that returns a value. The value is zero after
// an error.
func writeValue[T any](ctx context.Context, f *file, now time.Time, work func(*tx) (T, error)) (T, error) {
	var value, zero T

	err := f.write(ctx, now, func(tx *tx) (err error) {
		value, err = work(tx)
		return err
	})
	if err != nil {
		// The work may still be writing to the value.
		return zero, err
	}
	return value, nil
}

// read runs work on one snapshot of the file.
func (f *file) read(ctx context.Context, work func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	began := time.Now()
	if err := f.checkPresent(began); err != nil {
		return err
	}

	return f.explain(ctx, f.retryBusy(ctx, began, func() error { return f.snapshot(ctx, work) }))
}

// snapshot makes one attempt of read. SQLite takes the snapshot with the first
// statement of work and is not busy afterwards, so a retry repeats nothing.
func (f *file) snapshot(ctx context.Context, work func(*tx) error) error {
	t, err := f.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }()

	reading := &tx{ctx: ctx, on: t, file: f, schema: f.schema}

	// Another process may have migrated the file since it was opened.
	if f.schema < len(migrations) {
		if _, reading.schema, _, err = reading.version(); err != nil {
			return err
		}
	}

	return work(reading)
}

// Statistics iterates over the calls that wrote and the commits that they shared.
func (r *Repository) Statistics() iter.Seq[limiter.Statistic] {
	return slices.Values([]limiter.Statistic{
		{
			Name: "store.requests", Unit: "{request}", Description: "Calls that write to the file", Total: true,
			Value: float64(r.writes.Load()),
		},
		{
			Name: "store.commits", Unit: "{commit}",
			Description: "Commits, each shared by the calls that wait for it", Total: true,
			Value: float64(r.commits.Load()),
		},
	})
}
