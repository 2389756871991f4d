package jsonview

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Used is what an entity used of a limit, as the usage counters say. The zero value
// means that nothing was counted: nothing was used, or the usage of a table is not
// counted.
type Used struct {
	Tokens int64
	Since  time.Time // zero if nothing was counted
}

// ReadUsed returns what was used of each limit: since the start of a quota's window,
// and of a rate since the start of the hour, day or month in UTC that is at least as
// long as its period. Usage is counted by the hour. If a window begins within an
// hour, such as at 18:30 in UTC, ReadUsed counts from 18:00 on.
func ReadUsed(ctx context.Context, lim *limiter.RateLimiter, now time.Time, statuses []limiter.Status) ([]Used, error) {
	type query struct {
		entity string
		since  time.Time
	}
	type counter struct{ resource, limit string }
	all, counted := make([]Used, len(statuses)), map[query]map[counter]int64{}
	for i, s := range statuses {
		q := query{s.Entity, usedSince(s, now)}
		// The limits of a bucket mostly share a query, which is read once.
		if counted[q] == nil {
			sums := map[counter]int64{}
			for _, part := range partsSince(q.since, now) {
				part.Entity = q.entity
				for snapshot, err := range lim.Usage(ctx, part) {
					if err != nil {
						return nil, err
					}
					for limit, n := range snapshot.Counters {
						sums[counter{snapshot.Resource, limit}] += n
					}
				}
			}
			counted[q] = sums
		}

		if n, ok := counted[q][counter{s.Resource, s.Limit.Name}]; ok {
			all[i] = Used{n, q.since}
		}
	}

	return all, nil
}

// usedSince returns the time from which on the usage of a limit is counted.
func usedSince(s limiter.Status, now time.Time) time.Time {
	window, at := limiter.Hourly, now
	switch {
	// A limit without a bucket has no WindowStart. Its calendar decides below.
	case s.Limit.IsQuota() && !s.WindowStart.IsZero():
		at = s.WindowStart
	case s.Limit.Window == limiter.EveryMonth || s.Limit.Window == limiter.EveryYear || s.Limit.Period > 24*time.Hour:
		window = limiter.Monthly
	case s.Limit.Window > limiter.EveryHour || s.Limit.Period > time.Hour:
		window = limiter.Daily
	}

	start, _ := window.Bounds(at)
	return start
}

// partsSince splits the time from the start of an hour until now into queries of
// snapshots: hours until midnight, days until the end of the month, then months. From
// 22:00 on January 30 these are the hours from 22:00 and 23:00, the day of January 31,
// and the months from February on.
func partsSince(since, now time.Time) (parts []limiter.UsageQuery) {
	for _, step := range []struct{ window, within limiter.Window }{
		{limiter.Hourly, limiter.Daily}, {limiter.Daily, limiter.Monthly}, {limiter.Monthly, ""},
	} {
		end := now
		if step.within != "" {
			start, last := step.within.Bounds(since)
			// A longer snapshot begins here, which is one read instead of many.
			if start.Equal(since) {
				continue
			}
			end = last
		}

		if since.After(now) {
			break
		}

		if end.After(now) {
			end = now
		}

		// The end is the last second of a window, in which the next part must
		// not begin.
		parts = append(parts, limiter.UsageQuery{Window: step.window, From: since, To: end})
		since = end.Add(time.Second)
	}

	return parts
}
