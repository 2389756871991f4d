package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// escrowSection measures tokens in escrow beside the raw call, the plain
// acquire, memory and redis_rate: at full speed on a stub and on DynamoDB Local,
// then at the pace of a demand from several processes.
func escrowSection(ctx context.Context, cfg config, r *report) (err error) {
	redis := redisOrNot(ctx, cfg, r)
	defer func() { err = errors.Join(err, redis.close()) }()

	cfg.sample *= 3
	r.line("  samples of %v; %d rounds of the first workload, %d of the others; tokens held are summed over all limits",
		cfg.sample, cfg.rounds, halfOf(cfg.rounds))

	err = onStub(ctx, farAway, func(endpoint string) error {
		return escrowSpeed(ctx, cfg, r, "stub of "+farAway.String(), endpoint, redis)
	})
	if err != nil {
		return err
	}

	return onEngine(ctx, cfg, r, func(endpoint string) error {
		if err := escrowSpeed(ctx, cfg, r, "DynamoDB Local", endpoint, redis); err != nil {
			return err
		}
		return escrowDemands(ctx, cfg, r, endpoint)
	})
}

// redisOrNot returns nil and prints a line if there is no Redis.
func redisOrNot(ctx context.Context, cfg config, r *report) *rateOnRedis {
	if cfg.redis == "" {
		r.line("  without redis_rate: Redis is switched off")
		return nil
	}

	redis, err := startRedis(ctx, cfg.redis)
	if err != nil {
		r.line("  without redis_rate, since Redis does not start: %s", oneLine(err))
		return nil
	}
	return redis
}

// escrowSpeed runs all workloads on a prepared table at full speed.
func escrowSpeed(ctx context.Context, cfg config, r *report, where, endpoint string, redis *rateOnRedis) (err error) {
	g, err := newEscrowRig(ctx, endpoint, redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }() //nolint:contextcheck // Close takes none

	var rows [][]string
	for i, w := range workloads() {
		rounds := cfg.rounds
		// Only the first workload has targets.
		if i > 0 {
			rounds = halfOf(rounds)
		}

		all, err := hotRounds(ctx, rounds, cfg.sample, w.keyset(), g.probes(w, cfg.callers))
		if err != nil {
			return fmt.Errorf("%s, %s: %w", where, w.name, err)
		}

		rows = append(rows, escrowRows(cfg.callers, w, all)...)
		if i == 0 {
			escrowTargets(cfg, r, where, all)
		}
	}

	r.line("\n  %s", where)
	return r.table(
		[]string{
			"workload", "callers", "what", "acquires/s", "x raw", "p50", "p99", "client CPU",
			"requests/admission", "tokens held",
		},
		rows,
	)
}

// escrowNames lists the contenders in the order of tables.
var escrowNames = []string{nameRaw, nameOurs, nameRedisRate, nameEscrow, nameMemory}

func escrowRows(callers []int, w workload, all measured) (rows [][]string) {
	for _, n := range callers {
		for _, what := range escrowNames {
			id := caller{what, n}
			// redis_rate has no figures without Redis, nor for the LLM
			// workload.
			if _, ok := all[id]; !ok {
				continue
			}

			requests, held := all.escrowCells(id)
			rows = append(rows, []string{
				w.name, strconv.Itoa(n), what, count(all.of(id, perSecond).median()), all.besideRaw(id, perSecond),
				all.short(id, p50), all.short(id, p99), all.short(id, cpuPerCall), requests, held,
			})
		}
	}
	return rows
}

// escrowCells returns the requests for an admission and the tokens held, or "-"
// where there are none.
func (m measured) escrowCells(id caller) (requests, held string) {
	switch each := m.of(id, requestsEach).median(); id.what {
	case nameMemory:
		return "-", "-"
	case nameOurs:
		return fmt.Sprintf("%.2f", each), "-"
	case nameEscrow:
		return fmt.Sprintf("%.2g", each), count(m.of(id, heldNow).median())
	}

	// The raw call and redis_rate make one request for each call.
	return "1", "-"
}

// short returns the median of a time, with its unit.
func (m measured) short(id caller, what metric) string { return shortTime(m.of(id, what).median()) }

// escrowTargets compares calls on one hot key.
func escrowTargets(cfg config, r *report, where string, all measured) {
	one, many := cfg.callers[0], cfg.callers[len(cfg.callers)-1]
	r.atMost(1.5, all.over(caller{nameEscrow, one}, caller{nameMemory, one}, cpuPerCall),
		"escrow: CPU of acquire+commit from a pot / on memory, %s", where)
	r.atMost(5, all.of(caller{nameEscrow, one}, p99).per(nanosPerMicro),
		"escrow: p99 of a local admission in us, %s", where)
	r.atLeast(200, all.over(caller{nameEscrow, many}, caller{nameRaw, many}, perSecond),
		"escrow: throughput / raw UpdateItem, %s, %s", where, callersOf(many))

	if _, ok := all[caller{nameRedisRate, many}]; ok {
		r.atLeast(20, all.over(caller{nameEscrow, many}, caller{nameRedisRate, many}, perSecond),
			"escrow: throughput / redis_rate, %s, %s", where, callersOf(many))
	}
}
