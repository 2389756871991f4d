package escrow

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// windows holds by payer the windows that the tokens of quotas were taken from, in
// the order of its limits. A list is nil if the payer has no quota.
type windows [][]int64

// windowsOf returns the windows of an answer.
func windowsOf(out *limiter.Outcome) windows {
	w := make(windows, len(out.Payers))
	for i := range out.Payers {
		w[i] = startsOf(&out.Payers[i])
	}
	return w
}

// end returns when the first window of the quotas that tokens names ends, by the
// callers' clock.
func (w windows) end(a *accounts, tokens []int64) int64 {
	end := int64(math.MaxInt64)
	for j, n := range tokens {
		if n <= 0 {
			continue
		}

		for _, at := range a.slots[j].places {
			end = min(end, windowEnd(w[at.payer], at.limit, *a.limit(at)))
		}
	}
	return end
}

// windowEnd returns the end of the window of limit i, math.MaxInt64 for a rate. A
// quota of an unknown window ends at once.
func windowEnd(starts []int64, i int, l limiter.Limit) int64 {
	if !l.IsQuota() {
		return math.MaxInt64
	}

	window := rules.RateOf(l).Window

	// Tokens of a window that is not known must not be spent: they may belong
	// to one that has ended.
	if window == nil || i >= len(starts) {
		return math.MinInt64
	}
	return window.End(starts[i])
}

// windowAt returns the window of limit i, 0 for a rate.
func windowAt(starts []int64, i int) int64 {
	if i >= len(starts) {
		return 0
	}
	return starts[i]
}

// stepped reports whether an answer shows another window of a quota than the last
// one did.
func (p *pot) stepped(out *limiter.Outcome) bool {
	for i := range out.Payers {
		if !slices.Equal(p.image.payers[i].starts, startsOf(&out.Payers[i])) {
			return true
		}
	}
	return false
}

// step gives up what the flight and the pot have from an earlier window of a quota.
// The extra stays, since the charge that was answered debited it in the new window.
func (f *flight) step() {
	f.unclaim(f.reserved)
	f.giveBack(&f.accounts, f.granted)
	f.endAll()
	n := len(f.slots)
	f.reserved, f.granted, f.clear, f.claims = make([]int64, n), make([]int64, n), make([]bool, n), nil
}

// nearEmpty reports whether a quota of a slot has less than an eighth of its
// capacity left after n tokens. Nothing refills what a process that ends would
// lose, and what another process is refused would wait for the next window.
func (p *pot) nearEmpty(j int, n, now int64) bool {
	return slices.ContainsFunc(p.slots[j].places, func(at place) bool {
		l := p.limit(at)
		return l.IsQuota() && bucket.Sub(bucket.Whole(p.balance(at, now)), n) < l.Capacity/share
	})
}
