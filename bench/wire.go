package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Units of the benchmark of the wire.
const (
	unitSDK   = "sdk-cpu-ns/op"
	unitWire  = "wire-cpu-ns/op"
	unitRatio = "wire/sdk"
)

// wireSection measures an update over the wire of package dynamo beside the
// SDK's. The wire is internal, so its own benchmark measures it, in a process
// of its own: each line is a round of alternating slices.
func wireSection(ctx context.Context, cfg config, r *report) error {
	if cfg.wire == "" {
		r.line("  left out: the benchmark of the wire is switched off")
		return nil
	}
	calls := max(1, int(cfg.sample.Milliseconds())*4)
	cmd := goCommand(ctx, "..", "test", "-run", "^$", "-bench", "^BenchmarkUpdateItem$",
		"-benchtime", strconv.Itoa(calls)+"x", "-count", strconv.Itoa(cfg.rounds), cfg.wire)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var rows [][]string
	for _, n := range []int{1, 16} {
		name := fmt.Sprintf("callers=%d", n)
		sdk, wire := benchmarked(string(out), name, unitSDK), benchmarked(string(out), name, unitWire)
		ratio := benchmarked(string(out), name, unitRatio)
		if len(ratio) == 0 {
			return fmt.Errorf("the benchmark printed no %s: %s", unitRatio, out)
		}
		rows = append(rows, []string{strconv.Itoa(n), sdk.micros(), wire.micros(), ratio.ratio()})
		r.atMost(0.6, ratio, "wire: CPU of our UpdateItem / raw UpdateItem, %s", callersOf(n))
	}
	return r.table([]string{"callers", "raw UpdateItem, CPU us", "over the wire, CPU us", "x raw"}, rows)
}

// benchmarked returns the values of a unit in the lines of a benchmark.
func benchmarked(out, name, unit string) (values series) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		at := slices.Index(fields, unit)
		if at < 1 || !strings.Contains(fields[0]+"-", "/"+name+"-") {
			continue
		}
		if v, err := strconv.ParseFloat(fields[at-1], 64); err == nil {
			values = append(values, v)
		}
	}
	return values
}
