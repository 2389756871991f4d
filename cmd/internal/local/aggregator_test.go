package local

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// startAggregator records an engine that has ended, and a process that plays its
// aggregator.
func startAggregator(t *testing.T, f *Folder, e *Engine) Process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the aggregator is a program of Unix")
	}
	d, err := f.startDaemon(exec.CommandContext(context.Background(), "sleep", "600"),
		filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop(context.Background()) })
	e.Aggregators = map[string]Process{"my-app": d.Process}
	if err := f.Save(e); err != nil {
		t.Fatal(err)
	}
	return d.Process
}

// The engine was killed. Before another starts, its aggregator ends, with or
// without a port.
func TestEndedEngineKeepsNoAggregator(t *testing.T) {
	for _, port := range []int{0, 8001} {
		f := newFolder(t)
		p := startAggregator(t, f, &Engine{Kind: DynamoDB, Port: 8001, Process: &Process{1, "then"}})
		var said []string
		e, err := f.findRunning(t.Context(), &Settings{Port: port, Say: func(text string) {
			said = append(said, text)
		}})
		if e != nil || err != nil {
			t.Errorf("port %d: %v, %v; want no engine", port, e, err)
		}
		if p.Alive() {
			t.Errorf("port %d: the aggregator still runs", port)
		}
		if text := strings.Join(said, "\n"); !strings.Contains(text, "stopping the aggregator of table my-app") {
			t.Errorf("port %d: it says %q", port, text)
		}
		if all, err := f.All(); len(all) != 0 || err != nil {
			t.Errorf("port %d: %d records are left, %v", port, len(all), err)
		}
	}
}

// A new engine takes the port of one with an unreachable daemon.
func TestReplacedEngineKeepsNoAggregator(t *testing.T) {
	f := newFolder(t)
	p := startAggregator(t, f, &Engine{Kind: DynamoDB, Port: 8001, Container: "c"})
	if err := f.replace(t.Context(), &Engine{Kind: DynamoDB, Port: 8001, Process: &Process{1, "then"}}); err != nil {
		t.Fatal(err)
	}
	if e, err := f.Load(8001); p.Alive() || err != nil || e.Process == nil {
		t.Errorf("alive %v, record %v, %v; want the new record alone", p.Alive(), e, err)
	}
}
