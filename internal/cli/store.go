package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// store is where the buckets are kept: how it is called, and how to open it.
type store struct {
	name string
	open func(context.Context) (limiter.Repository, error)
}

// parseStore reads a --store. It is the one place that knows the stores.
func parseStore(url string) (store, error) {
	scheme, path, _ := strings.Cut(url, ":")
	switch {
	case url == "memory:":
		return store{url, openMemory}, nil
	case scheme == "sqlite" && path != "":
		return store{url, func(ctx context.Context) (limiter.Repository, error) { return openSQLite(ctx, path) }}, nil
	}
	return store{}, errors.New("a store is memory: or sqlite:PATH, such as sqlite:limits.db")
}

func openMemory(context.Context) (limiter.Repository, error) { return memory.New(nil), nil }

// openSQLite never returns a nil pointer in a Repository that is not nil.
func openSQLite(ctx context.Context, path string) (limiter.Repository, error) {
	repo, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// temporaryStore is a file that goes when its repository is closed.
func temporaryStore() store { return store{"sqlite (temporary file)", openTemporary} }

type temporary struct {
	limiter.Repository
	folder string
}

func openTemporary(ctx context.Context) (limiter.Repository, error) {
	folder, err := os.MkdirTemp("", "zae-limiter-")
	if err != nil {
		return nil, err
	}
	repo, err := openSQLite(ctx, filepath.Join(folder, "limits.db"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return temporary{repo, folder}, nil
}

// Close closes the file and removes it.
func (t temporary) Close() error { return errors.Join(t.Repository.Close(), os.RemoveAll(t.folder)) }
