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

// Folder is an archive on disk. On systems with file locks, several processes may
// write to it at the same time.
type Folder struct {
	dir string
}

var _ Files = (*Folder)(nil)

// OpenFolder returns the archive in a folder. It creates the folder if necessary,
// and checks that it is writable.
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

// Read implements [Files].
func (f *Folder) Read(_ context.Context, name string) ([]byte, string, error) {
	content, err := os.ReadFile(f.path(name))
	if err != nil {
		return nil, "", err
	}
	return content, versionOf(content), nil
}

// Write implements [Files]. It creates missing folders.
func (f *Folder) Write(ctx context.Context, name, version string, content []byte) (err error) {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}

	// Under the lock no other process writes between the comparison and the
	// replacement.
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

// replace writes a file atomically: after a crash it has the old or the new
// content.
func replace(path string, content []byte) error {
	temporary := path + ".new"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}

	_, err = file.Write(content)
	// Without Sync, a crash could leave the new name with an empty file.
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
