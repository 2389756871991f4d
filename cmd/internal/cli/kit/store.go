package kit

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
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// Access is what a command may do to a store.
type Access int

// Kinds of access. Each allows what the ones before it allow.
const (
	Read   Access = iota // read only
	Change               // change an existing store
	Create               // create the file of an embedded store if it is missing
)

// OpenOptions configures how a store is opened.
type OpenOptions struct {
	Access Access
	// Namespace is "" for the default one of an embedded store, or for the table
	// itself.
	Namespace        string
	region, endpoint string // of DynamoDB
	// folder is created with the file, if it is missing.
	folder string

	// Purged receives the number of items that a purge has removed so far.
	Purged func(items int)
	// PurgeWait is the pause between the rounds of a purge; 0 is the default.
	PurgeWait time.Duration

	timeout       time.Duration // of calls to DynamoDB; 0 is TableTimeout
	CountCapacity bool          // of requests to DynamoDB
}

// Store is a store that can be opened.
type Store struct {
	Name   string
	Dynamo bool
	Open   func(context.Context, OpenOptions) (limiter.Repository, error)
}

// MemoryStore is the URL of a store in memory.
const MemoryStore = "memory:"

const storeForms = "must be sqlite:PATH, memory: or dynamodb:NAME, such as sqlite:limits.db"

// ParseStore parses the URL of a store. No other function knows the kinds of
// stores.
func ParseStore(url string) (Store, error) {
	scheme, name, _ := strings.Cut(url, ":")
	switch {
	// SQLite gives this name a meaning of its own: a database in memory.
	case url == "sqlite::memory:":
		return Store{}, errors.New("must be memory: without a path; use sqlite:PATH for a file")
	case url == MemoryStore:
		return Store{url, false, openMemory}, nil
	case scheme == "sqlite" && name != "":
		return fileStore(url, name), nil
	case scheme == "dynamodb" && name != "":
		return tableStore(name), nil
	}
	return Store{}, errors.New(storeForms)
}

func fileStore(url, path string) Store {
	return Store{url, false, func(ctx context.Context, o OpenOptions) (limiter.Repository, error) {
		return openSQLite(ctx, path, o)
	}}
}

func tableStore(name string) Store {
	return Store{"dynamodb:" + name, true, func(ctx context.Context, o OpenOptions) (limiter.Repository, error) {
		return openDynamo(ctx, name, o)
	}}
}

func openMemory(ctx context.Context, o OpenOptions) (limiter.Repository, error) {
	repo := memory.New(nil)
	if o.Namespace == "" {
		return repo, nil
	}
	return repo.Namespace(ctx, o.Namespace)
}

// openSQLite opens a file. On error it returns a nil interface, never one with a
// nil pointer.
func openSQLite(ctx context.Context, path string, o OpenOptions) (limiter.Repository, error) {
	// A command that reads works on a file that it may not write.
	opts := sqlite.Options{Namespace: o.Namespace, Existing: true, ReadOnly: o.Access == Read, Purged: o.Purged}

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
		return nil, fmt.Errorf("namespace %q: %w in %s; %s creates it", o.Namespace, limiter.ErrNotFound, path,
			registerCommand(path, o.Namespace))
	}
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// NoFileError reports a file that does not exist yet, or is empty.
type NoFileError struct{ Path string }

func (e *NoFileError) Error() string {
	return fmt.Sprintf(
		"there is no store in file %s; the first command that stores something creates it, such as "+
			"zae-limiter system set-defaults",
		e.Path,
	)
}

// prepareFile creates the folder of a file that is missing or empty. It returns
// an error if the command must not create the file.
func (o OpenOptions) prepareFile(path string) error {
	switch {
	case o.Access != Create:
		return &NoFileError{path}
	// A new file has the default namespace, and no other.
	case o.Namespace != "" && o.Namespace != DefaultNamespace:
		return fmt.Errorf("namespace %q: %w; %s creates it", o.Namespace, limiter.ErrNotFound,
			registerCommand(path, o.Namespace))
	case o.folder != "":
		return os.MkdirAll(o.folder, 0o700)
	}
	return nil
}

// registerCommand returns the command that registers a namespace in a file.
func registerCommand(path, namespace string) string {
	return hint.Place{}.Command("namespace", "register", namespace, "--store", "sqlite:"+path)
}

// RegistryNamespace is the namespace in which a table keeps its registry of
// namespaces.
const RegistryNamespace = "_"

// TableTimeout is the timeout of a call to DynamoDB. It is generous, since every
// command opens a new connection, maybe to a distant region.
const TableTimeout = 3 * time.Second

func openDynamo(ctx context.Context, name string, o OpenOptions) (limiter.Repository, error) {
	// The registry stands for the table itself, with all its namespaces.
	repo, err := dynamo.Connect(ctx, name, &dynamo.Options{
		Namespace: cmp.Or(o.Namespace, RegistryNamespace), Region: o.region, Endpoint: o.endpoint,
		Timeout: cmp.Or(o.timeout, TableTimeout),
		Purged:  o.Purged, PurgeWait: o.PurgeWait, CountCapacity: o.CountCapacity,
	})
	// A nil *dynamo.Repository would be a limiter.Repository that is not nil.
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// embeddedStore returns the store in the user's data folder. Opening it creates
// the folder.
func embeddedStore() (Store, error) {
	folder, err := dataFolder()
	if err != nil {
		return Store{}, fmt.Errorf(
			"no store is given and there is no data folder for one: %w; give one with --store, such as "+
				"sqlite:limits.db",
			err,
		)
	}

	path := filepath.Join(folder, "limits.db")
	return Store{"sqlite:" + path, false, func(ctx context.Context, o OpenOptions) (limiter.Repository, error) {
		// prepareFile creates the folder, if the command may create the store.
		o.folder = folder
		return openSQLite(ctx, path, o)
	}}, nil
}

// TemporaryStore returns a store whose file is removed when it is closed.
func TemporaryStore() Store { return Store{"sqlite (temporary file)", false, openTemporary} }

type temporaryRepository struct {
	limiter.Repository
	folder string
}

func openTemporary(ctx context.Context, o OpenOptions) (limiter.Repository, error) {
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
