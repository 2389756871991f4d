// Package linger lets work outlive the caller that asked for it by a bounded
// time.
package linger

import (
	"context"
	"time"
)

// DefaultTime is enough for a store to answer a write.
const DefaultTime = 5 * time.Second

// Context returns a context with the values of parent that ends when d has passed
// since the end of parent, or when the caller calls cancel. A write that a caller
// cut off may be stored or not. A write that may linger has an outcome, which can
// be taken back. While parent has not ended, the context sets no bound.
func Context(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	forget := context.AfterFunc(parent, func() {
		timer := time.AfterFunc(d, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() {
		forget()
		cancel()
	}
}
