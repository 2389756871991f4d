package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is an archive on disk. Several processes may write to it at once, where
// the system can lock files.
type Folder struct {
	dir string
}

var _ Files = (*Folder)(nil)

// OpenFolder makes a folder, if there is none, and finds out whether it can be
// written to.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f := &Folder{dir}
	unlock, err := f.lock()
	if err != nil {
		return nil, err
	}
	return f, unlock()
}

func (f *Folder) lock() (unlock func() error, err error) { return lockFile(f.path(".lock")) }

// Read is what a file of the folder holds.
func (f *Folder) Read(_ context.Context, name string) ([]byte, string, error) {
	content, err := os.ReadFile(f.path(name))
	if err != nil {
		return nil, "", err
	}
	return content, versionOf(content), nil
}

// Write replaces a file of the folder, which is made if there is none.
func (f *Folder) Write(ctx context.Context, name, version string, content []byte) (err error) {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	_, found, err := f.Read(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if found != version {
		return ErrChanged
	}
	return replace(path, content)
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

func versionOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// replace writes a file so that after a crash it is the old one or the new one.
func replace(path string, content []byte) error {
	beside := path + ".new"
	file, err := os.OpenFile(beside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(beside, path)
}
