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
		{"usage saturates at the largest number", sweepUsageBorder},
	}
}

// sweepClockAhead has one client whose clock is a century ahead. The records
// of others must not expire because of it. A store sweeps up to its machine's time,
// so the test uses real time.
func sweepClockAhead(f *fixture) {
	now := time.Now()
	consume := func(at time.Time, entity string, n int64) bool {
		out, err := f.repo.Consume(f.ctx, at, ask(entity, rpm(n)))
		f.ok("Consume", err)
		return out.Admitted
	}

	ev := f.event("limits_set", "$SYSTEM")
	ev.At = now
	f.ok("SetConfig",
		f.repo.SetConfig(f.ctx, limiter.Config{Limits: []limiter.Limit{limiter.PerSecond("rpm", 10)}}, ev))

	f.equal("admitted", consume(now, "alice", 10), true)
	before := f.usage(limiter.UsageQuery{Entity: "alice"})

	// As many charges as this make a store sweep every part.
	for i := range 300 {
		consume(now.AddDate(100, 0, i), fmt.Sprint("ahead-", i), 1)
	}

	f.equal("admitted again", consume(now, "alice", 1), false)
	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "alice"}), before)
	f.equal("events", len(f.audit("$SYSTEM", "")), 1)
}

func sweepUsageBorder(f *fixture) {
	const most = math.MaxInt64 / 1000
	f.setLimits(limiter.Scope{}, limiter.PerSecond("rpm", most))

	// The sum exceeds the largest number by one percent.
	for i := range 1010 {
		f.take(time.Duration(i)*time.Second, ask("alice", rpm(most)))
	}

	for _, u := range f.usage(limiter.UsageQuery{Entity: "alice", Window: limiter.Monthly}) {
		f.equal("usage", u.Counters["rpm"], int64(math.MaxInt64))
	}
}
