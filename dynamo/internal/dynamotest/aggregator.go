package dynamotest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// Aggregator runs an aggregator beside repositories. It counts usage in the
// order of the log, late and sometimes twice, and refills buckets from images of
// any age.
type Aggregator struct {
	TB       testing.TB
	Log      *WriteLog
	store    aggregator.Store
	counts   *aggregator.Aggregator
	Behind   time.Duration                        // how far Clock is behind the latest call
	Rand     *rand.Rand                           // nil disables Run
	Eager    int                                  // Run refills one bucket of this many
	Failing  bool                                 // its requests may fail
	OnRefill func(*Aggregator, aggregator.Change) // called after a refill, if not nil

	now atomic.Int64 // latest time of all calls, in nanoseconds

	mu                sync.Mutex
	Clock             time.Time
	oldest            int // first record that may be delivered again
	next              int // first record that was not delivered yet
	Refilled, Refused int
}

// NewAggregator returns an aggregator that has read nothing yet.
func NewAggregator(tb testing.TB, s *WriteLog, store aggregator.Store, opts aggregator.Options) *Aggregator {
	tb.Helper()
	b := &Aggregator{TB: tb, Log: s, store: store}
	opts.Now = func() time.Time { return b.Clock }

	var err error
	b.counts, err = aggregator.New(store, &opts)
	must(tb, err)
	return b
}

// observe stores the time of a call and returns by how much it is later than all
// before.
func (b *Aggregator) observe(now time.Time) time.Duration {
	for {
		before := b.now.Load()
		if now.UnixNano() <= before {
			return 0
		}
		// Calls run concurrently, and another one may have stored its time
		// since.
		if b.now.CompareAndSwap(before, now.UnixNano()) {
			return time.Duration(now.UnixNano() - before)
		}
	}
}

// Run does one random step, or nothing. After a long pause it refills more.
func (b *Aggregator) Run(pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.tick()
	// An aggregator on another machine may have a clock that is behind.
	if b.Rand.IntN(4) == 0 {
		b.Clock = b.Clock.Add(-time.Duration(b.Rand.Int64N(int64(time.Minute))))
	}

	oneIn, tries := b.Eager, 1
	if pause > b.Behind {
		oneIn, tries = 2, 3
	}

	switch records := b.Log.From(0); {
	case len(records) == 0:
	case b.Rand.IntN(50) == 0:
		from := b.next
		// Records may be delivered again, as after a failure.
		if b.Rand.IntN(2) == 0 {
			from -= b.Rand.IntN(b.next - b.oldest + 1)
		}

		b.next = max(b.next, from+b.deliver(context.Background(), records[from:from+b.Rand.IntN(len(records)-from+1)]))
	case b.Rand.IntN(20) == 0:
		b.refill(records[b.Rand.IntN(len(records))])
	default:
		for _, since := range b.Log.Candidates() {
			for try := 0; try < min(tries, len(since)) && b.Rand.IntN(oneIn) == 0; try++ {
				// The first record has the oldest image with the present refill
				// time, so it is tried often.
				b.refill(since[b.Rand.IntN(2)*b.Rand.IntN(len(since))])
			}
		}
	}
}

func (b *Aggregator) tick() { b.Clock = b.Latest().UTC().Add(-b.Behind) }

// CatchUp counts all records.
func (b *Aggregator) CatchUp(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick()
	b.next += b.deliver(ctx, b.Log.From(b.next))
}

// finish counts all records. None of them is delivered again.
func (b *Aggregator) finish(ctx context.Context) {
	b.CatchUp(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.oldest = b.next
}

// deliver counts records and returns how many need not be delivered again.
func (b *Aggregator) deliver(ctx context.Context, records []dynamo.StreamRecord) int {
	// The call may end before its records are counted.
	t := dynamo.Aggregate(context.WithoutCancel(ctx), b.counts, records)
	if t.Err != nil && !b.Failing || len(t.Skipped) > 0 || t.Lost > 0 {
		b.TB.Errorf("counting: %+v", t)
	}
	b.Refilled += t.Refills
	return t.Done
}

// refill refills a bucket as a late aggregator might, whether or not it needs
// that.
func (b *Aggregator) refill(r dynamo.StreamRecord) {
	c, _, _ := r.Change()
	if c.State == nil {
		return
	}

	done, err := b.store.Refill(context.Background(), b.Clock, c.Bucket, c.State)

	switch {
	case err != nil && !b.Failing:
		b.TB.Errorf("refilling: %v", err)
	case !done:
		b.Refused++
	default:
		b.Refilled++
		if b.OnRefill != nil {
			b.OnRefill(b, c)
		}
	}
}

// RunDuring calls Run while calls runs: once for each wake, unless it is busy.
func (b *Aggregator) RunDuring(calls func(wake func(pause time.Duration))) {
	work := make(chan time.Duration, 1)
	var running sync.WaitGroup
	defer running.Wait()
	defer close(work)

	running.Go(func() {
		for pause := range work {
			b.Run(pause)
		}
	})

	calls(func(pause time.Duration) {
		select {
		case work <- pause:
		// A wake that waited for the aggregator would slow the calls down.
		default:
		}
	})
}

// Latest returns the latest time of all calls.
func (b *Aggregator) Latest() time.Time { return time.Unix(0, b.now.Load()) }
