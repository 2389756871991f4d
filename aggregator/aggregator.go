package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Store is where usage and buckets are kept.
type Store interface {
	// AddUsage adds, all at once, those entries to a snapshot that come after the
	// last one it holds of their feed: an entry counts once, however often it is
	// given. A *limiter.CorruptError says that the snapshot is beyond repair;
	// after any other error the same entries may be given again.
	AddUsage(ctx context.Context, a Addition) error
	// Refill brings every limit of a bucket up to now, unless the bucket was
	// refilled since its state was seen. It tells whether it did.
	Refill(ctx context.Context, now time.Time, bucket ID, state *State) (bool, error)
}

// Options are those of [New]. The zero value of a field is its default.
type Options struct {
	Windows  []limiter.Window // that are kept; default hourly, daily and monthly
	Parallel int              // writes at once; default 16
	NoRefill bool             // only count usage
	Now      func() time.Time // for refills; default time.Now
	Archive  Files            // where audit events go that their store drops; nil is nowhere
}

// Aggregator turns changes into usage. It is safe for concurrent use, but
// changes of one bucket have to be processed in order, one call after another.
type Aggregator struct {
	store Store
	opts  Options
}

// New makes an aggregator. An *limiter.InvalidError says which option is wrong.
func New(store Store, opts *Options) (*Aggregator, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Windows == nil {
		o.Windows = windows()
	}
	for i, w := range o.Windows {
		if !slices.Contains(windows(), w) || slices.Contains(o.Windows[:i], w) {
			return nil, &limiter.InvalidError{Field: "windows", Value: string(w), Reason: `must be "hourly", "daily" and "monthly", each at most once`}
		}
	}
	if o.Parallel < 0 {
		return nil, &limiter.InvalidError{Field: "parallel", Value: fmt.Sprint(o.Parallel), Reason: "must not be negative; 0 is the default"}
	}
	if o.Parallel == 0 {
		o.Parallel = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Aggregator{store, o}, nil
}

// Result is what became of changes.
type Result struct {
	Snapshots int   // that were added to
	Refills   int   // that were written
	Lost      []int // indexes of changes that a damaged snapshot could not take
	// Failed is the index of the first change that has to be given again, with all
	// that come after it; -1 if there is none.
	Failed int
	Err    error // why, joined; also of refills, which nobody has to repeat
}

// portion is how many changes are looked at together: enough to find several of
// one bucket, and few enough to hold.
const portion = 1000

// Process takes changes in the order of their feed. It does not begin writes
// once ctx has ended; what was left is failed then.
func (a *Aggregator) Process(ctx context.Context, changes []Change) Result {
	r := &run{Aggregator: a, ctx: ctx, changes: changes, result: Result{Failed: -1}, failed: map[ID]bool{}}
	for begin := 0; begin < len(changes); begin += portion {
		r.portion(begin, min(begin+portion, len(changes)))
	}
	return r.result
}

// run is a Process under way.
type run struct {
	*Aggregator
	ctx     context.Context
	changes []Change
	failed  map[ID]bool // buckets of which nothing more may be counted in this run: it would be taken for the latest

	mu     sync.Mutex
	result Result
}

func (r *run) portion(begin, end int) {
	additions := r.additions(begin, end)
	r.each(len(additions), func(i int) { r.add(additions[i]) })
	if !r.opts.NoRefill {
		pressed := r.pressed(begin, end)
		r.each(len(pressed), func(i int) { r.refill(pressed[i]) })
	}
}

// each does n things, several at once.
func (r *run) each(n int, do func(i int)) {
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

// add makes one addition and takes note of what came of it.
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
	case damaged:
		r.result.Lost = append(r.result.Lost, a.indexes...)
	default:
		r.failed[a.Bucket] = true
		r.fail(a.indexes[0])
	}
	r.result.Err = errors.Join(r.result.Err, err)
}

// fail remembers the first change that has to come again.
func (r *run) fail(index int) {
	if r.result.Failed < 0 || index < r.result.Failed {
		r.result.Failed = index
	}
}
