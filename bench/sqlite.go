package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/zeroae/zae-limiter-go/sqlite"
)

// databases holds our store and two ways to run the bare statement, each on a
// file of its own in one folder.
type databases struct {
	folder string
	ours   *ours
	// own has a connection for each goroutine, so they wait for each other in
	// SQLite.
	own *bare
	// shared has one connection for all, so they wait for each other in package
	// database/sql.
	shared *bare
}

// openDatabases creates the files, with one bucket each.
func openDatabases(ctx context.Context, callers int) (_ *databases, err error) {
	d := &databases{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()

	if d.folder, err = os.MkdirTemp("", "zae-limiter-bench-"); err != nil {
		return nil, err
	}

	path := func(name string) string { return filepath.Join(d.folder, name) }
	repo, err := sqlite.Open(ctx, path("ours.db"), nil)
	if err != nil {
		return nil, err
	}
	if d.ours, err = newOurs(ctx, repo, newKeyset(1), callers, twoLimits); err != nil {
		// The repository does not belong to d yet.
		return nil, errors.Join(err, repo.Close())
	}

	if d.own, err = newBare(ctx, path("own.db"), path("ours.db"), callers); err != nil {
		return nil, err
	}

	d.shared, err = newBare(ctx, path("shared.db"), path("ours.db"), 1)
	return d, err
}

// close closes the databases and removes the files.
func (d *databases) close() error {
	var errs []error
	if d.ours != nil {
		errs = append(errs, d.ours.close())
	}
	for _, b := range []*bare{d.own, d.shared} {
		if b != nil {
			errs = append(errs, b.close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(d.folder))...)
}

// caller is a contender of the sqlite section.
type caller struct {
	what    string
	callers int
}

// Names of the contenders in tables.
const (
	nameOwn    = "bare, a connection each"
	nameShared = "bare, one connection"
)

func (d *databases) contenders(cfg config) (all []contender[caller]) {
	for _, n := range cfg.callers {
		all = append(all,
			contender[caller]{caller{nameOurs, n}, parallel(n, d.ours.take)},
			contender[caller]{caller{nameOwn, n}, parallel(n, d.own.take)},
			contender[caller]{caller{nameShared, n}, parallel(n, d.shared.take)})
	}
	return all
}

// sqliteSection compares our store with the faster of the two ways to run the
// bare statement. Rounds are short, so there are three times as many.
func sqliteSection(ctx context.Context, cfg config, r *report) error {
	cfg.rounds *= 3
	maxCallers := cfg.callers[len(cfg.callers)-1]

	dbs, err := openDatabases(ctx, maxCallers)
	if err != nil {
		return err
	}

	contenders := dbs.contenders(cfg)
	times, err := measure(ctx, cfg, contenders)
	if err := errors.Join(err, dbs.close()); err != nil {
		return err
	}

	var rows [][]string
	for _, c := range contenders {
		beside := ""
		if c.id.what != nameOurs {
			beside = times[caller{nameOurs, c.id.callers}].over(times[c.id]).ratio()
		}

		rows = append(rows, []string{
			strconv.Itoa(c.id.callers), c.id.what, times[c.id].micros(), throughput(times[c.id]), beside,
		})
	}

	sqliteTargets(cfg, r, times)
	return r.table([]string{"goroutines", "what", "us/op", "ops/s", "ours / it"}, rows)
}

func throughput(s series) string { return fmt.Sprintf("%.0f", 1e9/s.median()) }

func sqliteTargets(cfg config, r *report, times map[caller]series) {
	one, maxCallers := cfg.callers[0], cfg.callers[len(cfg.callers)-1]
	// Which bare way is the faster one depends on the number of goroutines.
	best := func(n int) (series, string) {
		own, shared := times[caller{nameOwn, n}], times[caller{nameShared, n}]
		if own.median() < shared.median() {
			return own, nameOwn
		}
		return shared, nameShared
	}

	alone, way := best(one)
	r.atMost(4, times[caller{nameOurs, one}].over(alone),
		"sqlite: our time / the better bare one (%s), %d goroutine", way, one)

	crowd, way := best(maxCallers)
	r.atLeast(1, crowd.over(times[caller{nameOurs, maxCallers}]),
		"sqlite: our throughput / the better bare one (%s), %d goroutines", way, maxCallers)
}
