package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// somePage returns tables with made-up rows.
func somePage() []pageTable {
	var tables []pageTable
	for _, s := range pageSources {
		tables = append(tables, pageTable{s, []pageRow{
			{what: "zae-limiter", callers: 1, calls: 1234, perSecond: 54321, p50: 800, p95: 1500, p99: 2.5e6, cpu: 700},
			{
				what: "<raw> & more", callers: 16, calls: 10, perSecond: 7.25, p50: 1e6, p95: 2e6, p99: 3e9,
				notes: "a note", command: "zae-limiter loadtest local simple",
			},
		}})
	}
	return tables
}

func TestPageShowsEveryFigure(t *testing.T) {
	folder := t.TempDir()
	m := machine{
		commit: "0123456789abcdef0123456789abcdef01234567", release: "after 1.2.3", date: "2026-11-16",
		processor: "a CPU", processors: 2, free: 1.9, system: "linux/amd64", goVersion: "go1.26",
	}
	if err := savePage(folder, m, somePage()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| commit | 0123456789abcdef0123456789abcdef01234567 |", "| Go | go1.26 |",
		"| zae-limiter | 1 | 1234 | 54,321 | 800 ns | 1.5 µs | 2.5 ms | 700 ns |  |",
		"| <raw> & more | 16 | 10 | 7.2 | 1 ms | 2 ms | 3 s |  | a note `zae-limiter loadtest local simple` |",
		"make report REPORTFLAGS='-only stub'", "265 requests/s",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, table := range somePage() {
		checkChart(t, filepath.Join(folder, "images", table.chartFile()))
	}
}

// checkChart requires well-formed XML with a bar for each row.
func checkChart(t *testing.T, path string) {
	t.Helper()
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bars := 0
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 2 {
		t.Errorf("%s has %d bars", path, bars)
	}
}

func TestSomeTablesLeaveThePageAlone(t *testing.T) {
	folder := t.TempDir()
	var errs bytes.Buffer
	o, err := parsePage([]string{"-quick", "-only", "memory", "-folder", folder}, &errs)
	if err != nil {
		t.Fatal(err, errs.String())
	}
	var out bytes.Buffer
	if err := writePage(context.Background(), o, &out); err != nil {
		t.Fatal(err)
	}
	if !hasRow(out.String(), "| zae-limiter, 1000 keys | 16 |") {
		t.Error(out.String())
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Error(files, err)
	}
}

func TestPageRejectsWrongArguments(t *testing.T) {
	for _, args := range [][]string{{"-only", "("}, {"extra"}} {
		var errs bytes.Buffer
		if _, err := parsePage(args, &errs); err == nil || !strings.HasPrefix(errs.String(), "bench: ") {
			t.Errorf("%v: %v, %s", args, err, errs.String())
		}
	}
}

func TestShortTimes(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "< 1 µs", 12: "12 ns", 999: "999 ns", 1000: "1 µs", 1.234e6: "1.23 ms", 2e9: "2 s",
	} {
		if got := shortTime(ns); got != want {
			t.Errorf("shortTime(%v) = %q, want %q", ns, got, want)
		}
	}
	for n, want := range map[float64]string{7.25: "7.2", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("count(%v) = %q, want %q", n, got, want)
		}
	}
}
