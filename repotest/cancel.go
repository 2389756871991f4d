package repotest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func cancelChecks() []check {
	return []check{
		{"a charge whose context ends is admitted, or leaves nothing", cancelledCharges},
		{"a charge whose context has ended is not made", cancelledBefore},
	}
}

// cancelledCharges ends the contexts of most of the concurrent charges at random.
// What was admitted has to be what the buckets paid. A store may give back after
// the call has returned, so the check reads until the balances are right.
func cancelledCharges(f *fixture) {
	const room, parents = 1_000_000, 2
	// The bucket gains nothing meanwhile, so its balance shows what was
	// charged.
	f.setDefaults(limiter.Custom("rpm", room, 1, 24*time.Hour))

	name := func(worker int) string { return fmt.Sprintf("key-%d", worker) }
	for i := range parents {
		f.createCascading(name(i), "project-1")
	}

	var admitted [workers]int64
	f.each(func(worker int) error {
		for i := range times() {
			ctx, cancel := context.WithCancel(f.ctx)
			// Stores differ in their speed, so the delays range from 20
			// microseconds to 82 ms.
			timer := time.AfterFunc(20*time.Microsecond<<rand.IntN(13), cancel)

			// Slow stores have to admit charges too, so one in four is not
			// cancelled.
			if i%4 == 0 {
				timer.Stop()
			}

			out, err := f.repo.Consume(ctx, epoch, ask(name(worker), rpm(3)))
			switch {
			case err == nil && out.Admitted:
				admitted[worker] += 3
			// There is room for every charge, so only the end of its context
			// may fail it.
			case ctx.Err() == nil:
				return fmt.Errorf("a charge with room left: admitted %v, %w", out.Admitted, err)
			}

			timer.Stop()
			cancel()
		}
		return nil
	})

	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()

	var ofParent int64
	for i, n := range admitted {
		f.settles(ctx.Done(), name(i), room-n)
		if i < parents {
			ofParent += n
		}
	}

	f.settles(ctx.Done(), "project-1", room-ofParent)
}

// settles reads a bucket until it holds want tokens. It gives up when late is
// closed.
func (f *fixture) settles(late <-chan struct{}, entity string, want int64) {
	f.Helper()
	for {
		out, err := f.repo.Peek(f.ctx, epoch, ask(entity, limiter.Amounts{}))
		f.ok("Peek", err)

		got := out.Payers[0].Tokens[0] / 1000
		if got == want {
			return
		}

		select {
		case <-late:
			f.Errorf("%s holds %d tokens, want %d: what was admitted is not what was stored", entity, got, want)
			return
		default:
		}
	}
}

func cancelledBefore(f *fixture) {
	f.setDefaults(perMinute60)

	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.repo.Consume(ctx, epoch, ask("key-1", rpm(1)))
	f.fails("Consume", err, context.Canceled)

	f.holds(0, "key-1", 60_000)
}
