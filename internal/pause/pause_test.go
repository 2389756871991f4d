package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := pause.For(t.Context(), time.Hour); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("%v after %v, want nil after an hour", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin = time.Now()
		if err := pause.For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begin) != time.Minute {
			t.Errorf("%v after %v, want the end of the context after a minute", err, time.Since(begin))
		}
		if err := pause.For(ctx, 0); err != nil {
			t.Errorf("without a duration: %v", err)
		}
	})
}
