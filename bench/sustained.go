package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
)

// sustainedSection times samples that span whole garbage collections, on a
// heap with nothing but the libraries and one number of keys. They show the
// speed of a long-running program. Samples of the memory section begin with a
// clean heap, which is too large to be collected before they end, and never
// reuse memory that is still in the CPU cache.
func sustainedSection(ctx context.Context, cfg config, r *report) error {
	names := []string{nameOurs, nameGoLimiter}
	few, many := cfg.keys[0], slices.Max(cfg.keys)
	growth := map[string]float64{}
	var rows [][]string

	for _, n := range []int{few, many} {
		times, collections, err := sustained(ctx, cfg, names, n)
		if err != nil {
			return err
		}

		for _, name := range names {
			beside := ""
			if name != nameOurs {
				beside = times[nameOurs].over(times[name]).ratio()
			}

			rows = append(rows, []string{
				strconv.Itoa(n), name, times[name].nanos(), beside, fmt.Sprintf("%.1f", collections[name]),
			})
			// The growth of later numbers of keys is relative to the first.
			if n == few {
				growth[name] = 1
			}
			growth[name] = times[name].median() / growth[name]
		}
	}

	if err := r.table([]string{"keys", "library", "ns/op", "ours / it", "collections in a round"}, rows); err != nil {
		return err
	}

	r.line("  our growth / go-limiter's own, of the medians: %.2f", growth[nameOurs]/growth[nameGoLimiter])
	return nil
}

// sustained runs the libraries in turn, and counts the collections of a round.
func sustained(
	ctx context.Context, cfg config, names []string, keys int,
) (_ map[string]series, collections map[string]float64, err error) {
	var made []library
	defer func() { err = errors.Join(err, closeLibraries(made)) }()

	set := newKeyset(keys)
	sizes := map[string]int{}
	for _, name := range names {
		lib, err := newLibrary(ctx, name, set, 1)
		if err != nil {
			return nil, nil, err
		}
		made = append(made, lib)
	}

	for i, name := range names {
		if sizes[name], err = wholeCollections(parallel(1, made[i].take), cfg); err != nil {
			return nil, nil, err
		}
	}

	times, collections := map[string]series{}, map[string]float64{}
	for range cfg.rounds {
		for i, name := range names {
			before := memStats()
			// No collection precedes a sample, which has to pay for its own.
			perOp, err := timed(parallel(1, made[i].take), sizes[name])
			if err := errors.Join(err, ctx.Err()); err != nil {
				return nil, nil, err
			}

			times[name] = append(times[name], perOp)
			collections[name] += float64(memStats().NumGC-before.NumGC) / float64(cfg.rounds)
		}
	}

	return times, collections, nil
}

// wholeCollections returns the number of operations that last for at least one
// sample and allocate twice the size of the heap, which makes two collections.
func wholeCollections(run func(int) error, cfg config) (int, error) {
	n, err := calibrate(run, cfg.sample)
	if err != nil {
		return 0, err
	}

	used, err := allocations(run, n)
	if err != nil {
		return 0, err
	}

	if used.bytes < 1 { // nothing to collect
		return n, nil
	}
	// Without garbage, HeapAlloc is the heap that a collection leaves.
	runtime.GC()
	return max(n, int(2*float64(memStats().HeapAlloc)/used.bytes)), nil
}

func memStats() (m runtime.MemStats) {
	runtime.ReadMemStats(&m)
	return m
}
