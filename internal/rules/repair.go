package rules

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Repair applies the limits of account to the bucket. It refills by the old
// limits up to now. A new limit starts full, a removed one is dropped, a lower
// capacity clamps, and a higher one adds nothing. The tokens of a quota move with
// its capacity. A limit that becomes a quota, or one of other windows, keeps its
// tokens and belongs to the current window, or to that in which the old one begins if
// a clock that is ahead has begun it. Repair reports whether a stored field
// changed.
func (b *Bucket) Repair(now int64, account *limiter.Account, idle int64, book Book) (bool, error) {
	if slices.Equal(b.Account.Limits, account.Limits) {
		changed := b.Account.Source != account.Source || b.Idle != idle
		if changed || b.Account.Default != account.Default { // Default is not stored
			b.Account, b.Idle = account, idle
		}
		if changed {
			b.extend()
		}
		return changed, nil
	}
	if err := b.Flush(book); err != nil {
		return false, err
	}
	old, at := *b, max(now, b.At)
	b.size(len(account.Limits))
	b.Starts, b.Excess = newStarts(now, account.Limits), nil
	for i, l := range account.Limits {
		b.Tokens[i] = l.Capacity * bucket.Milli
		if j := find(old.Account.Limits, l.Name, i); j >= 0 {
			b.follow(i, l, &old, j, at, now)
		}
	}
	b.Account, b.Idle, b.At = account, idle, at
	b.extend()
	return true, nil
}

// follow gives limit i of a repaired bucket, which is full, the tokens and the
// window that limit j of the old bucket leaves.
func (b *Bucket) follow(i int, l limiter.Limit, old *Bucket, j int, at, now int64) {
	full, was := b.Tokens[i], old.Account.Limits[j]
	switch {
	case sameWindow(was, l):
		b.Starts[i] = max(b.Starts[i], old.Starts[j])
		excess := old.excess(j)
		if b.Starts[i] != old.Starts[j] {
			excess = 0
		}
		tokens, excess := bucket.Resize(old.advanced(j, at, now), excess, was.Capacity*bucket.Milli, full)
		b.Tokens[i] = min(full, tokens)
		b.setExcess(i, excess)
	case was.Window != 0: // a step that is due is not taken
		tokens, excess := bucket.Rewind(old.Tokens[j], old.excess(j), was.Capacity*bucket.Milli, full)
		b.Tokens[i] = tokens
		if l.Window != 0 { // not before the old window, or a clock that is behind would gain a step
			b.Starts[i] = windowStart(l, max(now, old.Starts[j]))
			b.setExcess(i, excess)
		}
	default:
		b.Tokens[i] = min(full, old.advanced(j, at, now))
	}
}
