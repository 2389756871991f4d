// Package sqlite is a limiter's store in one file, for one process or several
// on the same machine. It needs nothing installed.
//
// The file is in WAL mode with synchronous NORMAL: what was admitted survives
// the death of the process; a power failure may lose the last commits, never
// the file. Calls that wait for each other share a commit.
//
// A call returns when its context ends. If its commit was under way by then, the
// error says that its outcome is unknown: a charge is not admitted, and may stay
// charged.
//
// The log (the file's name with -wal) is copied into the file every 4 MB, or every
// quarter of the disk space that is left, and emptied at twice that size. Reads
// are short and only delay this. A program that keeps a transaction open lets the
// log grow until it ends it.
//
// A file that is removed or replaced while it is open is noticed within a second:
// calls then fail as in an outage, with an error that says so.
//
// All callers share the clock of the machine. A bucket that a clock far ahead
// has charged refills from that time on. But a call whose time agrees with the
// machine's, to two seconds, does not wait for a time that was never true: to it,
// the bucket is ahead by its longest fill time at most. That pays back all that
// the jump can have minted, and it begins with the first such call that writes.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Defaults of [Options].
const (
	DefaultBusyTimeout = 5 * time.Second
	DefaultRetention   = 90 * 24 * time.Hour
)

// Options are those of [Open]. The zero value of a field is its default.
type Options struct {
	// Namespace is the one to use, registered if it is not there; default
	// "default".
	Namespace string
	// Existing makes nothing: a missing file is fs.ErrNotExist, a missing
	// namespace limiter.ErrNotFound, and an empty file, which is no store yet, a
	// *limiter.VersionError. A store of an older version is still brought to the
	// one this program knows.
	Existing bool
	// BucketTTL is after how many idle fill times a bucket is forgotten; default
	// 7, negative for never. Buckets in debt stay, and so do those of entities
	// with limits of their own for the resource.
	BucketTTL int
	// BusyTimeout is how long a call waits for other processes that write,
	// counted from when it was made; default DefaultBusyTimeout.
	BusyTimeout time.Duration
	// AuditRetention and UsageRetention are how long events and snapshots are
	// kept; default DefaultRetention.
	AuditRetention, UsageRetention time.Duration
	// ReadOnly opens an existing file for reading, and leaves nothing behind.
	// Calls that would write return an error that matches limiter.ErrConflict. A
	// file that this user may not write to, and that nobody has open, is read as
	// it lies: what others write later need not be seen.
	ReadOnly bool
	// Purged is called while PurgeNamespace works, with how many items it has
	// removed so far; from one goroutine at a time. The purge waits for it.
	Purged func(items int)
}

// makes tells whether what is missing is made.
func (o *Options) makes() bool { return !o.Existing && !o.ReadOnly }

func (o *Options) complete() error {
	if o.Namespace == "" {
		o.Namespace = "default"
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
			return &limiter.InvalidError{Field: d.field, Value: d.value.String(), Reason: "must not be negative; 0 is the default"}
		}
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	return limiter.Namespace{Name: o.Namespace}.Validate()
}

// Repository is the file seen from one namespace. It is safe for concurrent
// use.
type Repository struct {
	*file
	*namespace
	view bool
}

var _ limiter.Repository = (*Repository)(nil)

// file is what all namespaces share.
type file struct {
	path    string
	opts    Options
	ttl     int
	readers *sql.DB
	writer  *writer // nil when read-only
	closed  atomic.Bool
	parsed  *limitCache
	schema  int // the version it had when it was opened
	machine rules.Machine
	telling sync.Mutex // held while Purged is called
	presence
}

// Open opens the file at path, makes it if it is missing, and brings it to the
// version this program knows. A missing folder is an error.
//
// Errors: *limiter.VersionError for a file of a newer version or of another
// program, *limiter.CorruptError for one that is damaged or no database,
// *limiter.InvalidError for options, limiter.ErrNotFound for a namespace that
// must be there, fs.ErrNotExist, fs.ErrPermission, or what the system said.
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
	n, err := f.enter(ctx, o.Namespace)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return &Repository{file: f, namespace: n}, nil
}

// checkPath says what is wrong in terms of files, before SQLite says it in its
// own.
func checkPath(path string, o *Options) error {
	if path == "" {
		return &limiter.InvalidError{Field: "path", Reason: "must not be empty; give the path of a file"}
	}
	if path == ":memory:" {
		return &limiter.InvalidError{Field: "path", Value: path, Reason: "is no file; package memory is the store without one"}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !o.makes():
		return fmt.Errorf("sqlite: %s: %w", path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrNotExist):
		folder, name := filepath.Dir(path), filepath.Base(path)
		if _, err := os.Stat(folder); err != nil {
			return fmt.Errorf("sqlite: folder %s must exist before the file %s can be made: %w", folder, name, err)
		}
		if !mayMake(folder) {
			return fmt.Errorf("sqlite: file %s cannot be made: %w: make folder %s writable for this user, or choose another path", name, fs.ErrPermission, folder)
		}
		return nil
	case err != nil:
		return fmt.Errorf("sqlite: %w", err)
	case info.IsDir():
		return &limiter.InvalidError{Field: "path", Value: path, Reason: "is a folder; give the path of a file"}
	case !info.Mode().IsRegular():
		return &limiter.InvalidError{Field: "path", Value: path, Reason: "is a device or a pipe; give the path of a file"}
	case !mayRead(path):
		return fmt.Errorf("sqlite: %s cannot be read: %w; make it readable for this user", path, fs.ErrPermission)
	case !o.ReadOnly && !mayWrite(path, info): // SQLite would open it to read, and leave a log that locks its owner out
		return fmt.Errorf("sqlite: %s is read-only: %w; make it writable for this user, or open it only to read", path, fs.ErrPermission)
	}
	return nil
}

// dsn is the name of the file for the driver.
func (f *file) dsn(params ...string) string {
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(f.path)
	params = append(params, "_pragma=busy_timeout(0)") // see patiently
	return "file:" + escaped + "?" + strings.Join(params, "&")
}

func (f *file) open(ctx context.Context) error {
	if !f.opts.ReadOnly {
		w, err := newWriter(ctx, f)
		if err != nil {
			return err
		}
		f.writer = w
	}
	if err := f.openReaders(ctx); err != nil {
		return err
	}
	f.identity.Store(identify(f.path, f.writer != nil))
	return nil
}

// checkOpen refuses a file that is not ours before anything else is read from
// it, and remembers its version.
func (f *file) checkOpen(tx *tx) error {
	application, version, tables, err := tx.version()
	if err != nil {
		return err
	}
	f.schema = version
	if err := f.checkMade(application, tables); err != nil {
		return err
	}
	return checkVersion(f.path, application, version, tables+1)
}

// checkMade refuses an empty file where nothing may be made of it.
func (f *file) checkMade(application, tables int) error {
	if f.opts.makes() || application != 0 || tables != 0 {
		return nil
	}
	return &limiter.VersionError{
		Store: f.path, Schema: "0", Client: strconv.Itoa(len(migrations)),
		Reason: "the file is empty and no store yet; choose another path",
	}
}

// SchemaVersion is the version of the file's tables when it was opened: that of
// this program, unless it was opened to be read only.
func (r *Repository) SchemaVersion() int { return r.schema }

// Ping is nil when the file answers.
func (r *Repository) Ping(ctx context.Context) error {
	return r.read(ctx, func(tx *tx) error {
		var one int
		return tx.row("SELECT 1 FROM namespaces LIMIT 1").scan(&one)
	})
}

// Close waits for calls under way and closes the file. Later calls return
// ErrClosed. A view's Close does nothing.
func (r *Repository) Close() error {
	if r.view {
		return nil
	}
	return r.close()
}

func (f *file) close() error {
	f.closed.Store(true)
	var errs []error
	if f.readers != nil {
		errs = append(errs, f.readers.Close())
	}
	if f.writer != nil {
		errs = append(errs, f.writer.close())
	}
	return errors.Join(errs...)
}

// write runs work in a transaction that others may share. When it returns nil,
// what work wrote is stored. After an error nothing is, except that the outcome
// is unknown when ctx ended while work was under way; work then goes on without
// its caller, and must share no memory with it. A work that returns an error has
// written nothing, unless the database failed.
func (f *file) write(ctx context.Context, now time.Time, work func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.closed.Load() {
		return limiter.ErrClosed
	}
	if f.writer == nil {
		return fmt.Errorf("sqlite: %s was opened read-only: %w", f.path, limiter.ErrConflict)
	}
	return f.explain(f.writer.do(ctx, now.UnixMilli(), work))
}

// writing is write for work that has a result. A caller that leaves before the
// work is done gets none.
func writing[T any](ctx context.Context, f *file, now time.Time, work func(*tx) (T, error)) (T, error) {
	var made, none T
	err := f.write(ctx, now, func(tx *tx) (err error) {
		made, err = work(tx)
		return err
	})
	if err != nil {
		return none, err
	}
	return made, nil
}

// read runs work on one consistent state of the file.
func (f *file) read(ctx context.Context, work func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	began := time.Now()
	if err := f.lost(began); err != nil {
		return err
	}
	return f.explain(f.patiently(ctx, began, func() error { return f.snapshot(ctx, work) }))
}

// snapshot is one try of read. A file that is busy is so for the first statement or
// for none: nothing has been read then.
func (f *file) snapshot(ctx context.Context, work func(*tx) error) error {
	t, err := f.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }()
	return work(&tx{ctx: ctx, on: t, file: f})
}
