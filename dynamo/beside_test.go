package dynamo_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// beside is an aggregator that runs beside repositories, and how far it has come
// with their stream. It counts usage in the order of the stream, late, and some
// of it twice; and it refills buckets from images of any age.
type beside struct {
	tb      testing.TB
	stream  *stream
	store   aggregator.Store
	counts  *aggregator.Aggregator
	behind  time.Duration                    // how far its clock is behind the latest call
	rng     *rand.Rand                       // nil: it does nothing of itself
	eager   int                              // one bucket of so many is refilled at a call
	failing bool                             // its network is bad
	agree   func(*beside, aggregator.Change) // after a refill; nil for nothing

	now atomic.Int64 // the latest of all calls, in nanoseconds

	mu                sync.Mutex
	clock             time.Time
	oldest            int // record that may come again
	next              int // record that did not come yet
	refilled, refused int
}

func newBeside(tb testing.TB, s *stream, store aggregator.Store, opts aggregator.Options) *beside {
	tb.Helper()
	b := &beside{tb: tb, stream: s, store: store}
	opts.Now = func() time.Time { return b.clock }
	var err error
	b.counts, err = aggregator.New(store, &opts)
	must(tb, err)
	return b
}

// passed takes note of the time of a call, and tells by how much it is the
// latest.
func (b *beside) passed(now time.Time) time.Duration {
	for {
		before := b.now.Load()
		if now.UnixNano() <= before {
			return 0
		}
		if b.now.CompareAndSwap(before, now.UnixNano()) {
			return time.Duration(now.UnixNano() - before)
		}
	}
}

// run does something, or nothing. After a pause there is much to gain.
func (b *beside) run(pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick()
	if b.rng.IntN(4) == 0 {
		b.clock = b.clock.Add(-time.Duration(b.rng.Int64N(int64(time.Minute))))
	}
	oneIn, tries := b.eager, 1
	if pause > b.behind {
		oneIn, tries = 2, 3
	}
	switch records := b.stream.from(0); {
	case len(records) == 0:
	case b.rng.IntN(50) == 0:
		from := b.next
		if b.rng.IntN(2) == 0 { // what came already comes again
			from -= b.rng.IntN(b.next - b.oldest + 1)
		}
		b.next = max(b.next, from+b.deliver(context.Background(), records[from:from+b.rng.IntN(len(records)-from+1)]))
	case b.rng.IntN(20) == 0:
		b.refill(records[b.rng.IntN(len(records))])
	default:
		for _, since := range b.stream.plausible() {
			for try := 0; try < min(tries, len(since)) && b.rng.IntN(oneIn) == 0; try++ {
				b.refill(since[b.rng.IntN(2)*b.rng.IntN(len(since))]) // often the first
			}
		}
	}
}

func (b *beside) tick() { b.clock = time.Unix(0, b.now.Load()).UTC().Add(-b.behind) }

// catchUp counts everything.
func (b *beside) catchUp(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick()
	b.next += b.deliver(ctx, b.stream.from(b.next))
}

// settled is catchUp, after which nothing comes again.
func (b *beside) settled(ctx context.Context) {
	b.catchUp(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.oldest = b.next
}

// deliver has records counted, and tells how many need not come again.
func (b *beside) deliver(ctx context.Context, records []dynamo.StreamRecord) int {
	t := dynamo.Aggregate(context.WithoutCancel(ctx), b.counts, records)
	if t.Err != nil && !b.failing || len(t.Skipped) > 0 || t.Lost > 0 {
		b.tb.Errorf("counting: %+v", t)
	}
	b.refilled += t.Refills
	return t.Done
}

// refill makes one that a late aggregator might, needed or not.
func (b *beside) refill(r dynamo.StreamRecord) {
	c, _, _ := r.Change()
	if c.State == nil {
		return
	}
	done, err := b.store.Refill(context.Background(), b.clock, c.Bucket, c.State)
	switch {
	case err != nil && !b.failing:
		b.tb.Errorf("refilling: %v", err)
	case !done:
		b.refused++
	default:
		b.refilled++
		if b.agree != nil {
			b.agree(b, c)
		}
	}
}
