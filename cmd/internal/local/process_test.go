package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

func TestProcessIdentity(t *testing.T) {
	start, err := startTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !(Process{os.Getpid(), start}).Alive() {
		t.Error("this process does not run")
	}
	other := Process{os.Getpid(), start + "0"}
	if other.Alive() {
		t.Error("a process with another start time runs")
	}
	if err := other.Stop(t.Context()); err != nil { // would end the test
		t.Error(err)
	}
}

// A daemon can be stopped, and stopping it again does nothing.
func TestDaemonStops(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the daemon is a shell script")
	}
	log := filepath.Join(t.TempDir(), "log")
	d, err := newFolder(t).startDaemon(
		exec.CommandContext(context.Background(), "sh", "-c", "echo started; exec sleep 600"), log,
	)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Alive() {
		t.Fatal("it does not run")
	}
	if err := d.Stop(t.Context()); err != nil || d.Alive() {
		t.Errorf("%v, alive %v", err, d.Alive())
	}
	if err := d.Stop(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
}
