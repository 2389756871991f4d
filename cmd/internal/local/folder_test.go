package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newFolder(t *testing.T) *Folder {
	t.Helper()
	return &Folder{filepath.Join(t.TempDir(), "local"), writeFile}
}

func TestRecordsSurvive(t *testing.T) {
	f := newFolder(t)
	want := &Engine{
		Kind: DynamoDB, Port: 8001, Process: &Process{7, "then"}, Table: "my-app",
		Aggregators: map[string]Process{"my-app": {8, "later"}},
	}
	if err := errors.Join(f.Save(want), f.Save(&Engine{Kind: LocalStack, Port: 4566, Container: "c"})); err != nil {
		t.Fatal(err)
	}
	got, err := f.Load(8001)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("want -, got +, %v\n%s", err, diff)
	}
	// The process has ended, which leaves LocalStack as the only candidate.
	if e, err := f.Recorded(0); err != nil || e.Port != 4566 {
		t.Errorf("%v, %v", e, err)
	}
	if err := f.forget(8001, false); err != nil {
		t.Fatal(err)
	}
	if all, err := f.All(); len(all) != 1 || all[0].Port != 4566 || err != nil {
		t.Errorf("%v, %v; want LocalStack alone", all, err)
	}
	if _, err := f.Load(8001); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a removed record: %v", err)
	}
}

func TestSeveralEnginesNeedAPort(t *testing.T) {
	f := newFolder(t)
	for _, port := range []int{4567, 4566} {
		if err := f.Save(&Engine{Kind: LocalStack, Port: port, Container: "c"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.Recorded(0)
	if ambiguous, ok := errors.AsType[*AmbiguousError](err); !ok || !cmp.Equal(ambiguous.Ports, []int{4566, 4567}) {
		t.Errorf("%v", err)
	}
}

// With a full disk the record cannot be written. The engine must not stay, and the
// error names the disk.
func TestFullDiskLeavesNoEngine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fake engine is a shell script")
	}
	f := newFolder(t)
	f.write = func(name string, data []byte) error {
		if filepath.Base(name) == recordName {
			return &os.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
		}
		return writeFile(name, data)
	}
	bin := t.TempDir()
	java, jar, pid := filepath.Join(bin, "java"), filepath.Join(bin, "some.jar"), filepath.Join(bin, "pid")
	script := "#!/bin/sh\necho $$ >'" + pid + "'\nwhile :; do sleep 0.1; done\n"
	if err := os.WriteFile(java, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	j := &javaEngine{folder: f, java: java, jar: jar, port: 1, works: true, compiles: true}
	_, err := j.start(t.Context(), &Settings{})
	if err == nil || !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(
		err.Error(), "the disk of the state folder "+f.path+" is full: ",
	) {
		t.Errorf("%v", err)
	}
	number, _ := os.ReadFile(pid) // empty if it was killed before it could write
	if out, _ := exec.CommandContext(
		t.Context(), "ps", "-o", "stat=", "-p", "0"+strings.TrimSpace(string(number)),
	).Output(); len(out) > 0 && out[0] != 'Z' {
		t.Errorf("process %s still runs: %s", number, out)
	}
	if all, err := f.All(); len(all) != 0 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}

func TestLockWaits(t *testing.T) {
	f := newFolder(t)
	unlock, err := f.Lock(t.Context(), func() { t.Error("a free lock waits") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := 0
	if _, err := f.Lock(ctx, func() { waited++; cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a held lock: %v", err)
	}
	unlocked, err := f.Lock(t.Context(), func() { waited++; unlock() })
	if err != nil {
		t.Fatal(err)
	}
	unlocked()
	if waited != 2 {
		t.Errorf("waited %d times, want 2", waited)
	}
}
