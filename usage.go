package limiter

import (
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Window is the length of a usage snapshot.
type Window string

// The windows usage is kept in, all in UTC.
const (
	Hourly  Window = "hourly"
	Daily   Window = "daily"
	Monthly Window = "monthly"
)

// Bounds are the first and the last second of the window that t is in. A window
// that is not known is as long as nothing.
func (w Window) Bounds(t time.Time) (start, end time.Time) {
	t = t.UTC()
	year, month, day := t.Date()
	switch w {
	case Hourly:
		start = time.Date(year, month, day, t.Hour(), 0, 0, 0, time.UTC)
		return start, start.Add(time.Hour - time.Second)
	case Daily:
		start = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		return start, start.Add(24*time.Hour - time.Second)
	case Monthly:
		start = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 1, 0).Add(-time.Second)
	}
	return t, t
}

// UsageQuery selects snapshots.
type UsageQuery struct {
	Entity, Resource string    // one of them at least
	Window           Window    // "" for all
	From, To         time.Time // bounds of Start, inclusive; zero is open
}

// Validate is nil or an *[InvalidError].
func (q UsageQuery) Validate() error {
	if q.Entity == "" && q.Resource == "" {
		return invalid("usage query", "", "must name an entity, a resource or both")
	}
	if q.Entity != "" {
		if err := validEntity(q.Entity); err != nil {
			return err
		}
	}
	if q.Resource != "" {
		if err := validResource(q.Resource); err != nil {
			return err
		}
	}
	switch q.Window {
	case "", Hourly, Daily, Monthly:
		return nil
	}
	return invalid("window", string(q.Window), `must be "hourly", "daily" or "monthly"`)
}

// Match tells whether a snapshot is one the query asks for.
func (q UsageQuery) Match(s UsageSnapshot) bool {
	return (q.Entity == "" || q.Entity == s.Entity) && (q.Resource == "" || q.Resource == s.Resource) &&
		(q.Window == "" || q.Window == s.Window) &&
		(q.From.IsZero() || !s.Start.Before(q.From)) && (q.To.IsZero() || !s.Start.After(q.To))
}

// UsageSnapshot is what one entity used of one resource in one window.
type UsageSnapshot struct {
	Entity, Resource string           // who used what
	Window           Window           // an hour, a day or a month
	Start, End       time.Time        // the first and the last second
	Counters         map[string]int64 // net tokens by limit, without those that come to 0
	Events           int64            // changes of the bucket that made them
}

// UsageSummary adds snapshots up.
type UsageSummary struct {
	Snapshots   int                // how many
	Total       map[string]int64   // by limit
	Average     map[string]float64 // over the snapshots that have the limit
	First, Last time.Time          // the earliest and latest Start, zero if there is none
}

// Usage are the snapshots of a query, newest first.
func (l *RateLimiter) Usage(ctx context.Context, q UsageQuery) iter.Seq2[UsageSnapshot, error] {
	if err := q.Validate(); err != nil {
		return failed[UsageSnapshot](err)
	}
	return mapped(ctx, "usage", q.Entity, q.Resource, l.repo.Usage(ctx, q))
}

// UsageSummary adds up the snapshots of a query. Windows overlap, so a query
// without one is summed by the hour.
func (l *RateLimiter) UsageSummary(ctx context.Context, q UsageQuery) (UsageSummary, error) {
	if q.Window == "" {
		q.Window = Hourly
	}
	sum := UsageSummary{Total: map[string]int64{}, Average: map[string]float64{}}
	with := map[string]int{}
	sums := map[string]float64{} // beyond int64, where Total stops
	for s, err := range l.Usage(ctx, q) {
		if err != nil {
			return UsageSummary{}, err
		}
		sum.Snapshots++
		for limit, n := range s.Counters {
			sum.Total[limit] = bucket.Add(sum.Total[limit], n)
			sums[limit] += float64(n)
			with[limit]++
		}
		if sum.First.IsZero() || s.Start.Before(sum.First) {
			sum.First = s.Start
		}
		if s.Start.After(sum.Last) {
			sum.Last = s.Start
		}
	}
	for limit, n := range sums {
		sum.Average[limit] = n / float64(with[limit])
	}
	return sum, nil
}
