package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine describes where and from what the figures were measured.
type machine struct {
	commit, release, date, processor, system, goVersion string
	processors                                          int
	free                                                float64 // of the processors, at the start
}

// thisMachine describes this machine. The page names the commit that its
// figures are from, so the description marks a tree with changes.
func thisMachine(ctx context.Context) (machine, error) {
	// The docs do not affect figures, and include the page itself.
	changes, err := git(ctx, "status", "--porcelain", "--untracked-files=no", "--", ":!../docs")
	if err != nil {
		return machine{}, err
	}

	commit, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return machine{}, err
	}

	if changes != "" {
		commit += " with changes that are not committed"
	}

	release, err := newestRelease("../CHANGELOG.md")
	if err != nil {
		return machine{}, err
	}

	return machine{
		commit: commit, release: release, date: time.Now().UTC().Format(time.DateOnly), processor: processor(),
		processors: runtime.NumCPU(),
		system:     runtime.GOOS + "/" + runtime.GOARCH, goVersion: runtime.Version(), free: freeCPUs(),
	}, nil
}

// newestRelease returns the newest release that a changelog lists. A test of the page
// compares it with the changelog: figures may be one release old.
func newestRelease(changelog string) (string, error) {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return "", err
	}

	for line := range strings.Lines(string(text)) {
		name, ok := strings.CutPrefix(line, "## [")
		if name, _, _ = strings.Cut(name, "]"); ok && name != "Unreleased" {
			return "after " + name, nil
		}
	}
	return "before the first", nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// processor returns the name of the CPU, if the system says it.
func processor() string {
	// Only Linux has this file.
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	defer f.Close() //nolint:errcheck // it was only read

	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// freeCPUs returns how many CPUs this program gets at the moment: the speedup
// of some arithmetic on one goroutine for each CPU. If other programs are
// busy, rows with several goroutines mean little.
func freeCPUs() float64 {
	const work, tries = 20_000_000, 5
	var speedups series
	for range tries {
		speedups = append(speedups, spinning(1, work).Seconds()/spinning(runtime.NumCPU(), work).Seconds())
	}
	return speedups.median()
}

func spinning(workers, n int) time.Duration {
	sums := make([]int, workers)
	begin := time.Now()
	_ = parallel(workers, func(w, n int) error { // never fails
		sum := 1
		for i := range n {
			sum = sum*31 + i
		}
		// The compiler would drop a loop without a result.
		sums[w] = sum
		return nil
	})(n)
	return time.Since(begin)
}
