package escrow

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// afterAll is the time that a request has to end after its last caller has left,
// so that its tokens are not lost.
const afterAll = time.Second

// context returns a context that ends with the last of the callers' deadlines, or
// some time after the last caller has left.
func (f *flight) context() (context.Context, context.CancelFunc) {
	// A context has the values of one caller, such as its trace, which serve
	// for all.
	ctx := context.WithoutCancel(f.batch[0].ctx)
	var latest time.Time
	for _, w := range f.batch {
		deadline, ok := w.ctx.Deadline()
		if !ok {
			// A caller without a deadline waits for as long as it takes.
			ctx, cancel := context.WithCancel(ctx)
			return ctx, f.whenAllLeft(cancel)
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}

	ctx, cancel := context.WithDeadline(ctx, latest)
	return ctx, f.whenAllLeft(cancel)
}

// whenAllLeft has cancel called some time after the last caller has left. The
// function that it returns calls cancel at once.
func (f *flight) whenAllLeft(cancel context.CancelFunc) context.CancelFunc {
	// Until the last caller leaves and sets it, the timer must not fire.
	timer := time.AfterFunc(math.MaxInt64, cancel)
	stops := []func() bool{timer.Stop}

	var here atomic.Int64
	here.Store(int64(len(f.batch)))
	for _, w := range f.batch {
		stops = append(stops, context.AfterFunc(w.ctx, func() {
			if here.Add(-1) == 0 {
				timer.Reset(afterAll)
			}
		}))
	}

	return func() {
		// The timer is stopped last, since a caller that leaves could set it
		// again.
		for _, stop := range slices.Backward(stops) {
			stop()
		}
		cancel()
	}
}
