package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// hotProbe is one way to acquire, from a number of concurrent callers. It runs
// for a time instead of a number of calls: a pot grows with what it spends, so a
// probe has to run for a while before it is at its pace.
type hotProbe struct {
	id caller
	// every is 1 if each call is timed. The clock would be a large part of
	// short calls, so only one in so many of them is timed.
	every    int
	call     func(context.Context, *picker) error
	requests func() int64 // so far; nil if there are none
	held     func() int64 // tokens now; nil if none can be
	warm     int          // how many samples it takes to warm up
}

// mostTimes is the number of timed calls of one caller in a sample. A series that
// grew during the sample would take time.
const mostTimes = 1 << 15

// sample runs the probe to warm it up, and again to measure it.
func (p *hotProbe) sample(ctx context.Context, keys *keyset, lasts time.Duration) (figures, error) {
	pickers, times := keys.pickers(p.id.callers), make([]series, p.id.callers)
	for i := range times {
		times[i] = make(series, 0, mostTimes)
	}
	if _, _, err := p.runFor(ctx, pickers, times, time.Duration(p.warm)*lasts); err != nil {
		return figures{}, err
	}

	// Samples must not collect each other's garbage.
	runtime.GC()
	sent, cpu, begin := p.count(p.requests), loadtest.CPUTime(), time.Now()
	n, took, err := p.runFor(ctx, pickers, times, lasts)
	wall, used := time.Since(begin), loadtest.CPUTime()-cpu

	// Without a timed call there are no percentiles.
	if err == nil && len(took) == 0 {
		err = errors.New("the sample is too short for a call")
	}
	if err != nil {
		return figures{}, err
	}

	f := took.figures(n, wall, used)
	f[requestsEach], f[heldNow] = float64(p.count(p.requests)-sent)/float64(n), float64(p.count(p.held))
	return f, nil
}

func (p *hotProbe) count(of func() int64) int64 {
	if of == nil {
		return 0
	}
	return of()
}

// runFor calls from all callers for a time. It returns the number of calls, and
// the times of some.
func (p *hotProbe) runFor(
	ctx context.Context, pickers []picker, times []series, lasts time.Duration,
) (n int, took series, err error) {
	var stop atomic.Bool
	defer time.AfterFunc(lasts, func() { stop.Store(true) }).Stop()

	counts := make([]int, len(pickers))
	err = parallel(len(pickers), func(worker, _ int) (err error) {
		counts[worker], times[worker], err = p.callUntil(ctx, &pickers[worker], times[worker][:0], &stop)
		return err
	})(len(pickers))

	for worker := range pickers {
		n += counts[worker]
		took = append(took, times[worker]...)
	}
	return n, took, errors.Join(err, ctx.Err())
}

// callUntil calls at least once, until stop is set.
func (p *hotProbe) callUntil(
	ctx context.Context, keys *picker, took series, stop *atomic.Bool,
) (n int, _ series, err error) {
	for ; n == 0 || !stop.Load(); n++ {
		if n%p.every != 0 || len(took) == mostTimes {
			err = p.call(ctx, keys)
		} else {
			begin := time.Now()
			err = p.call(ctx, keys)
			took = append(took, float64(time.Since(begin)))
		}

		if err != nil {
			return n, took, fmt.Errorf("%v: %w", p.id, err)
		}
	}
	return n, took, nil
}

// hotRounds samples every probe once a round, in turn.
func hotRounds(
	ctx context.Context, rounds int, lasts time.Duration, keys *keyset, probes []hotProbe,
) (measured, error) {
	all := measured{}
	for range rounds {
		for i := range probes {
			f, err := probes[i].sample(ctx, keys, lasts)
			if err != nil {
				return nil, err
			}
			all[probes[i].id] = append(all[probes[i].id], f)
		}
	}
	return all, nil
}
