package outlive_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/outlive"
)

type key struct{}

func TestContextOutlivesItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, leave := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
		defer leave()
		ctx, cancel := outlive.Context(parent, time.Minute)
		defer cancel()
		if ctx.Value(key{}) != "value" {
			t.Error("the value is lost")
		}
		begin := time.Now()
		<-ctx.Done()
		if d := time.Since(begin); d != time.Hour+time.Minute {
			t.Errorf("it ended after %v, want a minute after its parent", d)
		}
	})
}

func TestCancelEndsTheContext(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			parent, leave := context.WithCancel(t.Context())
			defer leave()
			ctx, cancel := outlive.Context(parent, time.Hour)
			if leaves {
				leave()
				synctest.Wait()
			}
			if ctx.Err() != nil {
				t.Error("it ended early")
			}
			cancel()
			<-ctx.Done()
		})
	}
}

// A child ends with the context, and leaves no goroutine behind.
func TestChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		ctx, cancel := outlive.Context(parent, time.Minute)
		defer cancel()
		child, drop := context.WithTimeout(ctx, time.Hour)
		defer drop()
		leave()
		synctest.Wait()
		if child.Err() != nil || ctx.Err() != nil || child.Value(key{}) != "value" {
			t.Errorf("%v, %v, %v", child.Err(), ctx.Err(), child.Value(key{}))
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if child.Err() == nil || ctx.Err() == nil {
			t.Error("it did not end a minute after its parent")
		}
	})
}
