package limiter

import (
	"context"
	"iter"
	"time"
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
	Entity, Resource string    // "" for all
	Window           Window    // "" for all
	From, To         time.Time // bounds of Start, inclusive; zero is open
}

// Validate is nil or an *[InvalidError].
func (q UsageQuery) Validate() error {
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

// Usage iterates over the snapshots of a query, newest first. A query that names
// neither an entity nor a resource selects all usage of the namespace. On DynamoDB
// that reads the keys of every item of its entities, and fails with an
// *[InvalidError] where there are more than 100,000 snapshots to choose from.
func (l *RateLimiter) Usage(ctx context.Context, q UsageQuery) iter.Seq2[UsageSnapshot, error] {
	if err := q.Validate(); err != nil {
		return failed[UsageSnapshot](err)
	}
	return mapped(ctx, "usage", q.Entity, q.Resource, l.repo.Usage(ctx, q))
}
