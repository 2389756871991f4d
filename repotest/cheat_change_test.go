package repotest_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// changeCheats lists ways in which a store may break the promise when limits change, or
// when a bucket is left alone. Each returns the limits to fill.
var changeCheats = map[string]quotaCheat{
	"fill what changes": eachLimit(func(seen, is limiter.Limit, known bool, _ time.Duration) bool {
		return known && seen != is
	}),
	"fill what joins": eachLimit(func(_, _ limiter.Limit, known bool, _ time.Duration) bool { return !known }),
}

// fillIdle fills a bucket that was left alone for an hour.
var fillIdle = eachLimit(func(_, _ limiter.Limit, known bool, idle time.Duration) bool {
	return known && idle > time.Hour
})

// eachLimit returns a cheat that decides about each limit, by what it was when the
// bucket was charged before, and by the time since.
func eachLimit(cheats func(seen, is limiter.Limit, known bool, idle time.Duration) bool) quotaCheat {
	return func(seen, is limiter.Bucket) (names []string) {
		if seen.Account == nil {
			return nil
		}
		var idle time.Duration
		if seen.Detail != nil && is.Detail != nil {
			idle = time.UnixMilli(is.Detail.At).Sub(time.UnixMilli(seen.Detail.At))
		}
		for _, l := range is.Account.Limits {
			var before limiter.Limit
			for _, other := range seen.Account.Limits {
				if other.Name == l.Name {
					before = other
				}
			}
			if cheats(before, l, before.Name != "", idle) {
				names = append(names, l.Name)
			}
		}
		return names
	}
}

// TestComparisonFindsChangesThatCheat checks that Compare finds two stores that fill
// limits when they change.
func TestComparisonFindsChangesThatCheat(t *testing.T) {
	comparisonFinds(t, changeCheats)
}

// TestEnduranceFindsChangesThatCheat checks that Endure finds them, and a store that
// fills buckets which were left alone.
func TestEnduranceFindsChangesThatCheat(t *testing.T) {
	cheats := maps.Clone(changeCheats)
	cheats["fill what is idle"] = fillIdle
	enduranceFinds(t, 0, cheats)
}

// loser takes a token of each limit that has changed.
type loser struct{ *quotaCheater }

func (l *loser) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := l.Repository.Consume(ctx, now, charge)
	if err != nil || !out.Admitted || isTwin(charge.Entity) || charge.Limits != nil {
		return out, err
	}
	key := limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}
	for _, name := range changeCheats["fill what changes"](l.seen[key][0], out.Payers[0]) {
		_ = l.Credit(ctx, now, limiter.Credit{Account: out.Payers[0].Account, Amounts: limiter.Tokens(name, -1)})
	}
	l.seen[key] = [2]limiter.Bucket{out.Payers[0]}
	return out, err
}

func (l *loser) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return l.Repository.Peek(ctx, now, charge)
}

// TestComparisonFindsLostTokens checks that Compare finds two stores that lose tokens
// when limits change.
func TestComparisonFindsLostTokens(t *testing.T) {
	newLoser := func() limiter.Repository {
		return &loser{&quotaCheater{memory.New(nil), nil, map[limiter.Scope][2]limiter.Bucket{}}}
	}
	finds(t, "but the bucket holds at least", func(tb testing.TB, seed uint64) {
		tb.Helper()
		repotest.Compare(tb, seed, 2000, newLoser(), newLoser())
	})
}
