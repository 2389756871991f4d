package limiter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// memoryOptions are the defaults.
var memoryOptions = memory.Options{}

// topUp tops up the bucket of alice.
func topUp(t *testing.T, lim *limiter.RateLimiter, amounts limiter.Amounts, id string) (done bool) {
	t.Helper()
	done, err := lim.TopUp(bg, alice, resource, amounts, id)
	check(t, err)
	return done
}

// failed returns the error of a top-up.
func failed(_ bool, err error) error { return err }

func TestResetAndTopUp(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), limiter.Quota("tpd", 50, limiter.EveryDay))
	lease := w.take(t, alice, rpm(100).And("tpd", 50))
	for i := range 2 {
		if done := topUp(t, w.RateLimiter, rpm(10).And("tpd", 5), "invoice-1"); done != (i == 0) {
			t.Errorf("top-up %d: done %t", i, done)
		}
	}
	w.wantLeft(t, alice, "rpm", 10)
	w.wantLeft(t, alice, "tpd", 5)
	check(t, w.Reset(bg, alice, resource, "tpd"))
	w.wantLeft(t, alice, "rpm", 10)
	w.wantLeft(t, alice, "tpd", 50)
	check(t, w.Reset(bg, alice, resource))
	w.wantLeft(t, alice, "rpm", 100)
	check(t, lease.Adjust(rpm(30)))
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "rpm", 70)
	var actions []string
	for _, ev := range collect(t, w.AuditEvents(bg, alice, "")) {
		actions = append(actions, ev.Action)
	}
	if diff := cmp.Diff([]string{"bucket_reset", "bucket_reset", "bucket_topped_up"}, actions); diff != "" {
		t.Error(diff)
	}
	w.clock.pass(limiter.TopUpLife)
	w.take(t, alice, rpm(100))
	topUp(t, w.RateLimiter, rpm(10), "invoice-1") // forgotten by now
	w.wantLeft(t, alice, "rpm", 10)
}

func TestFillIsBadInput(t *testing.T) {
	lim := newLimiter(t, untouched{}, nil)
	for _, c := range []struct {
		field string
		err   error
	}{
		{"entity_id", lim.Reset(bg, "", resource)},
		{"resource", lim.Reset(bg, alice, "_default_")},
		{"name", lim.Reset(bg, alice, resource, "4o")},
		{"limits", lim.Reset(bg, alice, resource, "rpm", "rpm")},
		{"entity_id", failed(lim.TopUp(bg, "#", resource, rpm(1), "a"))},
		{"resource", failed(lim.TopUp(bg, alice, "", rpm(1), "a"))},
		{"id", failed(lim.TopUp(bg, alice, resource, rpm(1), ""))},
		{"id", failed(lim.TopUp(bg, alice, resource, rpm(1), "a#b"))},
		{"id", failed(lim.TopUp(bg, alice, resource, rpm(1), strings.Repeat("a", 129)))},
		{"amounts", failed(lim.TopUp(bg, alice, resource, limiter.Amounts{}, "a"))},
		{"amounts", failed(lim.TopUp(bg, alice, resource, rpm(0), "a"))},
		{"amounts", failed(lim.TopUp(bg, alice, resource, rpm(-1), "a"))},
		{"amounts", failed(lim.TopUp(bg, alice, resource, rpm(1<<62), "a"))},
		{"name", failed(lim.TopUp(bg, alice, resource, limiter.Tokens("", 1), "a"))},
	} {
		invalid(t, c.err, c.field)
	}
	w := start(t)
	is(t, w.Reset(bg, alice, resource), limiter.ErrNoLimits)
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 1)))
	bad := invalid(t, failed(w.TopUp(bg, alice, resource, tpd(1), "a")), "limit")
	if !strings.Contains(bad.Reason, "the limits are rpm") {
		t.Errorf("reason %q", bad.Reason)
	}
}

func TestFillInAnOutage(t *testing.T) {
	w := startWith(t, limiter.Options{OnUnavailable: limiter.Allow}, memoryOptions, limiter.PerMinute("rpm", 100))
	check(t, w.store.Close())
	is(t, w.Reset(bg, alice, resource), limiter.ErrClosed)
	is(t, failed(w.TopUp(bg, alice, resource, rpm(1), "a")), limiter.ErrClosed)
	is(t, w.Disable(bg, limiter.Scope{}, ""), limiter.ErrClosed)
}

// TestFillUsesDefaults tops up a bucket whose limits come with the limiter.
func TestFillUsesDefaults(t *testing.T) {
	w := startWith(t, limiter.Options{Limits: []limiter.Limit{limiter.PerHour("rpm", 100)}}, memoryOptions)
	w.take(t, alice, rpm(100))
	topUp(t, w.RateLimiter, rpm(40), "a")
	w.wantLeft(t, alice, "rpm", 40)
	w.clock.pass(time.Minute)
	check(t, w.Reset(bg, alice, resource, "rpm"))
	w.wantLeft(t, alice, "rpm", 100)
}
