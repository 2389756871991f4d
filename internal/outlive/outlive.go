// Package outlive lets work outlive the caller that asked for it by a bounded
// time.
package outlive

import (
	"context"
	"sync"
	"time"
)

// DefaultTime is enough for a store to answer a write.
const DefaultTime = 5 * time.Second

// Context returns a context with the values of parent that ends when d has passed
// since the end of parent, or when the caller calls cancel. A write that a caller
// cut off may be stored or not. A write that may linger has an outcome, which can
// be taken back. While parent has not ended, the context sets no bound.
func Context(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	l := &lingering{Context: context.WithoutCancel(parent), parent: parent, time: d}
	return l, l.cancel
}

// lingering watches its parent from the first use of Done on, since a store that
// never waits needs no watch. It counts the time from then if parent ended before.
type lingering struct {
	context.Context // has the values and never ends

	parent    context.Context //nolint:containedctx // it is a context itself
	time      time.Duration
	mu        sync.Mutex
	watching  context.Context //nolint:containedctx // nil before the first use of Done
	stop      context.CancelFunc
	cancelled bool
}

// watch returns a context that ends when l does.
func (l *lingering) watch() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.watching != nil {
		return l.watching
	}

	ctx, cancel := context.WithCancel(l.Context)
	// The time starts when parent ends. If ctx ends before, the timer would go
	// on for nothing.
	forget := context.AfterFunc(l.parent, func() {
		timer := time.AfterFunc(l.time, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})

	l.watching, l.stop = ctx, func() {
		forget()
		cancel()
	}
	// cancel came before the first use of Done, and had nothing to stop.
	if l.cancelled {
		l.stop()
	}

	return ctx
}

func (l *lingering) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelled = true
	if l.stop != nil {
		l.stop()
	}
}

// Done returns a channel that is closed when the context ends.
func (l *lingering) Done() <-chan struct{} { return l.watch().Done() }

// Err returns why the context ended, or nil.
func (l *lingering) Err() error {
	l.mu.Lock()
	idle := l.watching == nil && !l.cancelled

	l.mu.Unlock()
	// As long as parent goes on, no watch is needed to know that the context
	// goes on too.
	if idle && l.parent.Err() == nil {
		return nil
	}

	return l.watch().Err()
}

// Value returns a value of parent. Children find the context that ends by it, so
// that they need no goroutine.
func (l *lingering) Value(key any) any {
	l.mu.Lock()
	ctx := l.watching

	l.mu.Unlock()
	if ctx == nil {
		ctx = l.Context
	}
	return ctx.Value(key)
}
