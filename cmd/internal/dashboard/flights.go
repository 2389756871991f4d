package dashboard

import (
	"context"
	"sync"
	"time"
)

// flights shares reads: callers that want the same at the same time wait for one
// read, whose result is kept for a moment. The mutex guards the map.
type flights[T any] struct {
	ctx  context.Context //nolint:containedctx // of all reads
	h    *Handler
	keep time.Duration
	mu   sync.Mutex
	all  map[string]*flight[T]
}

// flight is a read that is under way or done.
type flight[T any] struct {
	// done is closed when the other fields are set.
	done  chan struct{}
	value T
	err   error
	until time.Time // when the result is too old
}

// maxFlights bounds the results that are kept.
const maxFlights = 512

func newFlights[T any](s *space, keep time.Duration) *flights[T] {
	return &flights[T]{ctx: s.ctx, h: s.h, keep: keep, all: map[string]*flight[T]{}}
}

// do returns the result of read, or of a read for the same key under way or done
// a moment ago. The read ends with the flights, not with its callers.
func (f *flights[T]) do(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	var none T

	f.mu.Lock()
	one := f.all[key]
	if one == nil || one.old() {
		one = &flight[T]{done: make(chan struct{})}
		if !f.h.start(func() { f.run(key, one, read) }) {
			f.mu.Unlock()
			return none, errClosed
		}

		f.makeRoom()
		f.all[key] = one
	}
	f.mu.Unlock()

	select {
	case <-one.done:
		return one.value, one.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// run reads, and publishes the result.
func (f *flights[T]) run(key string, one *flight[T], read func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(f.ctx, callTimeout)
	defer cancel()

	one.value, one.err = read(ctx)
	f.land(key, one)
}

// land publishes a result, and forgets it at once if it is an error.
func (f *flights[T]) land(key string, one *flight[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.until = time.Now().Add(f.keep)
	close(one.done)

	// Callers that wait hold the flight itself. After forget, the key may
	// belong to a later one.
	if (one.err != nil || f.keep == 0) && f.all[key] == one {
		delete(f.all, key)
	}
}

// forget drops the results, so that the next calls read again.
func (f *flights[T]) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.all)
}

// makeRoom drops results that are too old, and if need be any.
func (f *flights[T]) makeRoom() {
	for key, one := range f.all {
		if one.old() {
			delete(f.all, key)
		}
	}

	// Any result may go, since it costs one more read at most.
	for key := range f.all {
		if len(f.all) < maxFlights {
			return
		}
		delete(f.all, key)
	}
}

// old reports whether the read is done and its result too old.
func (o *flight[T]) old() bool {
	select {
	case <-o.done:
		return time.Now().After(o.until)
	default:
		return false
	}
}
