package manifest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// plannedCall is a call of random traffic: what it takes at first, and what it
// takes or gives back later.
type plannedCall struct {
	at, settled time.Duration
	entity      string
	first, more limiter.Amounts
}

// oracleLimits are the names of the limits of random traffic.
var oracleLimits = []string{"rpm", "tpm"}

// randomTraffic returns calls by two children of a parent and by the parent. Late
// debits are part of it only if debt is set.
func randomTraffic(rng *rand.Rand, debt bool) (calls []plannedCall) {
	hours := 1 + rng.IntN(60)
	size := 1 + rng.Int64N(200)
	for range 1 + rng.IntN(200) {
		at := time.Duration(rng.Int64N(int64(hours) * int64(time.Hour))).Truncate(time.Millisecond)
		switch rng.IntN(4) {
		case 0: // at the edge of an hour
			at = at.Truncate(time.Hour) + time.Duration(rng.IntN(3)-1)*time.Millisecond
		case 1: // after a long gap
			at += time.Duration(rng.IntN(2)) * 30 * 24 * time.Hour
		}
		c := plannedCall{at: max(at, 0), entity: []string{"child-1", "child-2", "parent"}[rng.IntN(3)]}
		c.settled = c.at + []time.Duration{0, time.Second, time.Minute, 90 * time.Minute}[rng.IntN(4)]
		tokens := rng.Int64N(size)
		c.first = limiter.Tokens("rpm", 1).And("tpm", tokens)
		switch rng.IntN(3) {
		case 0:
			c.more = limiter.Tokens("tpm", -rng.Int64N(tokens+1))
		case 1:
			if debt {
				c.more = limiter.Tokens("tpm", rng.Int64N(3*size))
			}
		}
		calls = append(calls, c)
	}
	return calls
}

// randomLimits returns limits for the random traffic, from tight to loose. Some are
// quotas, in zones whose days begin within an hour of UTC as well.
func randomLimits(rng *rand.Rand) (all []limiter.Limit) {
	for _, name := range oracleLimits {
		if rng.IntN(3) == 0 {
			all = append(all, randomQuota(rng, name))
			continue
		}
		period := []time.Duration{
			time.Second, time.Minute, time.Hour, 7 * time.Hour, 24 * time.Hour, 1000 * time.Hour,
		}[rng.IntN(6)]
		refill := 1 + rng.Int64N(int64(1)<<rng.IntN(14))
		all = append(all, limiter.Custom(name, 1+rng.Int64N(int64(1)<<rng.IntN(14)), refill, period))
	}
	return all
}

func randomQuota(rng *rand.Rand, name string) limiter.Limit {
	every := []limiter.Calendar{limiter.EveryHour, limiter.EveryDay, limiter.EveryWeek, limiter.EveryMonth}[rng.IntN(4)]
	quota := limiter.Quota(name, 1+rng.Int64N(int64(1)<<rng.IntN(14)), every)
	if every == limiter.EveryHour {
		return quota
	}
	return quota.In([]string{"UTC", "Asia/Kolkata", "America/New_York"}[rng.IntN(3)])
}

// verdict is what an entity and a limit met in a run.
type verdict struct {
	refused int64          // tokens that refused calls took, or would have taken
	debt    int64          // tokens charged below zero
	hours   map[int64]bool // with refused calls, or with their late debits
}

// step is a moment of a run: the begin of a call, or its end.
type step struct {
	at    time.Duration
	call  int
	begin bool
}

func steps(calls []plannedCall) (all []step) {
	for i, c := range calls {
		all = append(all, step{c.at, i, true}, step{c.settled, i, false})
	}
	slices.SortStableFunc(all, func(a, b step) int { return int(a.at - b.at) })
	return all
}

// play makes the calls under limits of the system, and returns what entities met.
func play(t *testing.T, calls []plannedCall, limits ...limiter.Limit) (*traffic, map[[2]string]*verdict) {
	t.Helper()
	tr := newTraffic(t, memory.New(nil), limits...)
	for _, e := range []limiter.Entity{{ID: "parent"}, {ID: "child-1", Parent: "parent", Cascade: true}, {
		ID: "child-2", Parent: "parent", Cascade: true,
	}} {
		_, err := tr.lim.CreateEntity(bg, e)
		check(t, err)
	}
	met := map[[2]string]*verdict{}
	for _, entity := range []string{"parent", "child-1", "child-2"} {
		for _, limit := range oracleLimits {
			met[[2]string{entity, limit}] = &verdict{hours: map[int64]bool{}}
		}
	}
	leases := make([]*limiter.Lease, len(calls))
	for _, s := range steps(calls) {
		c := calls[s.call]
		tr.now = midnight.Add(s.at)
		payers := []string{c.entity}
		if c.entity != "parent" {
			payers = append(payers, "parent")
		}
		if s.begin {
			lease, err := tr.lim.Acquire(bg, limiter.Request{Entity: c.entity, Resource: "gpt-4", Consume: c.first})
			if _, refused := errors.AsType[*limiter.ExceededError](err); refused {
				for _, payer := range payers {
					for _, limit := range oracleLimits {
						v := met[[2]string{payer, limit}]
						v.refused += c.first.Get(limit) + max(c.more.Get(limit), 0)
						v.hours[int64(s.at/time.Hour)] = true
						if c.more.Get(limit) > 0 {
							v.hours[int64(c.settled/time.Hour)] = true
						}
					}
				}
				continue
			}
			check(t, err)
			leases[s.call] = lease
			continue
		}
		if leases[s.call] == nil {
			continue
		}
		if late := c.more.Get("tpm"); late > 0 {
			for _, payer := range payers {
				met[[2]string{payer, "tpm"}].debt += max(0, late-max(0, tr.available(payer, "tpm", limits[1].Capacity)))
			}
		}
		if c.more.Len() > 0 {
			check(t, leases[s.call].Adjust(c.more))
		}
		check(t, leases[s.call].Commit(bg))
	}
	return tr, met
}

// available returns the whole tokens that a bucket holds. If there is none, it
// would start full.
func (tr *traffic) available(entity, limit string, full int64) int64 {
	tr.t.Helper()
	all, err := tr.lim.Status(bg, entity)
	check(tr.t, err)
	for _, s := range all {
		if s.Limit.Name == limit {
			return s.Available
		}
	}
	return full // the bucket has expired
}

// replayAll returns the rows of all entities for other limits of the resource.
func (tr *traffic) replayAll(limits []limiter.Limit) map[[2]string]manifest.WhatIfRow {
	tr.t.Helper()
	report := tr.whatIf(40*24*time.Hour, levelOf("", "gpt-4", limits...), manifest.WhatIfOptions{Days: 60, All: true})
	rows := map[[2]string]manifest.WhatIfRow{}
	for _, row := range report.Rows {
		rows[[2]string{row.Entity, row.Limit}] = row
	}
	return rows
}

const oracleRuns = 30

// A limiter with the proposed limits refuses at least as much as the bound that
// the usage under loose limits gives.
func TestWhatIfIsALowerBound(t *testing.T) {
	over, sharp := 0, 0
	for seed := range uint64(oracleRuns) {
		rng := rand.New(rand.NewPCG(seed, 19))
		calls := randomTraffic(rng, seed%2 == 0)
		proposed := randomLimits(rng)
		free, _ := play(t, calls, loose(oracleLimits...)...)
		_, met := play(t, calls, proposed...)
		for key, row := range free.replayAll(proposed) {
			v := met[key]
			if row.Over > v.refused+v.debt {
				t.Errorf("seed %d: %v under %v: %d tokens are over, but %d were refused and %d charged late", seed,
					key, *row.Proposed, row.Over, v.refused, v.debt)
			}
			if v.debt == 0 && row.HoursOver > len(v.hours) {
				t.Errorf("seed %d: %v under %v: %d hours are over, but %d had refusals", seed, key, *row.Proposed,
					row.HoursOver, len(v.hours))
			}
			if row.Over > 0 {
				over++
			}
			if row.Over > v.refused/2 && row.Over > 0 {
				sharp++
			}
		}
	}
	if t.Logf(
		"%d rows are over, %d by more than half of what was refused", over, sharp,
	); over < oracleRuns/4 || sharp < oracleRuns/20 {
		t.Errorf("only %d rows are over, and %d by much: the traffic tests nothing", over, sharp)
	}
}

// Usage never exceeds the limits that admitted it, nor looser ones, unless late
// corrections went into debt; and then a looser limit is no worse.
func TestWhatIfRaisesNoFalseAlarm(t *testing.T) {
	for seed := range uint64(oracleRuns) {
		rng := rand.New(rand.NewPCG(seed, 20))
		calls := randomTraffic(rng, seed%2 == 0)
		limits := randomLimits(rng)
		tr, met := play(t, calls, limits...)
		looser := slices.Clone(limits)
		for i := range looser {
			looser[i].Capacity += rng.Int64N(3) * rng.Int64N(100)
			if more := rng.Int64N(2) * rng.Int64N(100); !looser[i].IsQuota() {
				looser[i].Refill += more
			}
		}
		check(t, tr.lim.SetSystemDefaults(bg, loose(oracleLimits...)...))
		same, more := tr.replayAll(limits), tr.replayAll(looser)
		for key, row := range same {
			if row.Over > met[key].debt {
				t.Errorf("seed %d: %v: %d tokens are over %v, which admitted them, with %d charged late", seed, key,
					row.Over, *row.Proposed, met[key].debt)
			}
			if more[key].Over > row.Over || more[key].HoursOver > row.HoursOver {
				t.Errorf("seed %d: %v: more is over %v than over %v", seed, key, *more[key].Proposed, *row.Proposed)
			}
		}
		check(t, tr.lim.SetSystemDefaults(bg, limits...))
		report := tr.whatIf(40*24*time.Hour, levelOf("", "gpt-4", looser...),
			manifest.WhatIfOptions{Days: 60, All: true})
		if report.EntitiesOver > 0 {
			t.Errorf("seed %d: %d entities are worse with %v than with %v", seed, report.EntitiesOver, looser, limits)
		}
	}
}

// The hour that has not ended refills its elapsed part.
func TestWhatIfWithinAnHour(t *testing.T) {
	for seed := range uint64(oracleRuns / 4) {
		rng := rand.New(rand.NewPCG(seed, 21))
		limits := []limiter.Limit{limiter.PerMinute("rpm", 1+rng.Int64N(5))}
		tr := newTraffic(t, memory.New(nil), limits...)
		end := time.Duration(1 + rng.Int64N(int64(2*time.Hour))).Truncate(time.Millisecond)
		var admitted int64
		for at := time.Duration(0); at <= end; at += time.Duration(1+rng.IntN(20_000)) * time.Millisecond {
			tr.now = midnight.Add(at)
			if _, err := tr.lim.Acquire(bg, limiter.Request{
				Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
			}); err == nil {
				admitted++
			}
		}
		check(t, tr.lim.SetSystemDefaults(bg, loose("rpm")...))
		report := tr.whatIf(end, levelOf("", "gpt-4", limits...), manifest.WhatIfOptions{All: true})
		if row := report.Rows[0]; row.Over != 0 || row.Used != admitted {
			t.Errorf("seed %d: %s: %d of %d tokens are over the limit that admitted %d", seed, fmt.Sprint(limits),
				row.Over, row.Used, admitted)
		}
	}
}
