package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/hint"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// access is what a command does to a store, and so how it may be opened.
type access int

const (
	reads   access = iota // nothing is written, nor made
	changes               // what is there is changed; nothing is made
	creates               // the embedded file is made if it is missing, and nothing else
)

// opening says how a store is opened.
type opening struct {
	access           access
	namespace        string // "" for the one that is always there, or none
	region, endpoint string // of DynamoDB
	folder           string // to make with a file, if it is missing
	purged           func(items int)
	purgeWait        time.Duration // until a table is looked at again; 0 is its default
}

// store is where the buckets are kept: how it is called, and how to open it.
type store struct {
	name   string
	dynamo bool
	open   func(context.Context, opening) (limiter.Repository, error)
}

const memoryStore = "memory:"

const storeForms = "a store is sqlite:PATH, memory: or dynamodb:NAME, such as sqlite:limits.db"

// parseStore reads a --store. It is the one place that knows the stores.
func parseStore(url string) (store, error) {
	scheme, name, _ := strings.Cut(url, ":")
	switch {
	case url == "sqlite::memory:":
		return store{}, errors.New("memory: is the store that has no file")
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
	return store{url, false, func(ctx context.Context, o opening) (limiter.Repository, error) { return openSQLite(ctx, path, o) }}
}

func tableStore(name string) store {
	return store{"dynamodb:" + name, true, func(ctx context.Context, o opening) (limiter.Repository, error) { return openDynamo(ctx, name, o) }}
}

func openMemory(ctx context.Context, o opening) (limiter.Repository, error) {
	repo := memory.New(nil)
	if o.namespace == "" {
		return repo, nil
	}
	return repo.Namespace(ctx, o.namespace)
}

// openSQLite never returns a nil pointer in a Repository that is not nil.
func openSQLite(ctx context.Context, path string, o opening) (limiter.Repository, error) {
	opts := sqlite.Options{Namespace: o.namespace, Existing: true, ReadOnly: o.access == reads, Purged: o.purged}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		if err := o.mayMake(path); err != nil {
			return nil, err
		}
		opts.Existing = false
	}
	repo, err := sqlite.Open(ctx, path, &opts)
	if errors.Is(err, limiter.ErrNotFound) {
		return nil, fmt.Errorf("namespace %q: %w in %s; %s makes it", o.namespace, limiter.ErrNotFound, path, registering(path, o.namespace))
	}
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// mayMake is why a file that is missing or empty stays so. It makes the folder
// otherwise.
func (o opening) mayMake(path string) error {
	switch {
	case o.access != creates:
		return fmt.Errorf("there is no store in file %s; it is made by the first command that stores something, such as zae-limiter system set-defaults", path)
	case o.namespace != "" && o.namespace != defaultNamespace:
		return fmt.Errorf("namespace %q: %w; %s makes it", o.namespace, limiter.ErrNotFound, registering(path, o.namespace))
	case o.folder != "":
		return os.MkdirAll(o.folder, 0o700)
	}
	return nil
}

// registering is the command that makes a namespace in a file.
func registering(path, namespace string) string {
	return hint.Place{}.Command("namespace", "register", namespace, "--store", "sqlite:"+path)
}

// tableItself is the namespace in which a table keeps those that are registered.
const tableItself = "_"

// tableTimeout is the time for one call about a table: people may be far away
// from it, and begin with a new connection for every command.
const tableTimeout = 3 * time.Second

func openDynamo(ctx context.Context, name string, o opening) (limiter.Repository, error) {
	repo, err := dynamo.Connect(ctx, name, &dynamo.Options{
		Namespace: cmp.Or(o.namespace, tableItself), Region: o.region, Endpoint: o.endpoint, Timeout: tableTimeout,
		Purged: o.purged, PurgeWait: o.purgeWait,
	})
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// embeddedStore is a file in the user's data folder, which is made with it.
func embeddedStore() (store, error) {
	folder, err := dataFolder()
	if err != nil {
		return store{}, fmt.Errorf("no store is given and there is no data folder for one (%w); %s", err, storeForms)
	}
	path := filepath.Join(folder, "limits.db")
	return store{"sqlite:" + path, false, func(ctx context.Context, o opening) (limiter.Repository, error) {
		o.folder = folder
		return openSQLite(ctx, path, o)
	}}, nil
}

// temporaryStore is a file that goes when its repository is closed.
func temporaryStore() store { return store{"sqlite (temporary file)", false, openTemporary} }

type temporary struct {
	limiter.Repository
	folder string
}

func openTemporary(ctx context.Context, o opening) (limiter.Repository, error) {
	folder, err := os.MkdirTemp("", "zae-limiter-")
	if err != nil {
		return nil, err
	}
	repo, err := openSQLite(ctx, filepath.Join(folder, "limits.db"), o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return temporary{repo, folder}, nil
}

// Close closes the file and removes it.
func (t temporary) Close() error { return errors.Join(t.Repository.Close(), os.RemoveAll(t.folder)) }
