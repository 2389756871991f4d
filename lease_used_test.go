package limiter_test

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// TestUsedSetsTheTotal checks that Used sets the total, whatever was acquired,
// consumed, adjusted or stored before, and that it can be repeated.
func TestUsedSetsTheTotal(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 100), limiter.PerDay("tpm", 10_000))
	w.family(t)
	w.take(t, alice, tpm(5000))
	lease := w.take(t, alice, rpm(1).And("tpm", 500))
	used := func(n int64) {
		t.Helper()
		for range 2 {
			check(t, lease.Used("tpm", n))
			if got, want := lease.Consumed(), rpm(1).And("tpm", n); !got.Equal(want) {
				t.Errorf("consumed %q, want %q", got, want)
			}
		}
	}
	stored := func(n int64) {
		t.Helper()
		check(t, lease.Flush(bg))
		w.wantLeft(t, alice, "tpm", 5000-n)
		w.wantLeft(t, project, "tpm", 5000-n)
	}
	used(500) // as estimated
	used(620)
	stored(620)
	check(t, lease.Consume(bg, tpm(300)))
	used(700)
	check(t, lease.Adjust(tpm(50)))
	used(710)
	stored(710)
	used(0)
	used(9000) // debt
	stored(9000)
	used(4)
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "tpm", 4996)
	w.wantLeft(t, project, "tpm", 4996)
	is(t, lease.Used("tpm", 4), limiter.ErrLeaseDone)
}

func TestUsedOfALimitThatWasNotAcquired(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 100), limiter.PerDay("tpm", 10_000))
	lease := w.take(t, alice, rpm(1))
	check(t, lease.Used("tpm", 30))
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "tpm", 9970)
}

func TestUsedRefusesBadInput(t *testing.T) {
	w := start(t, limiter.PerDay("tpm", 100))
	lease := w.take(t, alice, tpm(10))
	tooMuch(t, lease, "used", func() error { return lease.Used("tpm", -1) })
	tooMuch(t, lease, "limit", func() error { return lease.Used("tmp", 5) })
	tooMuch(t, lease, "limit", func() error { return lease.Used("tmp", 0) })
	w.noCredit(t)
	check(t, lease.Commit(bg))
	for _, ended := range []*limiter.Lease{lease, nil, {}} {
		is(t, ended.Used("tpm", 1), limiter.ErrLeaseDone)
	}
}

func TestUsedDoesNothingInAnAllowedOutage(t *testing.T) {
	w := startWith(t, limiter.Options{OnUnavailable: limiter.Allow}, memory.Options{})
	w.store.down()
	lease := w.take(t, alice, tpm(10))
	w.noCredit(t)
	check(t, errors.Join(lease.Used("tpm", 30), lease.Used("anything", 1)))
	if got := lease.Consumed(); got.Len() != 0 {
		t.Errorf("consumed %q", got)
	}
	check(t, lease.Commit(bg))
}
