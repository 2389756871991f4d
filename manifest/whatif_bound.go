package manifest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// ceiling is the most that a bucket can hold after the usage so far. [WhatIf]
// explains the bound. Times are in milliseconds, tokens in thousandths.
type ceiling struct {
	rate        bucket.Rate
	balance, at int64
}

func newCeiling(l limiter.Limit, at int64) ceiling {
	rate := rules.RateOf(l)
	return ceiling{rate, rate.Capacity, at}
}

// take charges the usage between two times, which are not before those of the last
// call. It returns by how much the usage exceeds what the bucket can have
// admitted. Negative usage was given back. A bucket of 100 tokens an hour admits 199
// in its first hour: it is full, and all but the last of the next 100 come in time.
func (c *ceiling) take(from, to, used int64) (over int64) {
	// Up to the hour, the capacity stops the refill. Within it, calls may have
	// taken each token as it came.
	room := bucket.Advance(c.balance, c.at, from, c.rate)
	room = bucket.Add(room, bucket.Accrued(from, to, c.rate))

	left := bucket.Sub(room, used)
	c.balance, c.at = min(max(left, 0), c.rate.Capacity), to
	return max(bucket.Sub(0, left), 0)
}

// refill fills the bucket.
func (c *ceiling) refill() { c.balance = c.rate.Capacity }

// series is the usage of an entity and a resource.
type series struct {
	points map[string][]point // by limit
	events map[int64]int64    // by hour
}

// point is the usage of one limit in one hour.
type point struct {
	hour, used int64 // start in milliseconds, whole tokens
}

// add adds a snapshot.
func (s *series) add(u limiter.UsageSnapshot) {
	hour := u.Start.UnixMilli()
	for limit, n := range u.Counters {
		s.points[limit] = append(s.points[limit], point{hour, n})
	}
	s.events[hour] = bucket.Add(s.events[hour], u.Events)
}

// sort sorts the points by time.
func (s *series) sort() {
	for _, points := range s.points {
		slices.SortFunc(points, func(a, b point) int { return int(a.hour/1000 - b.hour/1000) })
	}
}

// countsCalls reports whether a limit seems to count calls: every change of the
// bucket took one token, or its name says so and no hour has more tokens than
// changes.
func (s *series) countsCalls(limit string) bool {
	byName := slices.Contains([]string{limiter.RPS, limiter.RPM, limiter.RPH, limiter.RPD}, limit)
	// One token for each change is a call. A call with a late correction is two
	// changes, so a name is enough where there are more changes than tokens.
	for _, p := range s.points[limit] {
		if events := s.events[p.hour]; p.used > events || p.used < events && !byName {
			return false
		}
	}
	return len(s.points[limit]) > 0
}

// lastMilli is the last millisecond of an hour.
const lastMilli = int64(time.Hour/time.Millisecond) - 1

// usedUp adds up the usage of a row.
func (r *WhatIfRow) usedUp(points []point) {
	for _, p := range points {
		r.Used = bucket.Add(r.Used, p.used)
		if p.used > 0 {
			r.HoursUsed++
		}
	}
}

// exceed compares the usage of a row with its proposed limit. A shadow limit
// refuses nothing.
func (r *WhatIfRow) exceed(points []point, now int64) {
	if r.Proposed == nil || r.Proposed.IsShadow || len(points) == 0 {
		return
	}

	most := newCeiling(*r.Proposed, points[0].hour)
	// again is full after each hour that counts.
	again := most
	var sum, worst int64
	for _, p := range points {
		// The hour that has not ended refills the part that has passed. A
		// snapshot of a clock ahead of this one refills nothing.
		end := max(p.hour, min(p.hour+lastMilli, now))
		used := bucket.Thousandths(p.used)

		if again.take(p.hour, end, used) > 0 {
			again.refill()
			r.HoursOver++
		}

		over := most.take(p.hour, end, used)
		if over == 0 {
			continue
		}

		sum = bucket.Add(sum, over)
		hour := time.UnixMilli(p.hour).UTC()
		if r.Last = &hour; r.First == nil {
			r.First = &hour
		}

		if over > worst {
			worst, r.Worst, r.WorstUsed, r.WorstOver = over, &hour, p.used, wholeUp(over)
		}
	}

	r.Over = wholeUp(sum)
}

// wholeUp returns thousandths as whole tokens, rounded up, because calls take
// whole tokens.
func wholeUp(thousandths int64) int64 { return -bucket.Whole(-thousandths) }

// totalOver returns what is over a limit in all.
func totalOver(l *limiter.Limit, points []point, now int64) int64 {
	row := WhatIfRow{Proposed: l}
	row.exceed(points, now)
	return row.Over
}
