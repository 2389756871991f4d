// Package aggregator turns changes of buckets into usage: the tokens of each limit
// that an entity used of a resource, by hour, day and month. It also refills
// buckets ahead of need, and archives audit events. Callers provide the changes
// and the [Store].
package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Store stores usage and buckets.
type Store interface {
	// AddUsage adds entries to a snapshot atomically. It skips entries up to the
	// last one of their feed that the snapshot holds, so an entry counts once
	// however often it is added. A *limiter.CorruptError means that the snapshot
	// is damaged for good. After any other error the caller may retry.
	AddUsage(ctx context.Context, a Addition) error
	// Refill refills every limit of a bucket up to now, unless the bucket was
	// refilled since state was read. It takes the steps of quotas that are due. It
	// reports whether it changed anything.
	Refill(ctx context.Context, now time.Time, bucket ID, state *State) (bool, error)
}

// Options configures [New]. A zero field means its default.
type Options struct {
	Windows  []limiter.Window // to count; default hourly, daily and monthly
	Parallel int              // number of concurrent writes; default 16
	NoRefill bool             // disables refills
	Now      func() time.Time // clock for refills; default time.Now
	Archive  Files            // destination of Archive; nil for none
}

// Aggregator turns changes into usage. It is safe for concurrent use, but the
// changes of one bucket must be processed in order, one call after another.
type Aggregator struct {
	store Store
	opts  Options
}

// New returns an aggregator. The error is a *limiter.InvalidError that names the
// invalid option.
func New(store Store, opts *Options) (*Aggregator, error) {
	var o Options
	if opts != nil {
		o = *opts
	}

	if o.Windows == nil {
		o.Windows = windows()
	}
	for i, w := range o.Windows {
		// A window that is listed twice would count everything twice.
		if !slices.Contains(windows(), w) || slices.Contains(o.Windows[:i], w) {
			return nil, &limiter.InvalidError{
				Field: "windows", Value: string(w),
				Reason: "must be one or more of hourly, daily and monthly, each at most once",
			}
		}
	}

	if o.Parallel < 0 {
		return nil, &limiter.InvalidError{
			Field: "parallel", Value: fmt.Sprint(o.Parallel), Reason: "must not be negative; 0 is the default",
		}
	}

	if o.Parallel == 0 {
		o.Parallel = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}

	return &Aggregator{store, o}, nil
}

// windows returns all windows.
func windows() []limiter.Window {
	return []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly}
}

// ParseWindows parses a list of windows, such as "hourly, daily".
func ParseWindows(list string) ([]limiter.Window, error) {
	var found []limiter.Window
	for name := range strings.SplitSeq(list, ",") {
		w := limiter.Window(strings.TrimSpace(name))
		if !slices.Contains(windows(), w) || slices.Contains(found, w) {
			return nil, errors.New(
				"must be one or more of hourly, daily and monthly, each at most once, such as hourly,daily",
			)
		}
		found = append(found, w)
	}

	return found, nil
}

// Result is the result of [Aggregator.Process].
type Result struct {
	Snapshots int   // number of snapshots written
	Refills   int   // number of refills written
	Lost      []int // indexes of changes lost to damaged snapshots, in order
	// Failed is the index of the first change to process again, with all that
	// follow it. It is -1 if there is none.
	Failed int
	Err    error // all errors, joined; errors of refills need no retry
}

// batchSize is the number of changes that are grouped together. It is large enough
// to find several changes of one bucket.
const batchSize = 1000

// Process processes changes in the order of their feed. It starts no write after
// ctx has ended; the remaining changes fail.
func (a *Aggregator) Process(ctx context.Context, changes []Change) Result {
	r := &run{Aggregator: a, ctx: ctx, changes: changes, result: Result{Failed: -1}, failed: map[ID]bool{}}
	for begin := 0; begin < len(changes); begin += batchSize {
		r.batch(begin, min(begin+batchSize, len(changes)))
	}

	// A change adds to a snapshot of each window, and several of them may be damaged.
	slices.Sort(r.result.Lost)
	r.result.Lost = slices.Compact(r.result.Lost)
	return r.result
}

// run is one call of Process.
type run struct {
	*Aggregator
	ctx     context.Context
	changes []Change
	// Buckets with a change that could not be counted. A snapshot stores the
	// position up to which it counts, so counting a later change would hide
	// this one.
	failed map[ID]bool

	mu     sync.Mutex
	result Result
}

// batch processes the changes from begin to end.
func (r *run) batch(begin, end int) {
	additions := r.additions(begin, end)
	r.parallel(len(additions), func(i int) { r.add(additions[i]) })

	if !r.opts.NoRefill {
		demands := r.demands(begin, end)
		r.parallel(len(demands), func(i int) { r.refill(demands[i]) })
	}
}

// parallel calls do for 0 to n-1, with at most Options.Parallel calls at a time.
func (r *run) parallel(n int, do func(i int)) {
	var wg sync.WaitGroup

	next := make(chan int)
	for range min(n, r.opts.Parallel) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}

	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// add writes one addition and records the result.
func (r *run) add(a addition) {
	err := r.ctx.Err()
	if err == nil {
		err = r.store.AddUsage(r.ctx, a.Addition)
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	_, damaged := errors.AsType[*limiter.CorruptError](err)
	switch {
	case err == nil:
		r.result.Snapshots++
		return
	// A retry would find the same damage, so the changes are given up.
	case damaged:
		r.result.Lost = append(r.result.Lost, a.indexes...)
	default:
		r.failed[a.Bucket] = true
		r.fail(a.indexes[0])
	}

	r.result.Err = errors.Join(r.result.Err, err)
}

// fail records a change to process again.
func (r *run) fail(index int) {
	if r.result.Failed < 0 || index < r.result.Failed {
		r.result.Failed = index
	}
}
