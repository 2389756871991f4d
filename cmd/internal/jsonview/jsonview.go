// Package jsonview reads from a limiter what the command line and the server show,
// and shapes it as JSON. The tags "json" and "doc" of a struct document its fields,
// and its method FieldDocs has the texts that are too long for tags.
package jsonview

import (
	"iter"
	"time"
)

// Texts about fields that several structs have.
const (
	sourceDoc = "level at which the limit is stored: entity, entity_default, resource or system; " +
		"override if a request or a program carried it"
	switchesDoc = "levels that are off and refuse its calls, each with level, entity_id, resource, reason and " +
		"since; absent if none is"
	limitsDoc = "limits, each with name, capacity, refill_amount, refill_period_seconds, and window, zone, " +
		"shadow and dollars if it has them"
)

// OrNull returns a pointer to v, or nil for its zero value.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// TimeOrNull returns a pointer to t in UTC, or nil for the zero time.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Seconds returns a duration in seconds, to the millisecond.
func Seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// First limits a sequence to n rows; 0 is no limit. If there are more rows, it
// calls more with the last row it yielded.
func First[T any](rows iter.Seq2[T, error], n int, more func(last T)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		given := 0
		var last T
		for v, err := range rows {
			// The row after the last one shows that there are more. An error in
			// its place goes to the caller.
			if n > 0 && given == n && err == nil {
				more(last)
				return
			}

			if !yield(v, err) {
				return
			}

			last = v
			given++
		}
	}
}
