package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// farAway is the delay of the slower stub: a table in the same region.
const farAway = 5 * time.Millisecond

// clientSection measures the client alone, against a stub without delay and
// one with it.
func clientSection(ctx context.Context, cfg config, r *report) error {
	cfg = dynamoConfig(cfg, 4)
	var rows [][]string

	for _, delay := range []time.Duration{0, farAway} {
		all, err := measureStub(ctx, cfg, r, delay)
		if err != nil {
			return err
		}
		rows = append(rows, clientRows(cfg, all, delay)...)
		clientTargets(cfg, r, all, delay)
	}

	r.line("  %d rounds, samples of %v", cfg.rounds, cfg.sample)
	return r.table(
		[]string{
			"stub", "callers", "what", "client CPU us", "x raw", "allocations", "bytes", "p50 us", "x raw",
			"p99 us", "calls/s",
		},
		rows,
	)
}

func measureStub(ctx context.Context, cfg config, r *report, delay time.Duration) (all measured, err error) {
	err = onStub(ctx, delay, func(endpoint string) error {
		py := pythonOrNot(ctx, cfg, r, endpoint)
		err := prepare(ctx, endpoint)
		if err == nil {
			all, err = measureTable(ctx, cfg, endpoint, py)
		}
		return errors.Join(err, py.close())
	})
	return all, err
}

func clientRows(cfg config, all measured, delay time.Duration) (rows [][]string) {
	for _, id := range all.inOrder(cfg.callers) {
		allocations, size := "-", "-"
		// Allocations inside Python are unknown.
		if id.what != namePython {
			allocations, size = fmt.Sprintf("%.0f", all.of(id, objects).median()), fmt.Sprintf("%.0f",
				all.of(id, bytesEach).median())
		}

		rows = append(rows, []string{
			delay.String(), strconv.Itoa(id.callers), id.what, all.micros(id, cpuPerCall),
			all.besideRaw(id, cpuPerCall),
			allocations, size, all.micros(id, p50), all.besideRaw(id, p50), all.micros(id, p99),
			fmt.Sprintf("%.0f", all.of(id, perSecond).median()),
		})
	}
	return rows
}

// clientTargets compares CPU time on the stub without delay, and the time of a
// cascade on the stub with it.
func clientTargets(cfg config, r *report, all measured, delay time.Duration) {
	for _, n := range cfg.callers {
		ours := caller{nameOurs, n}
		// The delay shows requests that wait for each other, and a cascade
		// should make its requests at once.
		if delay > 0 {
			r.atMost(1.3, all.over(caller{nameCascade, n}, ours, p50),
				"client: p50 of a cascade / of a single acquire, stub of %v, %s", delay, callersOf(n))
			continue
		}

		r.atMost(0.85, all.over(ours, caller{nameRaw, n}, cpuPerCall), "client: our CPU / raw UpdateItem, %s",
			callersOf(n))

		if _, ok := all[caller{namePython, n}]; ok {
			r.atMost(0.2, all.over(ours, caller{namePython, n}, cpuPerCall), "client: our CPU / Python's, %s",
				callersOf(n))
		}
	}
}
