package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// readerRig is a reader whose reads take a second, and note their keys.
type readerRig struct {
	*reader[string, string]
	mu   sync.Mutex
	keys []string
	err  error
}

// newReaderRig returns a reader in a bubble. Its values serve for a minute, and its
// errors for a second.
func newReaderRig(t *testing.T, parallel, most int) *readerRig {
	t.Helper()
	r := newRig(t, Options{Now: time.Now})
	r.want(200, "/api/info", "")
	rr := &readerRig{}
	rr.reader = newReader(r.spaces["default"], parallel, most,
		func(_ context.Context, key string) (string, time.Duration, error) {
			rr.mu.Lock()
			rr.keys = append(rr.keys, key)
			n, err := len(rr.keys), rr.err
			rr.mu.Unlock()
			time.Sleep(time.Second)
			if err != nil {
				return "", time.Second, err
			}
			return fmt.Sprint(key, n), time.Minute, nil
		})
	return rr
}

// wantValue checks the value of a key, and how many reads there were.
func (r *readerRig) wantValue(t *testing.T, key, want string, reads int) {
	t.Helper()
	got, err := r.get(t.Context(), key)
	r.mu.Lock()
	defer r.mu.Unlock()
	if got != want || err != nil || len(r.keys) != reads {
		t.Errorf("%s: %q, %v after %d reads; want %q after %d", key, got, err, len(r.keys), want, reads)
	}
}

func TestCallersShareAReadAndItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaderRig(t, usualReads, usualValues)
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() { r.wantValue(t, "a", "a1", 1) })
		}
		callers.Wait()
		time.Sleep(59 * time.Second)
		r.wantValue(t, "a", "a1", 1)
		time.Sleep(time.Second)
		r.wantValue(t, "a", "a2", 2)

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := r.get(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the end of the caller's context", err)
		}
		r.wantValue(t, "b", "b3", 3) // the read goes on without its caller
		r.ok(t, r.s.h.Close())
		if _, err := r.get(t.Context(), "c"); !errors.Is(err, errClosed) {
			t.Errorf("error %v after the end, want errClosed", err)
		}
	})
}

func (*readerRig) ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestForgetDoesNotWaitForOldReads forgets a value while it is read: callers from
// then on must not see what was read before the change.
func TestForgetDoesNotWaitForOldReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaderRig(t, usualReads, usualValues)
		old := make(chan string, 1)
		go func() {
			value, _ := r.get(t.Context(), "a")
			old <- value
		}()
		time.Sleep(time.Millisecond)
		r.forget("a")
		r.wantValue(t, "a", "a2", 2)
		if value := <-old; value != "a1" {
			t.Errorf("the earlier caller got %q", value)
		}
		r.wantValue(t, "a", "a2", 2)
		r.forget()
		r.wantValue(t, "a", "a3", 3)
		r.put("a", "known", time.Minute)
		r.wantValue(t, "a", "known", 3)
		r.ok(t, r.s.h.Close())
	})
}

// TestAnOldValueServesDuringAnOutage makes reads fail. The last value stays, and
// the store is not asked again for a second.
func TestAnOldValueServesDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaderRig(t, usualReads, usualValues)
		r.wantValue(t, "a", "a1", 1)
		r.expire()
		r.err = errors.New("busy")
		begun := time.Now()
		if value, known, err := r.await(t.Context(), r.ask("a"), true); value != "a1" || !known || err != nil ||
			time.Since(begun) != 0 {
			t.Errorf("%q, %v, %v after %v, want the old value at once", value, known, err, time.Since(begun))
		}
		for range 3 {
			if value, err := r.get(t.Context(), "a"); value != "a1" || err == nil {
				t.Errorf("%q, %v, want the old value and an error", value, err)
			}
		}
		if len(r.keys) != 2 {
			t.Errorf("%d reads, want 2", len(r.keys))
		}
		r.err = nil
		time.Sleep(time.Second)
		r.wantValue(t, "a", "a3", 3)
		r.ok(t, r.s.h.Close())
	})
}

// TestTheLatestReadGoesFirst asks for more keys than are read at a time, or kept.
func TestTheLatestReadGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaderRig(t, 2, 6)
		for i := range 8 {
			r.ask(fmt.Sprint(i))
			synctest.Wait()
		}
		begun := time.Now()
		r.get(t.Context(), "2") //nolint:errcheck // the order of reads is checked
		if took := time.Since(begun); took != 3*time.Second || !slices.Equal(r.keys[:2], []string{"0", "1"}) ||
			len(r.keys) != 6 || r.keys[5] != "2" && r.keys[4] != "2" {
			t.Errorf("read %v in %v, want two at a time, 0 and 1 first and 2 last", r.keys, took)
		}
		if _, err := r.get(t.Context(), "7"); err != nil || len(r.kept) > 6 {
			t.Errorf("%v, %d values are kept, want 6 at most", err, len(r.kept))
		}
		r.ok(t, r.s.h.Close())
	})
}
