package escrow

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// grant holds what a request took beyond the calls that it was made for.
type grant struct {
	accounts
	windows windows // of the debit
	pots    *pots
	store   limiter.Repository
	at      tick  // when the debit was sent
	until   int64 // by the callers' clock, when the first of the windows ends
	held    []int64
	// loans holds by slot the counters of the ancestors that lend. held counts in
	// each of them until the grant has ended.
	loans [][]*descendants
	// size is what the grant left over at first. held never exceeds it.
	size []int64
	// spared names the limits that the store did not debit. Only an ended grant
	// has it.
	spared []place
	ended  bool  // it has left its pot
	late   bool  // it must not be returned
	seen   int64 // the callers' time at which it ended, if a call ended it
	epoch  int64 // of the janitor, when it ended
}

// over reports whether the hold has ended, or the window of a quota.
func (g *grant) over(t tick) bool { return t.now >= g.until || !t.within(g.hold, g.at) }

// due returns the machine time at which the hold ends.
func (g *grant) due() time.Duration {
	// until is far away if no limit is a quota. Without this bound, its
	// nanoseconds would overflow.
	const longest = math.MaxInt64 / int64(time.Millisecond)
	left := min(max(bucket.Sub(g.until, g.at.now), 0), longest)
	return g.at.machine + min(g.hold, time.Duration(left)*time.Millisecond)
}

// callersTime returns the callers' time at a machine time.
func (g *grant) callersTime(machine time.Duration) time.Time {
	return time.UnixMilli(g.at.now).Add(machine - g.at.machine)
}

// tooLate reports whether the second hold has ended by the caller's clock.
func (g *grant) tooLate(t tick) bool { return t.now >= g.at.now+2*g.hold.Milliseconds() }

// deadline returns the machine time until which unspent tokens may be returned.
func (g *grant) deadline() time.Duration {
	// Without holds, this is the share of a caller that left.
	if g.hold == 0 {
		return g.at.machine + defaultMaxHold
	}
	return g.at.machine + 2*g.hold
}

// tokens returns how many tokens the grant holds.
func (g *grant) tokens() (n int64) {
	for _, held := range g.held {
		n += held
	}
	return n
}

// credits returns the credits that give back at now what the grant holds. Tokens of
// a window that has ended are lost.
func (g *grant) credits(now int64) (credits []limiter.Credit, lost int64) {
	// A call whose clock was ahead may have ended the grant, and may have seen
	// the end of its window.
	now = max(now, g.seen)
	credits = make([]limiter.Credit, len(g.payers))
	for i, payer := range g.payers {
		credits[i] = limiter.Credit{Account: payer, Starts: g.windows[i]}
	}

	for j, n := range g.held {
		if n == 0 {
			continue
		}

		back := true
		for _, at := range g.slots[j].places {
			back = g.addTo(&credits[at.payer], at, n, now) && back
		}
		// A token that one of its payers cannot take back counts as lost once, as
		// it counts once while it is held.
		if !back {
			lost += n
		}
	}

	return slices.DeleteFunc(credits, func(c limiter.Credit) bool { return c.Amounts.Len() == 0 }), lost
}

// addTo adds n tokens of a limit to the credit of its payer, unless their window has
// ended at now.
func (g *grant) addTo(c *limiter.Credit, at place, n, now int64) bool {
	l := g.limit(at)
	if now >= windowEnd(c.Starts, at.limit, *l) {
		return false
	}

	c.Amounts = c.Amounts.And(l.Name, n)

	// The charge took no tokens of a spared limit, so that only its usage goes
	// back.
	if slices.Contains(g.spared, at) {
		c.Spared = append(c.Spared, l.Name)
	}
	return true
}

const sliceCount = 8

// spending counts tokens in slices of a hold. The oldest slice lies partly before
// the last hold.
type spending struct {
	slices [sliceCount + 1]int64
	last   int64 // number of the newest slice since the start of time
}

// add counts n tokens.
func (s *spending) add(at, hold time.Duration, n int64) {
	// Without holds nothing is held, so nothing has to be counted, and the slices of
	// a hold would have no length.
	if hold == 0 {
		return
	}

	s.advance(at, hold)
	s.slices[s.last%int64(len(s.slices))] += n
}

// atMost returns at most what was counted in the last hold.
func (s *spending) atMost(at, hold time.Duration) (sum int64) {
	sum = s.atLeast(at, hold) // moves s.last
	return sum - s.slices[(s.last+1)%int64(len(s.slices))]
}

// atLeast returns at least what was counted in the last hold.
func (s *spending) atLeast(at, hold time.Duration) (sum int64) {
	s.advance(at, hold)
	for _, n := range s.slices {
		sum += n
	}
	return sum
}

// advance clears the slices that are older than a hold.
func (s *spending) advance(at, hold time.Duration) {
	now := int64(at / (hold / sliceCount))

	// After a long idle time, one round through the slices clears them all.
	for range min(now-s.last, int64(len(s.slices))) {
		s.last++
		s.slices[s.last%int64(len(s.slices))] = 0
	}

	s.last = max(s.last, now)
}

// tick is one moment by two clocks: the caller's, in milliseconds, and the
// machine's.
type tick struct {
	now     int64
	machine time.Duration
}

// within reports whether a hold that began at a moment lasts by both clocks. It also
// ends when the caller's clock goes back. But callers read their clocks before they
// get the lock, so that a later one may come with an earlier time. A step back of
// up to an eighth of the hold therefore does not count.
func (t tick) within(hold time.Duration, from tick) bool { return holdFrom(from, hold).has(t) }

// period is a span of time by two clocks.
type period struct {
	from, until int64 // by the caller's clock
	machine     time.Duration
}

// holdFrom returns the period in which a hold has not ended.
func holdFrom(at tick, hold time.Duration) period {
	const disorder = 8
	ms := hold.Milliseconds()
	return period{at.now - ms/disorder, at.now + ms, at.machine + hold}
}

func (p period) has(t tick) bool { return t.machine < p.machine && t.now >= p.from && t.now < p.until }
