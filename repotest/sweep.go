package repotest

import (
	"fmt"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func sweepChecks() []check {
	return []check{
		{"a clock far ahead takes nothing from others", sweepClockAhead},
		{"usage beyond all numbers stops at the border", sweepUsageBorder},
	}
}

// One client lives half a year ahead. What others have stored is neither
// expired nor past its retention for that.
func sweepClockAhead(f *fixture) {
	f.setLimits(limiter.Scope{}, limiter.PerSecond("rpm", 10))
	f.take(0, ask("alice", rpm(10)), 0)
	before := f.usage(limiter.UsageQuery{Entity: "alice"})
	for i := range 300 { // enough to meet whatever alice shares with others
		f.take(200*24*time.Hour+time.Duration(i)*time.Minute, ask(fmt.Sprint("ahead-", i), rpm(1)))
	}
	f.refuse(0, ask("alice", rpm(1)), 0)
	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "alice"}), before)
	f.equal("events", len(f.audit("$SYSTEM", "")), 1)
}

func sweepUsageBorder(f *fixture) {
	const most = math.MaxInt64 / 1000
	f.setLimits(limiter.Scope{}, limiter.PerSecond("rpm", most))
	for i := range 1010 {
		f.take(time.Duration(i)*time.Second, ask("alice", rpm(most)))
	}
	for _, u := range f.usage(limiter.UsageQuery{Entity: "alice", Window: limiter.Monthly}) {
		f.equal("usage", u.Counters["rpm"], int64(math.MaxInt64))
	}
}
