package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// allocated holds the allocations of one operation.
type allocated struct{ objects, bytes float64 }

func memStats() (m runtime.MemStats) {
	runtime.ReadMemStats(&m)
	return m
}

// allocations counts over the whole process, including the background work of
// a store.
func allocations(run func(int) error, n int) (allocated, error) {
	// The first operations fill caches and pools, which the counted ones use.
	if err := run(warmup(n)); err != nil {
		return allocated{}, err
	}

	before := memStats()
	err := run(n)
	after := memStats()

	return allocated{
		objects: float64(after.Mallocs-before.Mallocs) / float64(n),
		bytes:   float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
	}, err
}

// allocsSection counts allocations of every library, with one key and one
// goroutine.
func allocsSection(ctx context.Context, cfg config, r *report) error {
	// The background work of a store counts little among many operations.
	const operations = 2000
	var rows [][]string

	count := func(name string, lib library) error {
		got, err := allocations(parallel(1, lib.take), operations)
		if err != nil {
			return err
		}
		rows = append(rows, []string{name, fmt.Sprintf("%.1f", got.objects), fmt.Sprintf("%.0f", got.bytes)})
		return nil
	}

	for _, name := range libraryNames {
		lib, err := newLibrary(ctx, name, newKeyset(1), 1)
		if err != nil {
			return err
		}
		if err := errors.Join(count("memory: "+name, lib), lib.close()); err != nil {
			return err
		}
	}

	dbs, err := openDatabases(ctx, 1)
	if err != nil {
		return err
	}

	err = errors.Join(count("sqlite: "+nameOurs, dbs.ours), count("sqlite: bare statement", dbs.shared), dbs.close())
	if err != nil {
		return err
	}

	return r.table([]string{"one operation of", "allocations", "bytes"}, rows)
}
