package escrow

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// grant holds what a request took beyond the calls that it was made for.
type grant struct {
	accounts
	pots  *pots
	store limiter.Repository
	at    tick // when the debit was sent
	held  []int64
	loans []*loan // of the parent, which held counts in until the grant has ended, by slot
	size  []int64 // what the grant left over at first; held is never above it
	ended bool    // it is no longer in its pot
	late  bool    // it must not be returned
	epoch int64   // of the janitor, when it ended
}

// over reports whether the hold has ended.
func (g *grant) over(t tick) bool { return !t.within(g.hold, g.at) }

// tooLate reports whether the second hold has ended by the caller's clock.
func (g *grant) tooLate(t tick) bool { return t.now >= g.at.now+2*g.hold.Milliseconds() }

// deadline returns the machine time until which unspent tokens may be returned.
func (g *grant) deadline() time.Duration {
	if g.hold == 0 { // the share of a caller that left
		return g.at.machine + defaultMaxHold
	}
	return g.at.machine + 2*g.hold
}

// credits returns the credits that give back what the grant holds, and its number
// of tokens.
func (g *grant) credits() (credits []limiter.Credit, tokens int64) {
	var self, parent limiter.Amounts
	for j, n := range g.held {
		if n == 0 {
			continue
		}
		tokens += n
		if g.slots[j].self >= 0 {
			self = self.And(g.slots[j].name, n)
		}
		if g.slots[j].parent >= 0 {
			parent = parent.And(g.slots[j].name, n)
		}
	}
	if self.Len() > 0 {
		credits = append(credits, limiter.Credit{Account: g.self, Amounts: self})
	}
	if parent.Len() > 0 {
		credits = append(credits, limiter.Credit{Account: g.parent, Amounts: parent})
	}
	return credits, tokens
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
	if hold == 0 {
		return
	}
	s.advance(at, hold)
	s.slices[s.last%int64(len(s.slices))] += n
}

// atMost returns at most what was counted in the last hold.
func (s *spending) atMost(at, hold time.Duration) (sum int64) {
	return s.atLeast(at, hold) - s.slices[(s.last+1)%int64(len(s.slices))]
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
	for range min(now-s.last, int64(len(s.slices))) {
		s.last++
		s.slices[s.last%int64(len(s.slices))] = 0
	}
	s.last = max(s.last, now)
}
