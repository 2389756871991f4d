package jsonview

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// A list read in pages of any size has every row once.
func TestUsagePagesMissNothing(t *testing.T) {
	var all []limiter.UsageSnapshot
	for hour := 3; hour > 0; hour-- {
		for _, resource := range []string{"claude", "gpt-4"} {
			for _, entity := range []string{"a", "b"} {
				start := time.Date(2026, time.January, 31, hour, 0, 0, 0, time.UTC)
				all = append(all, limiter.UsageSnapshot{
					Entity: entity, Resource: resource, Window: limiter.Hourly, Start: start,
				})
			}
		}
	}
	for size := 1; size <= len(all); size++ {
		var read []limiter.UsageSnapshot
		var after Position
		for range len(all) + 1 {
			more := false
			q := after.Until(limiter.UsageQuery{})
			matching := slices.DeleteFunc(slices.Clone(all), func(s limiter.UsageSnapshot) bool { return !q.Match(s) })
			rows := First(after.Skip(each(matching)), size, func(last limiter.UsageSnapshot) {
				more = true
				var err error
				if after, err = ParsePosition(PositionOf(last).String()); err != nil {
					t.Fatal(err)
				}
			})
			for row, err := range rows {
				if err != nil {
					t.Fatal(err)
				}
				read = append(read, row)
			}
			if !more {
				break
			}
		}
		if diff := cmp.Diff(all, read); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", size, diff)
		}
	}
}

// each returns a sequence of values without errors.
func each[T any](values []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-01-31": "2026-01-31T00:00:00Z", "2026-01-31T15:04": "2026-01-31T15:04:00Z",
		"2026-01-31T15:04:05":       "2026-01-31T15:04:05Z",
		"2026-01-31T15:04:05+02:00": "2026-01-31T13:04:05Z", "90m": "2026-03-01T11:00:00Z",
		"1d": "2026-02-28T12:30:00Z", "0h": "2026-03-01T12:30:00Z",
	} {
		if got, err := ParseTime(now, text); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "2026-13-01", "-1h", "-1d", "1w", "d", "99999999d"} {
		if got, err := ParseTime(now, text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
