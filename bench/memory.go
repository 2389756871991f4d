package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Names of the libraries in tables.
const (
	nameOurs      = "zae-limiter"
	nameGoLimiter = "go-limiter"
	nameThrottled = "throttled"
)

var libraryNames = []string{nameOurs, nameGoLimiter, nameThrottled}

const twoLimits = 2

// newLibrary creates a library in memory with all keys in it.
func newLibrary(ctx context.Context, name string, keys *keyset, workers int) (library, error) {
	switch name {
	case nameOurs:
		return newOursInMemory(ctx, keys, workers, twoLimits)
	case nameGoLimiter:
		return newGoLimiter(ctx, keys, workers)
	case nameThrottled:
		return newThrottled(ctx, keys, workers)
	}
	return nil, fmt.Errorf("there is no library %q", name)
}

// subject is a contender of the memory section.
type subject struct {
	library       string
	keys, workers int
}

// memoryTimes measures all libraries with one number of keys. Nothing else is
// in memory then: other live objects would change how often garbage is
// collected, and whether allocated memory is still in the CPU cache.
func memoryTimes(ctx context.Context, cfg config, n int) (_ map[subject]series, err error) {
	var made []library
	defer func() { err = errors.Join(err, closeLibraries(made)) }()

	keys := newKeyset(n)
	var contenders []contender[subject]
	for _, name := range libraryNames {
		// A contender with fewer workers uses the first pickers of the same
		// library.
		lib, err := newLibrary(ctx, name, keys, slices.Max(cfg.workers))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		made = append(made, lib)
	}

	for _, workers := range cfg.workers {
		for i, name := range libraryNames {
			contenders = append(contenders, contender[subject]{
				subject{name, n, workers}, parallel(workers, made[i].take),
			})
		}
	}

	return measure(ctx, cfg, contenders)
}

// subjects returns all contenders of the memory section, in the order of its
// table.
func (c *config) subjects() (all []subject) {
	for _, workers := range c.workers {
		for _, keys := range c.keys {
			for _, name := range libraryNames {
				all = append(all, subject{name, keys, workers})
			}
		}
	}
	return all
}

func closeLibraries(all []library) error {
	var errs []error
	for _, lib := range all {
		errs = append(errs, lib.close())
	}
	return errors.Join(errs...)
}

// memorySection compares the libraries at each number of keys and workers, and
// each library with itself as keys are added.
func memorySection(ctx context.Context, cfg config, r *report) error {
	times := map[subject]series{}
	for _, n := range cfg.keys {
		some, err := memoryTimes(ctx, cfg, n)
		if err != nil {
			return err
		}
		maps.Copy(times, some)
	}

	var rows [][]string
	for _, s := range cfg.subjects() {
		rows = append(rows, memoryRow(times, s, cfg.keys[0]))
	}

	memoryTargets(cfg, r, times)
	return r.table([]string{"goroutines", "keys", "library", "ns/op", "ours / it", "x its 1 key"}, rows)
}

func memoryRow(times map[subject]series, s subject, fewest int) []string {
	beside, growth := "", ""
	if s.library != nameOurs {
		beside = times[subject{nameOurs, s.keys, s.workers}].over(times[s]).ratio()
	}
	if s.keys != fewest {
		growth = times[s].over(times[subject{s.library, fewest, s.workers}]).ratio()
	}

	return []string{strconv.Itoa(s.workers), strconv.Itoa(s.keys), s.library, times[s].nanos(), beside, growth}
}

func memoryTargets(cfg config, r *report, times map[subject]series) {
	few, many, one := cfg.keys[0], cfg.keys[len(cfg.keys)-1], cfg.workers[0]
	at := func(library string, keys int) series { return times[subject{library, keys, one}] }
	growth := func(library string) series { return at(library, many).over(at(library, few)) }

	// The targets are for one goroutine, since the times of several depend on
	// the CPUs that are free.
	r.atMost(4, at(nameOurs, few).over(at(nameGoLimiter, few)), "memory: ours / go-limiter at %d key", few)
	r.atMost(1.3, growth(nameOurs).over(growth(nameGoLimiter)),
		"memory: our growth from %d to %d keys / go-limiter's own", few, many)
}

// limitsSection shows how the cost of an acquire grows with the limits of a
// bucket.
func limitsSection(ctx context.Context, cfg config, r *report) error {
	keys := newKeyset(1)
	var made []library
	var contenders []contender[int]

	for _, n := range cfg.limits {
		lib, err := newOursInMemory(ctx, keys, 1, n)
		if err != nil {
			return errors.Join(err, closeLibraries(made))
		}
		made = append(made, lib)
		contenders = append(contenders, contender[int]{n, parallel(1, lib.take)})
	}

	times, err := measure(ctx, cfg, contenders)
	if err := errors.Join(err, closeLibraries(made)); err != nil {
		return err
	}

	var rows [][]string
	for _, n := range cfg.limits {
		rows = append(rows, []string{strconv.Itoa(n), times[n].nanos(), times[n].over(times[cfg.limits[0]]).ratio()})
	}
	return r.table([]string{"limits", "ns/op", "x 1 limit"}, rows)
}
