package dynamo

import (
	"context"
	"iter"
	"sync"
)

// workers is how many requests a long operation sends at a time: enough to hide
// the round trip, few enough to leave room for traffic.
const workers = 16

// inParallel calls do for every element, in any order. It stops at the first error
// and returns it.
func inParallel[T any](ctx context.Context, all iter.Seq2[T, error], do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	work := make(chan T)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for element := range work {
				if err := do(ctx, element); err != nil {
					cancel(err)
				}
			}
		})
	}

	err := feed(ctx, all, work)
	close(work)
	running.Wait()

	// After a failed call, feed returns the error of the context. Its cause is
	// the error of the call.
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// feed sends all elements to work, until ctx ends.
func feed[T any](ctx context.Context, all iter.Seq2[T, error], work chan<- T) error {
	for element, err := range all {
		if err != nil {
			return err
		}
		select {
		case work <- element:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// countInto returns a sequence that counts the elements taken from it in n.
func countInto[T any](all iter.Seq2[T, error], n *int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for element, err := range all {
			if err == nil {
				*n++
			}
			if !yield(element, err) {
				return
			}
		}
	}
}

// inBatches returns the elements in slices of n.
func inBatches[T any](all iter.Seq2[T, error], n int) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var batch []T
		for element, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if batch = append(batch, element); len(batch) == n {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
		}

		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}
