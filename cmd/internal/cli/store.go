package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// access is what a command may do to a store.
type access int

const (
	accessRead   access = iota // read only
	accessChange               // change an existing store
	accessCreate               // create the file of an embedded store if it is missing
)

// openOptions configures how a store is opened.
type openOptions struct {
	access access
	// namespace is "" for the default one of an embedded store, or for the table
	// itself.
	namespace        string
	region, endpoint string // of DynamoDB
	// folder is created with the file, if it is missing.
	folder string

	// purged receives the number of items that a purge has removed so far.
	purged func(items int)
	// purgeWait is the pause between the rounds of a purge; 0 is the default.
	purgeWait time.Duration

	timeout       time.Duration // of calls to DynamoDB; 0 is tableTimeout
	countCapacity bool          // of requests to DynamoDB
}

// store is a store that can be opened.
type store struct {
	name   string
	dynamo bool
	open   func(context.Context, openOptions) (limiter.Repository, error)
}

const memoryStore = "memory:"

const storeForms = "must be sqlite:PATH, memory: or dynamodb:NAME, such as sqlite:limits.db"

// parseStore parses the URL of a store. No other function knows the kinds of
// stores.
func parseStore(url string) (store, error) {
	scheme, name, _ := strings.Cut(url, ":")
	switch {
	// SQLite gives this name a meaning of its own: a database in memory.
	case url == "sqlite::memory:":
		return store{}, errors.New("must be memory: without a path; use sqlite:PATH for a file")
	case url == memoryStore:
		return store{url, false, openMemory}, nil
	case scheme == "sqlite" && name != "":
		return fileStore(url, name), nil
	case scheme == "dynamodb" && name != "":
		return tableStore(name), nil
	}
	return store{}, errors.New(storeForms)
}

func fileStore(url, path string) store {
	return store{url, false, func(ctx context.Context, o openOptions) (limiter.Repository, error) {
		return openSQLite(ctx, path, o)
	}}
}

func tableStore(name string) store {
	return store{"dynamodb:" + name, true, func(ctx context.Context, o openOptions) (limiter.Repository, error) {
		return openDynamo(ctx, name, o)
	}}
}

func openMemory(ctx context.Context, o openOptions) (limiter.Repository, error) {
	repo := memory.New(nil)
	if o.namespace == "" {
		return repo, nil
	}
	return repo.Namespace(ctx, o.namespace)
}

// openSQLite opens a file. On error it returns a nil interface, never one with a
// nil pointer.
func openSQLite(ctx context.Context, path string, o openOptions) (limiter.Repository, error) {
	// A command that reads works on a file that it may not write.
	opts := sqlite.Options{Namespace: o.namespace, Existing: true, ReadOnly: o.access == accessRead, Purged: o.purged}

	// SQLite takes an empty file for a database without tables, but it holds no
	// store.
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() &&
		info.Size() == 0 {
		if err := o.prepareFile(path); err != nil {
			return nil, err
		}
		opts.Existing = false
	}

	repo, err := sqlite.Open(ctx, path, &opts)

	// A file without tables has schema 0: another process is creating it. Only a
	// command that may create the store itself opens it then.
	if version, ok := errors.AsType[*limiter.VersionError](err); ok && version.Schema == "0" &&
		o.prepareFile(path) == nil {
		opts.Existing = false
		repo, err = sqlite.Open(ctx, path, &opts)
	}
	if errors.Is(err, limiter.ErrNotFound) {
		return nil, fmt.Errorf("namespace %q: %w in %s; %s creates it", o.namespace, limiter.ErrNotFound, path,
			registerCommand(path, o.namespace))
	}
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// noFileError reports a file that does not exist yet, or is empty.
type noFileError struct{ path string }

func (e *noFileError) Error() string {
	return fmt.Sprintf(
		"there is no store in file %s; the first command that stores something creates it, such as "+
			"zae-limiter system set-defaults",
		e.path,
	)
}

// prepareFile creates the folder of a file that is missing or empty. It returns
// an error if the command must not create the file.
func (o openOptions) prepareFile(path string) error {
	switch {
	case o.access != accessCreate:
		return &noFileError{path}
	// A new file has the default namespace, and no other.
	case o.namespace != "" && o.namespace != defaultNamespace:
		return fmt.Errorf("namespace %q: %w; %s creates it", o.namespace, limiter.ErrNotFound,
			registerCommand(path, o.namespace))
	case o.folder != "":
		return os.MkdirAll(o.folder, 0o700)
	}
	return nil
}

// registerCommand returns the command that registers a namespace in a file.
func registerCommand(path, namespace string) string {
	return hint.Place{}.Command("namespace", "register", namespace, "--store", "sqlite:"+path)
}

// registryNamespace is the namespace in which a table keeps its registry of
// namespaces.
const registryNamespace = "_"

// tableTimeout is the timeout of a call to DynamoDB. It is generous, since every
// command opens a new connection, maybe to a distant region.
const tableTimeout = 3 * time.Second

func openDynamo(ctx context.Context, name string, o openOptions) (limiter.Repository, error) {
	// The registry stands for the table itself, with all its namespaces.
	repo, err := dynamo.Connect(ctx, name, &dynamo.Options{
		Namespace: cmp.Or(o.namespace, registryNamespace), Region: o.region, Endpoint: o.endpoint,
		Timeout: cmp.Or(o.timeout, tableTimeout),
		Purged:  o.purged, PurgeWait: o.purgeWait, CountCapacity: o.countCapacity,
	})
	// A nil *dynamo.Repository would be a limiter.Repository that is not nil.
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// embeddedStore returns the store in the user's data folder. Opening it creates
// the folder.
func embeddedStore() (store, error) {
	folder, err := dataFolder()
	if err != nil {
		return store{}, fmt.Errorf(
			"no store is given and there is no data folder for one: %w; give one with --store, such as "+
				"sqlite:limits.db",
			err,
		)
	}

	path := filepath.Join(folder, "limits.db")
	return store{"sqlite:" + path, false, func(ctx context.Context, o openOptions) (limiter.Repository, error) {
		// prepareFile creates the folder, if the command may create the store.
		o.folder = folder
		return openSQLite(ctx, path, o)
	}}, nil
}

// temporaryStore returns a store whose file is removed when it is closed.
func temporaryStore() store { return store{"sqlite (temporary file)", false, openTemporary} }

type temporaryRepository struct {
	limiter.Repository
	folder string
}

func openTemporary(ctx context.Context, o openOptions) (limiter.Repository, error) {
	folder, err := os.MkdirTemp("", "zae-limiter-")
	if err != nil {
		return nil, err
	}

	repo, err := openSQLite(ctx, filepath.Join(folder, "limits.db"), o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return temporaryRepository{repo, folder}, nil
}

// Close closes the file and removes it.
func (t temporaryRepository) Close() error {
	return errors.Join(t.Repository.Close(), os.RemoveAll(t.folder))
}

// dataFolder returns the folder for this user's data: under XDG_DATA_HOME if that
// is set, else in the usual place of the system.
func dataFolder() (string, error) {
	const name = "zae-limiter"

	// The XDG specification says to ignore a relative path.
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, name), nil
	}

	// These systems keep data and settings in one place.
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		base, err := os.UserConfigDir()
		return filepath.Join(base, name), err
	}

	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "share", name), err
}

// meterOf returns a function that counts the requests to a table, or nil if repo
// is another store.
func meterOf(repo limiter.Repository) func() loadtest.Usage {
	table, ok := repo.(*dynamo.Repository)
	if !ok {
		return nil
	}

	return func() loadtest.Usage {
		s := table.Stats()
		return loadtest.Usage{Requests: s.Requests, ReadUnits: s.ReadUnits, WriteUnits: s.WriteUnits}
	}
}
