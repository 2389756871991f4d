package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// pageConfig returns the settings of the measured calls.
func pageConfig(o pageOptions) config {
	cfg := fullConfig()
	cfg.sample = 500 * time.Millisecond
	if o.quick {
		cfg.rounds, cfg.sample = 2, 20*time.Millisecond
	}
	return cfg
}

// callRows runs probes in turn and returns a row for each: medians over the
// rounds, and the number of calls in all of them.
func callRows(ctx context.Context, cfg config, probes []probe) ([]pageRow, error) {
	all, err := rounds(ctx, cfg, probes)
	if err != nil {
		return nil, err
	}

	var rows []pageRow
	for _, p := range probes {
		rows = append(rows, all.pageRow(p.id))
	}
	return rows, nil
}

// pageRow returns the medians of a contender, and the number of its calls.
func (m measured) pageRow(id caller) pageRow {
	median := func(what metric) float64 { return m.of(id, what).median() }
	row := pageRow{
		what: id.what, callers: id.callers, perSecond: median(perSecond),
		p50: median(p50), p95: median(p95), p99: median(p99), cpu: median(cpuPerCall),
	}

	for _, n := range m.of(id, calls) {
		row.calls += int(n)
	}
	return row
}

func memoryRows(ctx context.Context, o pageOptions) (_ []pageRow, err error) {
	const keys = 1000
	cfg := pageConfig(o)
	var libraries []library
	defer func() { err = errors.Join(err, closeLibraries(libraries)) }()

	var probes []probe
	for _, n := range cfg.callers {
		lib, err := newOursInMemory(ctx, newKeyset(keys), n, twoLimits)
		if err != nil {
			return nil, err
		}
		libraries = append(libraries, lib)
		probes = append(probes, inProcess(ctx, caller{fmt.Sprintf("%s, %d keys", nameOurs, keys), n}, pickOne(lib)))
	}

	return callRows(ctx, cfg, probes)
}

// pickOne returns a call that acquires for a key at random.
func pickOne(o *ours) func(context.Context) error {
	keys := o.pickers[0].keys
	// Concurrent callers share this function, so it has no picker, which
	// belongs to one of them.
	return func(ctx context.Context) error {
		req := o.request
		req.Entity = keys[rand.IntN(len(keys))]
		return o.acquire(ctx, &req)
	}
}

func sqliteRows(ctx context.Context, o pageOptions) (_ []pageRow, err error) {
	cfg := pageConfig(o)
	dbs, err := openDatabases(ctx, cfg.callers[len(cfg.callers)-1])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dbs.close()) }()

	var probes []probe
	for _, n := range cfg.callers {
		probes = append(probes,
			inProcess(ctx, caller{nameOurs, n}, pickOne(dbs.ours)),
			//nolint:contextcheck // take makes its own
			inProcess(ctx, caller{nameShared, n}, func(context.Context) error { return dbs.shared.take(0, 1) }))
	}

	return callRows(ctx, cfg, probes)
}

func stubRows(ctx context.Context, o pageOptions) (rows []pageRow, err error) {
	err = onStub(ctx, 0, func(endpoint string) (err error) {
		rows, err = tableRows(ctx, o, endpoint)
		return err
	})
	return rows, err
}

func engineRows(ctx context.Context, o pageOptions) (_ []pageRow, err error) {
	engine, endpoint, err := startServer(ctx, pageConfig(o).engine, "run")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.close()) }()
	return tableRows(ctx, o, endpoint)
}

// tableRows measures all ways to call the table of an engine or a stub.
func tableRows(ctx context.Context, o pageOptions, endpoint string) (_ []pageRow, err error) {
	cfg := pageConfig(o)

	// The page has no gaps, so a machine without Python cannot write it.
	py, err := startPython(ctx, cfg.python, endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, py.close()) }()

	if err := prepare(ctx, endpoint); err != nil {
		return nil, err
	}

	all, err := measureTable(ctx, cfg, endpoint, py)
	if err != nil {
		return nil, err
	}

	var rows []pageRow
	for _, id := range all.inOrder(cfg.callers) {
		rows = append(rows, all.pageRow(id))
	}
	return rows, nil
}

// escrowPageRows measures all workloads on a stub with a delay. It leaves out
// redis_rate where there is no Redis.
func escrowPageRows(ctx context.Context, o pageOptions) (rows []pageRow, err error) {
	err = onStub(ctx, farAway, func(endpoint string) (err error) {
		rows, err = escrowRowsOn(ctx, pageConfig(o), endpoint)
		return err
	})
	return rows, err
}

func escrowRowsOn(ctx context.Context, cfg config, endpoint string) (rows []pageRow, err error) {
	redis, err := startRedis(ctx, cfg.redis)
	if err != nil {
		redis = nil
	}
	defer func() { err = errors.Join(err, redis.close()) }()

	g, err := newEscrowRig(ctx, endpoint, redis)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }() //nolint:contextcheck // Close takes none

	for _, w := range workloads() {
		probes := g.probes(w, cfg.callers)
		all, err := hotRounds(ctx, halfOf(cfg.rounds), cfg.sample, w.keyset(), probes)
		if err != nil {
			return nil, err
		}

		for i := range probes {
			row := all.pageRow(probes[i].id)
			row.notes = all.escrowNotes(probes[i].id)
			row.what = w.name + ": " + row.what
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// escrowNotes returns the requests for an admission and the tokens held.
func (m measured) escrowNotes(id caller) string {
	requests, held := m.escrowCells(id)
	if held != "-" {
		return fmt.Sprintf("%s requests per admission; %s tokens held", requests, held)
	}
	if requests != "-" {
		return requests + " requests per admission"
	}
	return ""
}
