package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// metric is a property of calls to a table. Times are in nanoseconds.
type metric int

const (
	perSecond metric = iota
	p50
	p95
	p99
	cpuPerCall // of the client's process, including garbage collection
	objects    // allocated for one call
	bytesEach
	calls        // in the sample
	requestsEach // to a table, for one call
	heldNow      // tokens in escrow at the end of the sample
	metricCount
)

// figures holds the metrics of one sample. Unknown metrics are 0.
type figures [metricCount]float64

// probe is one way to call a table, from a number of concurrent callers.
type probe struct {
	id  caller
	run func(n int) (figures, error) // n calls
}

// measured holds the figures of each round.
type measured map[caller][]figures

func (m measured) of(id caller, what metric) series {
	var s series
	for _, f := range m[id] {
		s = append(s, f[what])
	}
	return s
}

// over returns the quotient of one metric in each round.
func (m measured) over(a, b caller, what metric) series { return m.of(a, what).over(m.of(b, what)) }

// rounds runs every probe once a round, in turn, like measure. It drops the
// first round, in which the JVM still compiles.
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

// inProcess returns a probe of calls that this process makes.
func inProcess(ctx context.Context, id caller, call func(context.Context) error) probe {
	return probe{id, func(n int) (figures, error) {
		// The first calls absorb work that came due while other probes ran.
		if err := timeEach(ctx, id.callers, make(series, warmup(n)), call); err != nil {
			return figures{}, err
		}

		took := make(series, n)
		// Samples must not collect each other's garbage.
		runtime.GC()
		memory, cpu, begin := memStats(), loadtest.CPUTime(), time.Now()
		err := timeEach(ctx, id.callers, took, call)
		wall, used, now := time.Since(begin), loadtest.CPUTime()-cpu, memStats()

		f, each := took.figures(n, wall, used), 1/float64(n)
		f[objects] = float64(now.Mallocs-memory.Mallocs) * each
		f[bytesEach] = float64(now.TotalAlloc-memory.TotalAlloc) * each
		return f, err
	}}
}

// figures returns the metrics of n calls. The series has their times, or those of some.
func (s series) figures(n int, wall, cpu time.Duration) figures {
	return figures{
		perSecond: float64(n) / wall.Seconds(), p50: s.quantile(0.5), p95: s.quantile(0.95), p99: s.quantile(0.99),
		cpuPerCall: float64(cpu) / float64(n), calls: float64(n),
	}
}

// timeEach makes len(took) calls, spread over workers, and stores their times.
func timeEach(ctx context.Context, workers int, took series, call func(context.Context) error) error {
	n := len(took)
	return parallel(workers, func(worker, share int) error {
		// This is the first call of the share that parallel gives to the
		// worker.
		first := n * worker / workers
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
