package main

import (
	"context"
	"errors"
	"fmt"
)

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
