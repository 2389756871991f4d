// Package pause waits for a time or a context, whichever ends first.
package pause

import (
	"context"
	"time"
)

// For waits for d. It returns the error of ctx if ctx ends first, and nil at once
// if d is not positive.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}

	// If the context ends first, the timer must not run on for the rest of d.
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
