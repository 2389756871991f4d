package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// loads returns the loads to compare. Near the limit, the bucket covers the
// requests of the next while, but most of its tokens have accrued and are not
// stored. At the limit, calls take everything that accrues, and some are
// refused.
func loads() []load {
	const (
		near, at = 3 * refillPerSecond, 0
		steadily = 1.0
		tooMuch  = 1.1
		second   = time.Second
	)
	return []load{
		{nameOurs, 4, near, steadily, second, true},
		{nameExact, 4, near, steadily, second, true},
		{nameOurs, 4, near / 4, steadily, second / 4, true},
		{nameOurs, 4, near, steadily, 5 * second, false},
		{nameOurs, 1, near, steadily, second, false},
		{nameOurs, 4, at, tooMuch, second, false},
		{nameOurs, 1, at, tooMuch, second, false},
	}
}

// refillSection counts the acquires that need a second request, with and
// without an aggregator that refills buckets ahead of need. The load has its
// own clock, so rounds differ by chance alone, and few are enough.
func refillSection(ctx context.Context, cfg config, r *report) error {
	return onEngine(ctx, cfg, r, func(endpoint string) error {
		g, err := newRefillRig(ctx, endpoint)
		if err != nil {
			return err
		}
		return errors.Join(g.compareLoads(ctx, cfg, r), g.close())
	})
}

func (g *refillRig) compareLoads(ctx context.Context, cfg config, r *report) error {
	rounds := halfOf(cfg.rounds)
	r.line("  %d rounds of %v, limits refill %d acquires a second", rounds, cfg.span, refillPerSecond)

	var rows [][]string
	for _, l := range loads() {
		b, err := g.compare(ctx, l, rounds, cfg.span)
		if err != nil {
			return fmt.Errorf("%d x %s: %w", l.takers, l.who, err)
		}
		rows = append(rows, b.row(l))
		b.targets(r, l)
	}

	return r.table([]string{
		"takers", "who", "bucket covers", "load", "looks", "second, without", "with", "ratio",
		"requests/acquire, without", "with", "admitted, with / without",
	}, rows)
}

// both holds the rounds of a load without and with an aggregator.
type both struct{ without, with []loaded }

func (g *refillRig) compare(ctx context.Context, l load, rounds int, span time.Duration) (b both, err error) {
	for round := range rounds {
		// The same seed gives both runs the same calls.
		without, err := g.run(ctx, l, false, span, uint64(round))
		if err != nil {
			return b, err
		}

		with, err := g.run(ctx, l, true, span, uint64(round))
		if err != nil {
			return b, err
		}

		b.without, b.with = append(b.without, without), append(b.with, with)
	}
	return b, nil
}

// over returns the quotient of each round that has one.
func (b both) over(of func(loaded) float64) (s series) {
	for i := range b.with {
		if of(b.without[i]) > 0 {
			s = append(s, of(b.with[i])/of(b.without[i]))
		}
	}
	return s
}

func (b both) row(l load) []string {
	ratio := "-"
	// Rounds without a second request leave nothing to divide by.
	if s := b.over(loaded.share); len(s) > 0 {
		ratio = s.ratio()
	}

	without, with := summed(b.without), summed(b.with)
	return append(l.cells(),
		fmt.Sprintf("%.2f%%", 100*without.share()), fmt.Sprintf("%.2f%%", 100*with.share()), ratio,
		fmt.Sprintf("%.3f", without.requests()), fmt.Sprintf("%.3f", with.requests()),
		b.over(loaded.taken).show("%.3f"))
}

// cells returns the first cells of a load's row.
func (l load) cells() []string {
	covers := time.Duration(l.left) * time.Second / refillPerSecond
	return []string{strconv.Itoa(l.takers), l.who, covers.String(), fmt.Sprintf("%.1f", l.offered), l.looks.String()}
}

// targets adds two targets: an aggregator that reads the stream often enough
// spares second requests, and it never costs an acquire.
func (b both) targets(r *report, l load) {
	if s := b.over(loaded.share); l.halves && len(s) > 0 {
		r.atMost(0.5, s, "refill: second requests with an aggregator / without, %d x %s, a look in %v", l.takers,
			l.who, l.looks)
	}

	if l.left == 0 {
		r.atLeast(0.99, b.over(loaded.taken), "refill: admitted at the limit with an aggregator / without, %d x %s",
			l.takers, l.who)
	}
}
