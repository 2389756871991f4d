package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Folder is the state folder of a user. It has a folder for each port at which an
// engine was started, with its record, log and data.
type Folder struct {
	path  string
	write func(name string, data []byte) error // replaced by tests
}

// OpenFolder returns the folder of this user: zae-limiter/local under
// XDG_STATE_HOME if that is set, else in the usual place of the system. It creates
// nothing.
func OpenFolder() (*Folder, error) {
	base, err := stateHome()
	if err != nil {
		return nil, fmt.Errorf("there is no state folder: %w; set XDG_STATE_HOME", err)
	}
	return &Folder{filepath.Join(base, "zae-limiter", "local"), writeFile}, nil
}

func stateHome() (string, error) {
	// The standard for this variable ignores a relative path.
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return base, nil
	}

	switch runtime.GOOS {
	case "windows":
		// The state stays on this machine in %LocalAppData%, while the folder for
		// settings may roam.
		return os.UserCacheDir()
	case "darwin":
		return os.UserConfigDir()
	}

	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}

// at returns the path of a file of the engine at a port.
func (f *Folder) at(port int, name ...string) string {
	return filepath.Join(append([]string{f.path, strconv.Itoa(port)}, name...)...)
}

// Names of the files with the record of an engine, and of one that was stopped and
// left data.
const recordName, stoppedName = "engine.json", "stopped.json"

// private is the mode of all folders here: a log or a table may hold secrets.
const private = 0o700

// Lock waits until no other program starts or stops an engine. The returned
// function unlocks the folder. If another program holds the lock, Lock calls
// waiting once.
func (f *Folder) Lock(ctx context.Context, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(f.path, private); err != nil {
		return nil, f.explain(err)
	}

	file, err := os.OpenFile(filepath.Join(f.path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, f.explain(err)
	}

	for first := true; ; first = false {
		locked, err := tryLock(file)
		switch {
		case err != nil:
			return nil, errors.Join(f.explain(err), file.Close())
		case locked:
			return func() { _ = file.Close() }, nil
		case first:
			waiting()
		}

		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(poll):
		}
	}
}

// Save writes the record of an engine, or leaves the previous one as it was.
func (f *Folder) Save(e *Engine) error {
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}

	if err := os.MkdirAll(f.at(e.Port), private); err != nil {
		return f.explain(err)
	}

	if err := f.write(f.at(e.Port, recordName), append(text, '\n')); err != nil {
		return f.explain(err)
	}
	return nil
}

// forget removes the record of an engine, and its data if purge is set. Otherwise
// it keeps a record of where the data are.
func (f *Folder) forget(port int, purge bool) error {
	// A container of another program has no data of ours to remember.
	if e, err := f.Load(port); purge || err == nil && e.Container != "" && e.Data == "" {
		return os.RemoveAll(f.at(port))
	}
	err := os.Rename(f.at(port, recordName), f.at(port, stoppedName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(f.at(port, "tmp")))
}

// Load returns the record of the engine at a port. It returns an error that wraps
// ErrNotRunning if there is none.
func (f *Folder) Load(port int) (*Engine, error) { return f.read(port, recordName) }

func (f *Folder) read(port int, name string) (*Engine, error) {
	text, err := os.ReadFile(f.at(port, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w at port %d", ErrNotRunning, port)
	}

	if err != nil {
		return nil, f.explain(err)
	}

	e := &Engine{}
	if err := json.Unmarshal(text, e); err != nil || e.Port != port || e.Process == nil && e.Container == "" {
		return nil, fmt.Errorf("%s is damaged; stop the engine at port %d yourself and remove this file",
			f.at(port, name), port)
	}
	return e, nil
}

// All returns the records of all engines, by port.
func (f *Folder) All() ([]*Engine, error) {
	ports, err := f.ports()

	var all []*Engine
	for _, port := range ports {
		e, failed := f.Load(port)
		switch {
		case errors.Is(failed, ErrNotRunning):
			// A stopped engine left only its data.
		case failed != nil:
			err = errors.Join(err, failed)
		default:
			all = append(all, e)
		}
	}
	return all, err
}

// ports returns the ports that have a folder.
func (f *Folder) ports() ([]int, error) {
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, f.explain(err)
	}

	var ports []int
	for _, entry := range entries {
		if port, err := strconv.Atoi(entry.Name()); err == nil {
			ports = append(ports, port)
		}
	}

	slices.Sort(ports)
	return ports, nil
}

// explain adds the folder and a remedy to an error.
func (f *Folder) explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf(
			"the disk of the state folder %s is full: %w; free some space, or set XDG_STATE_HOME to a folder elsewhere",
			f.path, err,
		)
	}
	return fmt.Errorf("the state folder %s cannot be used: %w; set XDG_STATE_HOME to a folder that can be written",
		f.path, err)
}

// writeFile writes a file completely, or leaves it as it was.
func writeFile(name string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}

	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}

	if err != nil {
		// Only the first error matters.
		_ = os.Remove(file.Name())
	}
	return err
}
