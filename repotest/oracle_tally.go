package repotest

import (
	"math"

	"github.com/zeroae/zae-limiter-go"
)

// tally is one possible account of the use of a limit, in thousandths. What is used
// and what is left add up to the capacity. A tally is a value: its methods return
// another one.
//
// The use of a quota is the net use in its window: what was charged and taken, less
// what was given back, and the debt that was carried over. It depends neither on the
// capacity nor on its changes. The use of a rate falls by its refill. A change of a
// rate, and a change to other windows, leave what is left, up to the new capacity:
// nothing is gained. The use that is counted then may differ from the real one. A
// capacity that changes later in the window makes it the real one again, as far as the
// change goes.
type tally struct {
	limit       limiter.Limit
	least, most int64 // bounds of the use, not negative
	at          int64 // the use of a rate is known at this time
	start       int64 // of the window of a quota
	// peakLeast and peakMost bound the largest capacity in force in the window. Use
	// above it is carried over.
	peakLeast, peakMost int64
	// hiddenLeast and hiddenMost bound what the real use of the window has more than the
	// use that is counted.
	hiddenLeast, hiddenMost int64
	// away reports that the limit has left its level, while the store keeps it.
	away bool
	// gone reports that the bucket is missing, or has forgotten the limit.
	gone bool
}

func capacityOf(l limiter.Limit) int64 { return l.Capacity * milli }

// unused returns the tally of a limit that nothing was taken from.
func (o *oracle) unused(l limiter.Limit, at, now int64) tally {
	t := tally{limit: l, at: at}
	if l.IsQuota() {
		t.start, t.peakLeast, t.peakMost = o.start(windowOf(l), now), capacityOf(l), capacityOf(l)
	}
	return t
}

// unbounded is more than any use.
const unbounded = math.MaxInt64 / 4

// seen returns the tally of a limit about which nothing was known.
func seen(l limiter.Limit, used, at, start int64) tally {
	return tally{
		limit: l, least: used, most: used, at: at, start: start,
		peakLeast: capacityOf(l), peakMost: unbounded, hiddenLeast: -unbounded, hiddenMost: unbounded,
	}
}

// room returns the bounds of what is left.
func (t tally) room() (least, most int64) {
	return capacityOf(t.limit) - t.most, capacityOf(t.limit) - t.least
}

// take adds to the use.
func (t tally) take(n int64) tally {
	t.least, t.most = t.least+n, t.most+n
	return t
}

// give takes from the use, which a give-back or a top-up does not make negative: what
// the use that is counted does not cover lowers what the real one has more.
func (t tally) give(n int64) tally {
	t.hiddenLeast -= max(0, min(t.hiddenLeast, n-t.least))
	t.hiddenMost -= max(0, min(t.hiddenMost, n-t.most))
	t.least, t.most = max(0, t.least-n), max(0, t.most-n)
	return t
}

// later returns the tally at a later time: a rate has refilled by the bucket's own
// time, which never goes back. A quota has begun the window of now.
func (o *oracle) later(t tally, now int64) tally {
	if t.limit.IsQuota() {
		t.at = max(t.at, now)
		return o.stepped(t, now)
	}
	return t.refilled(t.limit, now)
}

// refilled returns the tally of a rate that has refilled by the rate of a limit.
func (t tally) refilled(by limiter.Limit, now int64) tally {
	if now <= t.at {
		return t
	}

	gain := earned(by, now) - earned(by, t.at)
	t.at = now
	return t.give(gain)
}

// stepped returns the tally of a quota in the window of now. At each boundary the use
// above the largest capacity of the window that ends is carried over, and the rest is
// forgotten.
func (o *oracle) stepped(t tally, now int64) tally {
	w := windowOf(t.limit)
	current := o.start(w, now)

	for t.start < current {
		// Debt outlives the boundary. Use up to the peak ends with its window.
		t.least, t.most = max(0, t.least-t.peakMost), max(0, t.most-t.peakLeast)
		t.peakLeast, t.peakMost = capacityOf(t.limit), capacityOf(t.limit)
		t.hiddenLeast, t.hiddenMost = 0, 0

		// Without use, all windows until then are alike.
		if t.most == 0 {
			t.start = current
			break
		}

		t.start = o.end(w, t.start)
	}
	return t
}

// settled returns the tally in one form if nothing was used, since no later call is far
// enough behind to tell the difference.
func (o *oracle) settled(t tally, now int64) tally {
	past := now - 2*maxSkew.Milliseconds()
	if t.most > 0 || t.at > past {
		return t
	}

	t = o.later(t, past)
	// Nothing was used, so any earlier time means the same. A round one makes
	// tallies equal that differ in it alone.
	t.at = past - past%day.Milliseconds()
	return t
}

// changed returns the tallies that a limit may have after it was replaced by another.
// Before keep, limits that it has replaced would not be full.
func (o *oracle) changed(t tally, to limiter.Limit, keep, now int64) []tally {
	t.away, t.gone = false, false
	from := t.limit
	// A limit that becomes a shadow limit, or the reverse, keeps everything
	// else.
	if from.IsShadow = to.IsShadow; from == to {
		t.limit = to
		return []tally{t}
	}

	// What a rate lacks need not be use of this window, and the rate may have
	// replaced a limit with more use.
	if !from.IsQuota() {
		if t.hiddenMost = unbounded; keep > now || o.later(t, now).least > 0 {
			t.hiddenLeast = unbounded
		}
	}

	due := o.later(t, now)
	if from.IsQuota() && to.IsQuota() && windowOf(from) == windowOf(to) {
		return []tally{resized(t, due, to)}
	}

	moved := []tally{o.moved(due, to, now)}
	// A step that is due may be taken or not. What is hidden of the window ends
	// with it all the same.
	if from.IsQuota() && due.start != t.start {
		t.at, t.hiddenLeast, t.hiddenMost = due.at, 0, 0
		moved = append(moved, o.moved(t, to, now))
	}

	return moved
}

// resized returns the tally of a quota with another capacity. If its window has just
// begun, the old capacity may count as in force there or not. The use that is counted
// goes towards the real one, but no further than the capacity does.
func resized(before, due tally, to limiter.Limit) tally {
	if due.start != before.start {
		due.peakLeast = 0
	}

	change := capacityOf(to) - capacityOf(due.limit)
	shown := func(hidden int64) int64 {
		switch {
		// The use is not known, so the change moves no tokens.
		case hidden > unbounded/2:
			return change
		// A lower capacity shows none of the hidden use. It only moves a use
		// that is counted too high towards the real one.
		case change < 0:
			return max(change, min(hidden, 0))
		}
		return min(change, max(hidden, 0))
	}
	atLeast, atMost := shown(due.hiddenLeast), shown(due.hiddenMost)

	least, most := min(atLeast, atMost), max(atLeast, atMost)
	// If the upper bound is unknown, shown jumps there from the value for known
	// uses to the whole change. So the smallest known use counts as well.
	if known := max(0, due.hiddenLeast); known < due.hiddenMost && known <= unbounded/2 {
		least, most = min(least, shown(known)), max(most, shown(known))
	}

	due.limit = to
	due.least, due.most = max(0, due.least+least), max(0, due.most+most)
	due.hiddenLeast, due.hiddenMost = due.hiddenLeast-atLeast, due.hiddenMost-atMost
	due.peakLeast, due.peakMost = max(due.peakLeast+least, capacityOf(to)), max(due.peakMost+most, capacityOf(to))
	return due
}

// moved returns the tally of a limit that fills at other times or at another pace than
// before. What is left stays, up to the new capacity. What is owed stays too. What was
// used above a capacity that was lowered is not owed: it ends with a higher capacity, or
// at the next boundary.
func (o *oracle) moved(t tally, to limiter.Limit, now int64) tally {
	begin := now
	// A clock that is ahead may have begun the window that the limit had.
	if t.limit.IsQuota() {
		begin = max(now, t.start)
	}

	n := o.unused(to, t.at, begin)
	n.least, n.most = math.MaxInt64, math.MinInt64
	n.hiddenLeast, n.hiddenMost = math.MaxInt64, math.MinInt64
	n.peakLeast, n.peakMost = math.MaxInt64, math.MinInt64

	for _, peak := range []int64{t.peakLeast, t.peakMost} {
		for _, end := range [][2]int64{{t.least, t.hiddenLeast}, {t.most, t.hiddenMost}} {
			used := end[0]
			left, whole := capacityOf(t.limit)-used, max(0, used+end[1])
			excess := int64(0)
			// A boundary would end this part of the use, and so does a higher
			// capacity.
			if t.limit.IsQuota() && left < 0 {
				excess = max(0, min(-left, peak-capacityOf(t.limit)))
				ended := max(0, min(excess, capacityOf(to)-whole-left))
				left, excess = left+ended, excess-ended
			}

			n.peakLeast, n.peakMost = min(n.peakLeast, capacityOf(to)+excess), max(n.peakMost, capacityOf(to)+excess)
			counted := capacityOf(to) - min(left, capacityOf(to))
			n.least, n.most = min(n.least, counted), max(n.most, counted)
			n.hiddenLeast, n.hiddenMost = min(n.hiddenLeast, whole-counted), max(n.hiddenMost, whole-counted)
		}
	}

	if !to.IsQuota() {
		n.hiddenLeast, n.hiddenMost, n.peakLeast, n.peakMost = 0, 0, 0, 0
	}
	return n
}

// keptUntil returns the time before which a bucket does not expire, because it has
// replaced a limit by another. A quota of the same windows loses nothing, nor does the
// same limit.
func (o *oracle) keptUntil(t tally, to limiter.Limit) int64 {
	from := t.limit
	from.IsShadow = to.IsShadow
	if from == to || from.IsQuota() && to.IsQuota() && windowOf(from) == windowOf(to) {
		return math.MinInt64
	}
	return o.fullAt(t)
}

// fullAt returns a time before which the limit is surely not full.
func (o *oracle) fullAt(t tally) int64 {
	if t.least == 0 {
		return math.MinInt64
	}
	if !t.limit.IsQuota() {
		return t.at + refillTime(t.limit, t.least)
	}

	// A boundary ends the use up to the peak alone, so debt may need several.
	for {
		end := o.end(windowOf(t.limit), t.start)
		if t = o.stepped(t, end); t.least == 0 {
			return end
		}
	}
}
