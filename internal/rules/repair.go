package rules

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Repair applies the limits of account to the bucket. It refills by the old
// limits up to now. A new limit starts full, a lower capacity clamps, and a higher one
// adds nothing. The tokens of a quota move with its capacity. A limit that becomes a
// quota, or a quota of other windows, keeps its tokens and belongs to the current
// window. If a clock that is ahead has begun the old window after now, the quota
// belongs to the new window that contains that beginning. A limit that is removed
// leaves: the bucket remembers it until it is full. Repair reports whether a stored
// field changed. See [Level.become].
func (b *Bucket) Repair(now int64, account *limiter.Account, idle int64, book Book) (bool, error) {
	// The stores do not keep Default, so a change of it alone needs no write.
	if slices.Equal(b.Account.Limits, account.Limits) {
		changed := b.Account.Source != account.Source || b.Idle != idle
		if changed || b.Account.Default != account.Default {
			b.Account, b.Idle = account, idle
		}
		if changed {
			b.extend()
		}
		return changed, nil
	}

	// Usage is in the order of the limits, which changes below.
	if err := b.Flush(book); err != nil {
		return false, err
	}

	old, at := *b, max(now, b.At)
	b.size(len(account.Limits))
	b.Account, b.Starts = account, newStarts(now, account.Limits)
	b.Peaks, b.Hidden = nil, nil

	for i, l := range account.Limits {
		if j := find(old.Account.Limits, l.Name, i); j >= 0 {
			was := old.Level(j)
			b.keep(was, l, at, now)
			b.set(i, was.become(l, at, now, old.Keep))
			continue
		}
		if j := old.findLeft(l.Name); j >= 0 {
			// The limit that comes back may be another one than the limit that
			// left, which then counts as replaced.
			b.keep(old.Left[j], l, at, now)
		}
		b.set(i, old.joins(l, at, now))
	}

	b.leave(&old, at, now)
	b.Idle, b.At = idle, at
	b.extend()
	return true, nil
}

// set gives limit i a balance and, if it is a quota, a window.
func (b *Bucket) set(i int, v Level) {
	b.Tokens[i] = v.Tokens
	if b.Starts != nil {
		b.Starts[i] = v.Start
	}
	if v.Peak != 0 {
		b.Peaks = withValue(b.Peaks, len(b.Tokens), i, v.Peak)
	}
	if v.Hidden != 0 {
		b.Hidden = withValue(b.Hidden, len(b.Tokens), i, v.Hidden)
	}
}

// withValue returns a copy of a list of n numbers, or of zeros if it is nil, with
// another number i.
func withValue(list []int64, n, i int, value int64) []int64 {
	all := make([]int64, n)
	copy(all, list)
	all[i] = value
	return all
}

// become returns the level of a limit that l replaces. keep is the time before which
// limits that the bucket had earlier would not be full.
//
// In the same windows the use stays: 100 a day with 40 left become 50 a day with -10
// left. With other windows the tokens stay, at most the new capacity: 100 a month that
// are used up become 10 a day with nothing left. Ten a day with nothing left show a
// use of 10, so the other 90 are hidden. When the capacity changes later, the use that
// shows moves towards the real use: these 10 a day become 100 a day with nothing left,
// and not with 90.
//
// The real use is unknown if a rate becomes a quota before it is full, or before keep.
// Until the next boundary, a change of the capacity then moves no tokens, and only
// bounds them.
func (v Level) become(l limiter.Limit, at, now, keep int64) Level {
	next := newLevel(l, at, now)
	before, full := v.Limit.Capacity*bucket.Milli, next.Tokens
	if sameWindow(v.Limit, l) {
		// The old capacity was in force until now. A step that is due adds it
		// before the capacity changes.
		v = v.advanced(at, now)
		var moved int64
		moved, next.Peak, next.Hidden = ResizeQuota(before, full, v.Peak, v.Hidden)
		next.Tokens, next.Start = min(full, bucket.Add(v.Tokens, moved)), v.Start
		return next
	}

	// A step that is due is not taken, or a clock that is behind would gain one. What is
	// hidden of a window ends with it all the same.
	if v.Limit.Window == 0 {
		v = v.advanced(at, now)
		// What a rate lacks need not be use in this window, and the rate may have replaced
		// a limit with more use.
		if keep > now || v.Tokens < before {
			v.Hidden = never
		}
	} else if windowStart(v.Limit, now) > v.Start {
		v.Hidden = 0
	}
	// A clock that is ahead may have begun the old window after now. The new
	// window contains that start, or a step would come too early.
	if v.Limit.Window != 0 && l.Window != 0 {
		next.Start = windowStart(l, max(now, v.Start))
	}

	// What was used above a capacity that was lowered is no debt: it ends with a higher
	// capacity, or at the next boundary.
	used := max(0, bucket.Add(bucket.Sub(before, v.Tokens), v.Hidden))
	next.Tokens = min(full, v.Tokens)
	// Of 100 that are used up and lowered to 50, the tokens are -50, and the
	// peak of 100 pays for all of them at the boundary. As 80 a week the tokens
	// are -20, and the peak stays 100. As 10 a week they stay -50, and the peak
	// is 60.
	if above := min(-v.Tokens, v.Peak-before); above > 0 {
		next.Tokens = max(v.Tokens, min(v.Tokens+above, bucket.Sub(full, used)))
		above -= next.Tokens - v.Tokens
		if above > 0 && l.Window != 0 {
			next.Peak = full + above
		}
	}

	if l.Window != 0 {
		next.Hidden = bucket.Sub(used, bucket.Sub(full, next.Tokens))
	}
	return next
}

// ResizeQuota returns by how many thousandths the tokens of a quota move if its
// capacity changes, and its peak and its hidden use after that. The tokens move by the
// difference of the capacities, except that a part of it shows hidden use instead. For
// example, 10 a day with nothing left hide a use of 90. As 150 a day, 90 of the 140
// more are used already, so the tokens move by 50. If the real use is unknown,
// the tokens do not move.
//
// What the tokens lose to a lower capacity, the next boundary gives back, since it
// adds the peak. 100 a day that are used up have -50 as 50 a day, with a peak of 100,
// so the boundary leaves 50.
func ResizeQuota(from, to, peak, hidden int64) (moved, newPeak, stillHidden int64) {
	difference := bucket.Sub(to, from)
	shown := max(min(0, difference), min(hidden, max(0, difference)))
	// The use is not known. If the tokens moved, changes of the capacity alone
	// would give or take. Such a number began as never, and give-backs and changes
	// have moved it since.
	if hidden > never/2 {
		shown = difference
	}

	moved = bucket.Sub(difference, shown)
	// The boundary adds the peak. It ends what the tokens have lost to a lower
	// capacity, and leaves debt as it is.
	if above := bucket.Sub(max(peak, from)-from, moved); above > 0 {
		newPeak = bucket.Add(to, above)
	}

	return moved, newPeak, bucket.Sub(hidden, shown)
}
