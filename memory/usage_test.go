package memory

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// plain is the model of a series: one snapshot for each window.
type plain []limiter.UsageSnapshot

func (p *plain) book(account *limiter.Account, u rules.Usage) {
	for _, part := range rules.Snapshots(account, u) {
		at := slices.IndexFunc(*p, func(s limiter.UsageSnapshot) bool {
			return s.Window == part.Window && s.Start.Equal(part.Start)
		})
		if at < 0 {
			*p = append(*p, part)
			continue
		}
		have := &(*p)[at]
		have.Events += part.Events
		for limit, n := range part.Counters {
			if have.Counters[limit] += n; have.Counters[limit] == 0 {
				delete(have.Counters, limit)
			}
		}
	}
}

func (p *plain) sweep(now time.Time, retention time.Duration) {
	*p = slices.DeleteFunc(*p, func(s limiter.UsageSnapshot) bool { return !s.End.Add(retention).After(now) })
}

// TestSeriesMatchesSnapshots compares sums of hours with windows that are counted
// one by one, for random usage, limits and retentions.
func TestSeriesMatchesSnapshots(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			retention := time.Duration(rng.Int64N(int64(100 * 24 * time.Hour)))
			s, want := &shard{retention: retention}, plain{}
			s.seed = maphash.MakeSeed()
			now := time.Date(1969, 12, 1, 0, 0, 0, 0, time.UTC)
			limits := []limiter.Limit{limiter.PerMinute("a", 1), limiter.PerMinute("b", 1), limiter.PerMinute("c", 1)}
			for range 300 {
				now = now.Add(time.Duration(rng.Int64N(int64(12 * time.Hour))))
				first := rng.IntN(3)
				account := &limiter.Account{
					Entity: "alice", Resource: "gpt-4", Limits: limits[first : first+1+rng.IntN(3-first)],
				}
				u := rules.Usage{Hour: now.Truncate(time.Hour).UnixMilli(), Events: 1 + rng.Int64N(3)}
				for range account.Limits {
					u.Used = append(u.Used, rng.Int64N(7)-3)
				}
				if err := s.book(account, u); err != nil {
					t.Fatal(err)
				}
				want.book(account, u)
				if rng.IntN(20) > 0 {
					continue
				}
				s.usage.prune(0, func(u *series) bool { return u.rollUp(now.UnixMilli(), retention) })
				s.usage.fit()
				want.sweep(now, retention)
				got := s.snapshots(limiter.UsageQuery{Entity: "alice"})
				slices.SortFunc(got, rules.NewestFirst)
				slices.SortFunc(want, rules.NewestFirst)
				if diff := cmp.Diff([]limiter.UsageSnapshot(want), got); diff != "" {
					t.Fatalf("at %v with a retention of %v (-want +got):\n%s", now, retention, diff)
				}
			}
		})
	}
}
