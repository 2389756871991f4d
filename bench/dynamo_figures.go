package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// metric is what is measured of calls to a table. Times are in nanoseconds.
type metric int

const (
	perSecond metric = iota
	p50
	p99
	cpuPerCall // of the client's process, garbage collection included
	objects    // allocated for one call
	bytesEach
	metricCount
)

// figures are what one sample came to. What cannot be known is 0.
type figures [metricCount]float64

// probe is one way to call a table, from a number of callers at once.
type probe struct {
	id  caller
	run func(n int) (figures, error) // n calls
}

// measured is the figures of each round.
type measured map[caller][]figures

func (m measured) of(id caller, what metric) series {
	var s series
	for _, f := range m[id] {
		s = append(s, f[what])
	}
	return s
}

// over is the quotient of one metric round by round.
func (m measured) over(a, b caller, what metric) series { return m.of(a, what).over(m.of(b, what)) }

// rounds runs every probe once a round, in turn, as measure does. The first
// round is not kept: a server in Java is still being compiled then.
func rounds(ctx context.Context, cfg config, probes []probe) (measured, error) {
	sizes := make([]int, len(probes))
	for i, p := range probes {
		n, err := calibrate(func(n int) error { _, err := p.run(n); return err }, cfg.sample)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", p.id, err)
		}
		sizes[i] = n
	}
	all := measured{}
	for round := range cfg.rounds + 1 {
		for i, p := range probes {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			f, err := p.run(sizes[i])
			if err != nil {
				return nil, fmt.Errorf("%v: %w", p.id, err)
			}
			if round > 0 {
				all[p.id] = append(all[p.id], f)
			}
		}
	}
	return all, nil
}

// inProcess is a probe of calls that this process makes.
func inProcess(ctx context.Context, id caller, call func(context.Context) error) probe {
	return probe{id, func(n int) (figures, error) {
		if err := timeEach(ctx, id.callers, make(series, warmup(n)), call); err != nil {
			return figures{}, err
		}
		took := make(series, n)
		runtime.GC() // so that samples do not collect each other's garbage
		memory, cpu, begin := memStats(), cpuTime(), time.Now()
		err := timeEach(ctx, id.callers, took, call)
		wall, used, now := time.Since(begin), cpuTime()-cpu, memStats()
		each := 1 / float64(n)
		return figures{
			perSecond: float64(n) / wall.Seconds(), p50: took.quantile(0.5), p99: took.quantile(0.99),
			cpuPerCall: float64(used) * each,
			objects:    float64(now.Mallocs-memory.Mallocs) * each,
			bytesEach:  float64(now.TotalAlloc-memory.TotalAlloc) * each,
		}, err
	}}
}

// timeEach makes as many calls as there is room for their times, spread over
// workers.
func timeEach(ctx context.Context, workers int, took series, call func(context.Context) error) error {
	n := len(took)
	return parallel(workers, func(worker, share int) error {
		first := n * worker / workers // as parallel shares them
		for i := first; i < first+share; i++ {
			begin := time.Now()
			if err := call(ctx); err != nil {
				return err
			}
			took[i] = float64(time.Since(begin))
		}
		return nil
	})(n)
}
