package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// smallConfig returns the smallest configuration that runs everything.
func smallConfig() config {
	cfg := quickConfig()
	cfg.rounds, cfg.sample = 2, time.Millisecond
	cfg.keys = []int{1, 10, 100}
	cfg.changes, cfg.span = []int{100, 500}, time.Second
	cfg.users = 100
	cfg.waiters, cfg.stay = []int{10, 10, 20}, time.Millisecond
	cfg.engine, cfg.python, cfg.redis, cfg.wire = "", "", "", "" // the first two and the last take a minute to start
	return cfg
}

// runAll returns the whole report, and the folder of its temporary files.
func runAll(t *testing.T, cfg config) (text, folder string) {
	t.Helper()
	folder = t.TempDir()
	t.Setenv("TMPDIR", folder)
	var out bytes.Buffer
	if err := run(context.Background(), cfg, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String(), folder
}

// hasRow reports whether a line begins with these cells.
func hasRow(text string, cells ...string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.Join(strings.Fields(line), " ")+" ", strings.Join(cells, " ")+" ") {
			return true
		}
	}
	return false
}

func TestEveryRowIsPrinted(t *testing.T) {
	cfg := smallConfig()
	text, _ := runAll(t, cfg)
	var want [][]string
	for _, s := range cfg.subjects() {
		want = append(want, []string{fmt.Sprint(s.workers), fmt.Sprint(s.keys), s.library})
	}
	for _, n := range cfg.limits {
		want = append(want, []string{fmt.Sprint(n)})
	}
	for _, n := range cfg.callers {
		for _, what := range []string{nameOurs, nameOwn, nameShared} {
			want = append(want, []string{fmt.Sprint(n), what})
		}
	}
	want = append(want,
		[]string{"memory:", nameOurs}, []string{"memory:", nameGoLimiter}, []string{"memory:", nameThrottled},
		[]string{"sqlite:", nameOurs}, []string{"sqlite:", "bare statement"},
		[]string{"memory: ours / go-limiter at 1 key <= 4"},
		[]string{"memory: our growth from 1 to 100 keys / go-limiter's own <= 1.3"},
		[]string{"sqlite: our time / the better bare one"}, []string{"sqlite: our throughput / the better bare one"},
		[]string{"wait: throughput of a busy key on sqlite beside 10 that wait / alone >= 0.8"},
		[]string{"wait: time for one of 20 waiters of a line to leave / one of 10 <= 3"},
		[]string{"client: our CPU / raw UpdateItem, 1 caller <= 0.85"},
		[]string{"client: p50 of a cascade / of a single acquire, stub of 5ms, 16 callers <= 1.3"},
		[]string{namePlainSums}, []string{nameProcess}, []string{nameAtOnce}, []string{nameDecode},
		[]string{nameAggregate},
		[]string{"Aggregate, 100 at a time, with them 500"},
		[]string{"aggregator: heap of 500 changes / of 100: Process, all at once, beyond them <= 1.2"},
		[]string{"loadtest: us of the generator for one task, back to back <= 5"},
		[]string{"loadtest: MiB of a process with 100 users <= 1024"},
		[]string{nameEmpty}, []string{nameLimited},
		[]string{"front: microseconds that httplimit on memory adds to an empty handler, p50 <= 3"},
		[]string{nameEmptyGRPC}, []string{nameEnvoy},
		[]string{"front: calls a second of Envoy's service on memory, as a share of an empty gRPC service >= 0.6"},
		[]string{nameBareProxy}, []string{nameProxy},
		[]string{"front: latency of the proxy / a bare ReverseProxy, 64 callers, p50 <= 1.3"},
		[]string{nameBare}, []string{nameObserved},
		[]string{"front: microseconds that telemetry without an SDK adds to a decision <= 1"},
		[]string{"front: allocations that telemetry without an SDK adds to a decision <= 3"},
		[]string{"escrow: CPU of acquire+commit from a pot / on memory, stub of 5ms <= 1.5"},
		[]string{"escrow: p99 of a local admission in us, stub of 5ms <= 5"},
		[]string{"escrow: throughput / raw UpdateItem, stub of 5ms, 16 callers >= 200"},
		[]string{"left out: DynamoDB Local is switched off"},
		[]string{"left out: the benchmark of the wire is switched off"})
	for _, w := range workloads() {
		for _, what := range []string{nameRaw, nameOurs, nameEscrow, nameMemory} {
			want = append(want, []string{w.name, "1", what}, []string{w.name, "16", what})
		}
	}
	for _, n := range cfg.callers {
		for _, what := range []string{nameRaw, nameOurs, nameCascade} {
			want = append(want, []string{"0s", fmt.Sprint(n), what}, []string{"5ms", fmt.Sprint(n), what})
		}
	}
	for _, cells := range want {
		if !hasRow(text, cells...) {
			t.Errorf("no row %q", cells)
		}
	}
	if verdicts := strings.Count(text, "PASS") + strings.Count(text, "MISS by"); verdicts != 24 {
		t.Errorf("%d verdicts, want 24", verdicts)
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestOnlySelectsSections(t *testing.T) {
	cfg, err := parse([]string{"-quick", "-rounds", "1", "-only", "^limits$"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	cfg.sample = time.Millisecond
	text, _ := runAll(t, cfg)
	if !strings.Contains(text, "\nlimits: ") || strings.Contains(text, "\nmemory: ") ||
		strings.Contains(text, "targets") {
		t.Errorf("printed\n%s", text)
	}
}

func TestFilesAreRemoved(t *testing.T) {
	cfg, err := parse([]string{"-quick", "-rounds", "1", "-only", "sqlite"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	cfg.sample = time.Millisecond
	_, folder := runAll(t, cfg)
	if left, _ := filepath.Glob(filepath.Join(folder, "zae-limiter-bench-*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-only", "("}, {"-rounds", "-1"}, {"-no-such-flag"}, {"stray"}} {
		var said bytes.Buffer
		if _, err := parse(args, &said); err == nil || said.Len() == 0 {
			t.Errorf("%q: error %v, said %q", args, err, said.String())
		}
	}
}

// TestBareRowIsOurs checks that the bare statement finds the row copied from
// our store, and changes it once for each operation.
func TestBareRowIsOurs(t *testing.T) {
	ctx := context.Background()
	dbs, err := openDatabases(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dbs.close(); err != nil {
			t.Error(err)
		}
	}()
	var before, after int
	const query = "SELECT events FROM buckets_v7"
	if err := dbs.own.db.QueryRowContext(ctx, query).Scan(&before); err != nil {
		t.Fatal(err)
	}
	if err := parallel(2, dbs.own.take)(7); err != nil {
		t.Fatal(err)
	}
	if err := dbs.own.db.QueryRowContext(ctx, query).Scan(&after); err != nil {
		t.Fatal(err)
	}
	if after-before != 7 {
		t.Errorf("%d changes by 7 operations", after-before)
	}
}

func TestBenchmarkLines(t *testing.T) {
	const out = `goos: linux
BenchmarkUpdateItem/callers=1-2    500  867298 ns/op  222508 sdk-cpu-ns/op  106996 wire-cpu-ns/op  0.4809 wire/sdk
BenchmarkUpdateItem/callers=1      500  867298 ns/op  222508 sdk-cpu-ns/op  106996 wire-cpu-ns/op  0.5 wire/sdk
BenchmarkUpdateItem/callers=16-2   500  867298 ns/op  222508 sdk-cpu-ns/op  106996 wire-cpu-ns/op  0.6 wire/sdk
PASS
`
	if got := fmt.Sprint(
		benchmarked(out, "callers=1", unitRatio), benchmarked(out, "callers=16", unitWire),
	); got != "[0.4809 0.5] [106996]" {
		t.Error(got)
	}
}
