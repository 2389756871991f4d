package jsonview

import (
	"cmp"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Position is a place in a list of usage, which is ordered by start, newest first,
// then by resource, entity and window. The zero value is the start of the list.
type Position struct {
	start                    time.Time
	resource, entity, window string
}

// PositionOf returns the position of a snapshot.
func PositionOf(s limiter.UsageSnapshot) Position {
	return Position{s.Start.UTC(), s.Resource, s.Entity, string(s.Window)}
}

// String returns the position in the form of --after. No name has a comma.
func (p Position) String() string {
	return strings.Join([]string{p.start.Format(time.RFC3339), p.resource, p.entity, p.window}, ",")
}

// ParsePosition parses the result of String.
func ParsePosition(text string) (Position, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 4 {
		return Position{}, errors.New("must be a position that an earlier list printed on stderr")
	}

	start, err := time.Parse(time.RFC3339, parts[0])
	if err != nil {
		return Position{}, errors.New("must start with a time, such as 2026-01-31T15:00:00Z")
	}

	return Position{start, parts[1], parts[2], parts[3]}, nil
}

// Until narrows a query to what follows the position, as far as the query can.
func (p Position) Until(q limiter.UsageQuery) limiter.UsageQuery {
	if !p.start.IsZero() && (q.To.IsZero() || p.start.Before(q.To)) {
		q.To = p.start
	}
	return q
}

// Skip drops the rows up to and including the position.
func (p Position) Skip(rows iter.Seq2[limiter.UsageSnapshot, error]) iter.Seq2[limiter.UsageSnapshot, error] {
	return func(yield func(limiter.UsageSnapshot, error) bool) {
		for s, err := range rows {
			// Other snapshots may have the same start, so that Until alone
			// cannot pass the position.
			if err == nil && !p.start.IsZero() && PositionOf(s).compare(p) <= 0 {
				continue
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func (p Position) compare(q Position) int {
	return cmp.Or(q.start.Compare(p.start), cmp.Compare(p.resource, q.resource), cmp.Compare(p.entity, q.entity),
		cmp.Compare(p.window, q.window))
}

// ParseTime parses a time in UTC, or a duration before now.
func ParseTime(now time.Time, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}

	// time.ParseDuration knows no days.
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.UTC().AddDate(0, 0, -int(n)), nil
		}
	}

	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.UTC().Add(-d), nil
	}

	return time.Time{}, errors.New(
		"must be a day such as 2026-01-31, a time such as 2026-01-31T15:00:00Z, or an age such as 24h or 7d",
	)
}
