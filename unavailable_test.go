package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// modeStore is a store with a fixed mode.
type modeStore struct {
	limiter.Repository
	mode limiter.OnUnavailable
}

func (m modeStore) OnUnavailable() limiter.OnUnavailable { return m.mode }

// TestModeOfAnOutage covers row B-29 of docs/defects.md: the request, the options
// and the store decide in this order. Without a known mode, an outage blocks.
func TestModeOfAnOutage(t *testing.T) {
	const none, allow, block = limiter.OnUnavailable(""), limiter.Allow, limiter.Block
	for _, c := range []struct {
		name                     string
		request, options, stored limiter.OnUnavailable
		want                     limiter.OnUnavailable
	}{
		{"no mode is set", none, none, none, block},
		{"the store", none, none, allow, allow},
		{"the options over the store", none, block, allow, block},
		{"the options", none, allow, none, allow},
		{"the request over the options", block, allow, allow, block},
		{"the request", allow, block, block, allow},
		{"B-29 a stored word with other spelling", none, none, "Allow", block},
		{"B-29 an unknown stored mode", none, none, "maybe", block},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := &store{Repository: modeStore{memory.New(nil), c.stored}}
			st.down()
			lim := newLimiter(t, st, &limiter.Options{OnUnavailable: c.options})
			req := request(alice, rpm(1))
			req.OnUnavailable = c.request
			lease, err := lim.Acquire(bg, req)
			if c.want == allow {
				check(t, err)
				err = lease.Outage()
			} else if lease != nil {
				t.Error("admitted")
			}
			unavailable(t, err, "acquire")
		})
	}
}

// TestRemovedModeIsForgotten covers row 22 of docs/defects.md: a deleted mode
// does not apply.
func TestRemovedModeIsForgotten(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	check(t, w.SetOnUnavailable(bg, limiter.Allow))
	w.store.down()
	w.take(t, alice, rpm(1))
	w.store.up()
	check(t, w.DeleteSystemDefaults(bg))
	w.store.down()
	_, err := w.Acquire(bg, request(alice, rpm(1)))
	unavailable(t, err, "acquire")
}

// TestModeBelongsToItsNamespace covers row 37 of docs/defects.md: the mode of a
// namespace does not apply to another.
func TestModeBelongsToItsNamespace(t *testing.T) {
	repo := memory.New(nil)
	main := newLimiter(t, repo, nil)
	_, err := main.RegisterNamespaces(bg, "tenant")
	check(t, err)
	other, err := repo.Namespace(bg, "tenant")
	check(t, err)
	check(t, newLimiter(t, other, nil).SetOnUnavailable(bg, limiter.Allow))
	for _, c := range []struct {
		repo  limiter.Repository
		allow bool
	}{{repo, false}, {other, true}} {
		st := &store{Repository: c.repo}
		st.down()
		_, err := newLimiter(t, st, nil).Acquire(bg, request(alice, rpm(1)))
		if (err == nil) != c.allow {
			t.Errorf("got %v, want allowed %t", err, c.allow)
		}
	}
}

// TestErrorsThatAreNoOutage covers rows 31 and D-9 of docs/defects.md: errors in
// the data or the call refuse in either mode.
func TestErrorsThatAreNoOutage(t *testing.T) {
	corrupt := &limiter.CorruptError{Item: "limits of resource gpt-4", Reason: "limit rpm has capacity 0"}
	for _, c := range []struct {
		name string
		err  error
	}{
		{"31 corrupt data", corrupt},
		{"D-9 corrupt data, wrapped", fmt.Errorf("reading: %w", corrupt)},
		{"version", &limiter.VersionError{Store: "x.db", Schema: "9", Client: "1", Reason: "newer"}},
		{"invalid", &limiter.InvalidError{Field: "limits", Reason: "none", Err: limiter.ErrNoLimits}},
		{"namespace gone", fmt.Errorf("namespace: %w", limiter.ErrNotFound)},
		{"closed", limiter.ErrClosed},
		{"conflict", limiter.ErrConflict},
		{"exists", limiter.ErrExists},
	} {
		for _, mode := range []limiter.OnUnavailable{limiter.Allow, limiter.Block} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				w := startWith(t, limiter.Options{OnUnavailable: mode}, memory.Options{}, limiter.PerMinute("rpm", 10))
				lease := w.take(t, alice, rpm(1))
				fail := func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
					return limiter.Outcome{}, c.err
				}
				w.store.onConsume, w.store.onPeek = fail, fail
				w.store.onCredit = func(context.Context, time.Time, ...limiter.Credit) error { return c.err }
				_, acquired := w.Acquire(bg, request(alice, rpm(1)))
				_, waited := w.Wait(bg, request(alice, rpm(1)))
				_, explained := w.Explain(bg, request(alice, rpm(1)))
				consumed := lease.Consume(bg, rpm(1))
				for _, err := range []error{acquired, waited, explained, consumed, lease.Rollback(bg)} {
					if err != c.err { //nolint:errorlint // as it is
						t.Errorf("got %v, want %v as it is", err, c.err)
					}
				}
				check(t, lease.Outage())
			})
		}
	}
}

func TestEverythingElseIsAnOutage(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.store.down()
	_, err := w.Acquire(bg, request(alice, rpm(1)))
	is(t, err, errDown)
	out, ok := errors.AsType[*limiter.UnavailableError](err)
	if !ok || out.Entity != alice || out.Resource != resource || out.Op != "acquire" {
		t.Errorf("got %#v", err)
	}
	_, err = w.Explain(bg, limiter.Request{Entity: alice, Resource: resource, OnUnavailable: limiter.Allow})
	unavailable(t, err, "explain") // there is nothing to admit
}

// TestStoreMayDescribeItsOutage checks that an *UnavailableError of the store is
// not wrapped again.
func TestStoreMayDescribeItsOutage(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	own := &limiter.UnavailableError{Op: "put item", Err: errDown}
	w.store.onConsume = func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
		return limiter.Outcome{}, own
	}
	_, err := w.Acquire(bg, request(alice, rpm(1)))
	unavailable(t, err, "put item")
}

// TestLeaseUnderAllowRecordsNothing checks that the lease of an allowed outage
// records nothing, does no I/O and never fails, even when the store is back.
func TestLeaseUnderAllowRecordsNothing(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(4))
	w.store.down()
	req := request(alice, rpm(1))
	req.OnUnavailable = limiter.Allow
	for _, end := range []func(*limiter.Lease, context.Context) error{
		(*limiter.Lease).Commit, (*limiter.Lease).Rollback,
	} {
		lease, err := w.Acquire(bg, req)
		check(t, err)
		unavailable(t, lease.Outage(), "acquire")
		w.store.up()
		w.store.onConsume = func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) { panic("asked") }
		w.noCredit(t)
		check(t, lease.Adjust(rpm(5).And("anything", 1)))
		check(t, lease.Release(rpm(1)))
		check(t, lease.Consume(bg, rpm(100)))
		check(t, lease.Flush(bg))
		if c, d := lease.Consumed(), lease.Decision(); c.Len() != 0 || len(d.Statuses) != 0 || !d.Admitted() {
			t.Errorf("consumed %v, decided %v", c, d)
		}
		check(t, end(lease, bg))
		wantEnded(t, lease)
		unavailable(t, lease.Outage(), "acquire")
		w.wantLeft(t, alice, "rpm", 6)
		w.store.down()
	}
}

func blocks(ctx context.Context, _ time.Time, _ limiter.Charge) (limiter.Outcome, error) {
	<-ctx.Done()
	return limiter.Outcome{}, fmt.Errorf("read: %w", ctx.Err())
}

func TestTimeInsideTheStore(t *testing.T) {
	for _, mode := range []limiter.OnUnavailable{limiter.Block, limiter.Allow} {
		outage := func(t *testing.T, lease *limiter.Lease, err error) {
			t.Helper()
			if mode == limiter.Allow {
				check(t, err)
				err = lease.Outage()
			}
			unavailable(t, err, "acquire")
			is(t, err, context.DeadlineExceeded)
		}
		run := func(name string, timeout time.Duration, test func(*world)) {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := startWith(t, limiter.Options{Timeout: timeout, OnUnavailable: mode}, memory.Options{},
						limiter.PerMinute("rpm", 10))
					w.store.onConsume = blocks
					test(w)
				})
			})
		}
		run("the limiter's timeout is an outage", 2*time.Second, func(w *world) {
			t := w.t
			began := time.Now()
			lease, err := w.Acquire(bg, request(alice, rpm(1)))
			outage(t, lease, err)
			wantTook(t, began, 2*time.Second)
		})
		run("the caller's deadline is an outage", 0, func(w *world) {
			t := w.t
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			lease, err := w.Acquire(ctx, request(alice, rpm(1)))
			outage(t, lease, err)
		})
		run("the caller's cancellation is its own error", 0, func(w *world) {
			t := w.t
			ctx, cancel := context.WithCancel(bg)
			time.AfterFunc(time.Second, cancel)
			//nolint:errorlint // as it is
			if _, err := w.Acquire(ctx, request(alice, rpm(1))); err != context.Canceled {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestErrorsOfTheStoreAreNotWrittenTo checks that the limiter does not modify an
// error of the store, which may return it to many callers.
func TestErrorsOfTheStoreAreNotWrittenTo(t *testing.T) {
	long := strings.Repeat("x", 60)
	shared := &limiter.InvalidError{Field: "limits", Value: long, Reason: "none"}
	w := start(t)
	w.store.onConsume = func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
		return limiter.Outcome{}, shared
	}
	var wg sync.WaitGroup
	for range 8 { // for the race detector
		wg.Go(func() {
			_, err := w.Acquire(bg, request(alice, rpm(1)))
			if bad, ok := errors.AsType[*limiter.InvalidError](err); !ok || bad.Value != long[:50]+"..." {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if shared.Value != long {
		t.Errorf("the store's own error now says %q", shared.Value)
	}
}
