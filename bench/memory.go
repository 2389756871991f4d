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

// newLibrary makes a library in memory with all keys in it.
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

// memoryContenders are all libraries with all numbers of keys and workers, and
// what closes them. They stay in memory together, so that the rounds can go
// through all of them; those that are compared follow each other.
func memoryContenders(ctx context.Context, cfg config) (contenders []contender[subject], closeAll func() error, err error) {
	made := map[subject]library{}
	closeAll = func() error { return closeLibraries(slices.Collect(maps.Values(made))) }
	for _, n := range cfg.keys {
		keys := newKeyset(n)
		for _, name := range libraryNames {
			lib, err := newLibrary(ctx, name, keys, slices.Max(cfg.workers))
			if err != nil {
				return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), closeAll())
			}
			made[subject{library: name, keys: n}] = lib
		}
	}
	for _, s := range cfg.subjects() {
		lib := made[subject{library: s.library, keys: s.keys}]
		contenders = append(contenders, contender[subject]{s, parallel(s.workers, lib.take)})
	}
	return contenders, closeAll, nil
}

// subjects are all of the memory section, in the order of its table.
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

// memorySection compares libraries at each number of keys and workers, and each
// with itself as the keys become more.
func memorySection(ctx context.Context, cfg config, r *report) error {
	contenders, closeAll, err := memoryContenders(ctx, cfg)
	if err != nil {
		return err
	}
	times, err := measure(ctx, cfg, contenders)
	if err := errors.Join(err, closeAll()); err != nil {
		return err
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
	r.atMost(4, at(nameOurs, few).over(at(nameGoLimiter, few)), "memory: ours / go-limiter at %d key", few)
	r.atMost(1.3, growth(nameOurs).over(growth(nameGoLimiter)), "memory: our growth from %d to %d keys / go-limiter's own", few, many)
}
