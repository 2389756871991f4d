package manifest_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// traffic plays calls against a limiter with a clock of its own.
type traffic struct {
	t    *testing.T
	repo limiter.Repository
	lim  *limiter.RateLimiter
	now  time.Time
}

// midnight is the time at which most traffic begins.
var midnight = time.Date(2026, time.March, 14, 0, 0, 0, 0, time.UTC)

func newTraffic(t *testing.T, repo limiter.Repository, system ...limiter.Limit) *traffic {
	t.Helper()
	tr := &traffic{t: t, repo: repo, now: midnight}
	lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time { return tr.now }})
	check(t, err)
	tr.lim = lim
	check(t, lim.SetSystemDefaults(bg, system...))
	return tr
}

// loose admits every call of the tests.
func loose(names ...string) (all []limiter.Limit) {
	for _, name := range names {
		all = append(all, limiter.PerDay(name, 1_000_000_000_000))
	}
	return all
}

// call takes amounts at a time, and returns the lease.
func (tr *traffic) call(at time.Duration, entity, resource string, amounts limiter.Amounts) *limiter.Lease {
	tr.t.Helper()
	tr.now = midnight.Add(at)
	lease, err := tr.lim.Acquire(bg, limiter.Request{Entity: entity, Resource: resource, Consume: amounts})
	check(tr.t, err)
	return lease
}

// use takes amounts at a time and commits.
func (tr *traffic) use(at time.Duration, entity, resource string, amounts limiter.Amounts) {
	tr.t.Helper()
	check(tr.t, tr.call(at, entity, resource, amounts).Commit(bg))
}

// whatIf reports on limits of a level, at a time after midnight.
func (tr *traffic) whatIf(at time.Duration, level limiter.Config, opts manifest.WhatIfOptions) *manifest.WhatIfReport {
	tr.t.Helper()
	opts.Now = func() time.Time { return midnight.Add(at) }
	report, err := manifest.WhatIfLimits(bg, tr.repo, level, &opts)
	check(tr.t, err)
	return report
}

func levelOf(entity, resource string, limits ...limiter.Limit) limiter.Config {
	return limiter.Config{Scope: limiter.Scope{Entity: entity, Resource: resource}, Limits: limits}
}

func TestWhatIfByHand(t *testing.T) {
	const hour, late = time.Hour, 48 * time.Hour
	type use struct {
		at time.Duration
		n  int64
	}
	hundred := limiter.PerHour("tph", 100)
	for name, tc := range map[string]struct {
		limit     limiter.Limit
		uses      []use
		now       time.Duration
		hours     int
		over      int64
		worst     time.Duration
		worstOver int64
	}{
		"a full bucket and the refill of the hour": {limit: hundred, uses: []use{{10 * time.Minute, 199}}, now: late},
		"a token more than that": {
			limit: hundred, uses: []use{{10 * time.Minute, 200}}, now: late, hours: 1, over: 1, worstOver: 1,
		},
		"the hour after it refills": {limit: hundred, uses: []use{{0, 199}, {hour, 100}}, now: late},
		"and no more": {
			limit: hundred, uses: []use{{0, 199}, {hour, 101}}, now: late, hours: 1, over: 1, worst: hour,
			worstOver: 1,
		},
		"a day fills it": {limit: hundred, uses: []use{{0, 199}, {24 * hour, 199}}, now: late},
		"a day fills it once": {
			limit: hundred, uses: []use{{0, 199}, {24 * hour, 250}}, now: late, hours: 1, over: 51,
			worst: 24 * hour, worstOver: 51,
		},
		"the edge of an hour": {
			limit: hundred, uses: []use{{hour - time.Millisecond, 199}, {hour, 100}}, now: late,
		},
		"each hour counts at most once": {
			limit: hundred, uses: []use{{0, 300}, {hour, 300}, {2 * hour, 150}}, now: late, hours: 2,
			over: 101 + 200 + 50, worst: hour, worstOver: 200,
		},
		"a burst above the refill": {
			limit: hundred.WithBurst(1000), uses: []use{{0, 1000}, {hour, 100}, {2 * hour, 100}}, now: late,
		},
		"a burst above the refill, exceeded": {
			// some of a token in the hour before
			limit: hundred.WithBurst(1000), uses: []use{{0, 1000}, {hour, 200}, {2 * hour, 150}}, now: late,
			hours: 1, over: 51, worst: 2 * hour, worstOver: 50,
		},
		"a part of an hour refills a part": {
			limit: hundred, uses: []use{{24*hour + 10*time.Minute, 126}}, now: 24*hour + 15*time.Minute,
			hours: 1, over: 1, worst: 24 * hour, worstOver: 1,
		},
		"and admits it": {limit: hundred, uses: []use{{24*hour + 10*time.Minute, 125}}, now: 24*hour + 15*time.Minute},
		"minutes": {
			limit: limiter.PerMinute("tph", 10), uses: []use{{0, 700}, {hour, 100}}, now: late, hours: 1,
			over: 91, worstOver: 91,
		},
		"rounded up": {
			limit: limiter.Custom("tph", 1, 1, 7*hour), uses: []use{{0, 1}, {3 * hour, 1}}, now: late, hours: 1,
			over: 1, worst: 3 * hour, worstOver: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTraffic(t, memory.New(nil), loose("tph")...)
			var used int64
			hours := map[time.Duration]bool{}
			for _, u := range tc.uses {
				tr.use(u.at, "alice", "gpt-4", limiter.Tokens("tph", u.n))
				used += u.n
				hours[u.at.Truncate(time.Hour)] = true
			}
			report := tr.whatIf(tc.now, levelOf("", "gpt-4", tc.limit), manifest.WhatIfOptions{All: true})
			equal(t, "rows", len(report.Rows), 1)
			row := report.Rows[0]
			equal(t, "used", row.Used, used)
			equal(t, "hours used", row.HoursUsed, len(hours))
			equal(t, "over", row.Over, tc.over)
			equal(t, "hours over", row.HoursOver, tc.hours)
			equal(t, "worst over", row.WorstOver, tc.worstOver)
			equal(t, "proposed", *row.Proposed, tc.limit)
			equal(t, "over now", row.OverNow, int64(0))
			if tc.over == 0 {
				equal(t, "worst", row.Worst, (*time.Time)(nil))
				return
			}
			equal(t, "worst", *row.Worst, midnight.Add(tc.worst))
			if row.First.After(*row.Worst) || row.Last.Before(*row.Worst) {
				t.Errorf("the worst hour %v is not between %v and %v", row.Worst, row.First, row.Last)
			}
		})
	}
}

// Tokens given back in a later hour fill the bucket again, up to its capacity.
func TestWhatIfOfGiveBacks(t *testing.T) {
	tr := newTraffic(t, memory.New(nil), loose("tph")...)
	early := tr.call(0, "alice", "gpt-4", limiter.Tokens("tph", 199))
	tr.now = midnight.Add(time.Hour)
	check(t, early.Release(limiter.Tokens("tph", 150)))
	check(t, early.Commit(bg))
	tr.use(2*time.Hour, "alice", "gpt-4", limiter.Tokens("tph", 250))
	report := tr.whatIf(24*time.Hour, levelOf("alice", "", limiter.PerHour("tph", 100)), manifest.WhatIfOptions{})
	equal(t, "rows", len(report.Rows), 1)
	equal(t, "over", report.Rows[0].Over, int64(51)) // 100, and the refill of the hour but its last millisecond
	equal(t, "used", report.Rows[0].Used, int64(299))
	equal(t, "hours used", report.Rows[0].HoursUsed, 2)
}

// Late corrections go into debt, which is no refusal. A limit that is no tighter
// is no bad news.
func TestWhatIfOfDebt(t *testing.T) {
	now := limiter.PerMinute("tpm", 100)
	tr := newTraffic(t, memory.New(nil), now)
	lease := tr.call(0, "alice", "gpt-4", limiter.Tokens("tpm", 1))
	check(t, lease.Adjust(limiter.Tokens("tpm", 50_000)))
	check(t, lease.Commit(bg))
	for tpm, worse := range map[int64]bool{99: true, 101: false, 1000: false} {
		report := tr.whatIf(24*time.Hour, levelOf("", "gpt-4", limiter.PerMinute("tpm", tpm)),
			manifest.WhatIfOptions{All: true})
		equal(t, "worse", report.Rows[0].Worse(), worse)
		equal(t, "entities over", report.EntitiesOver, map[bool]int{true: 1}[worse])
	}
}

func TestWhatIfFollowsPrecedence(t *testing.T) {
	tr := newTraffic(t, memory.New(nil), loose("rpm")...)
	tight := limiter.PerHour("rpm", 1)
	check(t, tr.lim.SetLimits(bg, "own", "gpt-4", loose("rpm")[0]))
	check(t, tr.lim.SetLimits(bg, "own-default", "", loose("rpm")[0]))
	check(t, tr.lim.SetLimits(bg, "tight", "gpt-4", tight))
	check(t, tr.lim.SetResourceDefaults(bg, "claude", loose("rpm")[0]))
	for _, entity := range []string{"own", "own-default", "plain", "tight"} {
		n := int64(10)
		if entity == "tight" {
			n = 1
		}
		tr.use(time.Hour, entity, "gpt-4", limiter.Tokens("rpm", n))
		if entity != "tight" {
			tr.use(time.Hour, entity, "claude", limiter.Tokens("rpm", 10))
		}
	}
	for name, tc := range map[string]struct {
		level    limiter.Config
		opts     manifest.WhatIfOptions
		want     []string
		entities int
	}{
		"the system": {level: levelOf("", "", tight), want: []string{"plain/gpt-4"}, entities: 1},
		"a resource": {level: levelOf("", "gpt-4", tight), want: []string{"plain/gpt-4"}, entities: 1},
		"another": {
			level: levelOf("", "claude", tight), want: []string{"own/claude", "plain/claude"}, entities: 2,
		},
		"one entity of": {
			level: levelOf("", "claude", tight), opts: manifest.WhatIfOptions{Entity: "own"},
			want: []string{"own/claude"}, entities: 1,
		},
		"an entity": {
			level: levelOf("plain", "", tight), want: []string{"plain/claude", "plain/gpt-4"}, entities: 1,
		},
		"one resource of": {
			level: levelOf("plain", "", tight), opts: manifest.WhatIfOptions{Resource: "claude"},
			want: []string{"plain/claude"}, entities: 1,
		},
		"both":          {level: levelOf("own", "gpt-4", tight), want: []string{"own/gpt-4"}, entities: 1},
		"nothing of it": {level: levelOf("own", "gpt-4", tight), opts: manifest.WhatIfOptions{Resource: "claude"}},
		"a deletion":    {level: levelOf("tight", "gpt-4"), entities: 1},
		"no change":     {level: levelOf("tight", "gpt-4", tight)},
	} {
		t.Run(name, func(t *testing.T) {
			report := tr.whatIf(24*time.Hour, tc.level, tc.opts)
			var got []string
			for _, row := range report.Rows {
				got = append(got, row.Entity+"/"+row.Resource)
			}
			equal(t, "rows", got, tc.want)
			equal(t, "entities", report.Entities, tc.entities)
		})
	}
}

// Limits on requests count calls, and so do limits that every change took one token
// from.
func TestWhatIfCountsCalls(t *testing.T) {
	tr := newTraffic(t, memory.New(nil), loose("jobs", "rpm", "rps", "tokens")...)
	for range 5 {
		lease := tr.call(0, "alice", "gpt-4", limiter.Tokens("rpm", 1).And("rps", 3))
		check(t, lease.Adjust(limiter.Tokens("tokens", 7))) // another change
		check(t, lease.Commit(bg))
		tr.use(0, "alice", "images", limiter.Tokens("jobs", 1))
	}
	tight := []limiter.Limit{
		limiter.PerDay("jobs", 1), limiter.PerDay("rpm", 2), limiter.PerDay("rps", 1),
		limiter.PerDay("tokens", 1),
	}
	calls := map[string]int64{}
	for _, row := range tr.whatIf(24*time.Hour, levelOf("alice", "", tight...), manifest.WhatIfOptions{}).Rows {
		if calls[row.Limit] = -1; row.CallsOver != nil {
			calls[row.Limit] = *row.CallsOver
		}
	}
	equal(t, "calls", calls, map[string]int64{"jobs": 4, "rpm": 3, "rps": -1, "tokens": -1})
}

// A manifest also deletes the managed levels that it no longer declares.
func TestWhatIfOfManifest(t *testing.T) {
	tr := newTraffic(t, memory.New(nil), limiter.PerHour("rpm", 1))
	_, _, err := manifest.Apply(bg, tr.repo,
		parse(t, "{resources: {gpt-4: {limits: {rpm: 1000/hour}}, claude: {limits: {rpm: 1000/hour, tpm: 9}}}}"),
		nil)
	check(t, err)
	tr.use(0, "alice", "gpt-4", limiter.Tokens("rpm", 100))
	tr.use(0, "alice", "claude", limiter.Tokens("rpm", 100).And("tpm", 5))
	tr.use(0, "bob", "claude", limiter.Tokens("rpm", 3))
	report, err := manifest.WhatIf(bg, tr.repo, parse(t, "{resources: {claude: {limits: {rpm: 50/hour, new: 5}}}}"),
		&manifest.WhatIfOptions{
			Now: func() time.Time { return midnight.Add(time.Hour) },
		})
	check(t, err)
	type row struct {
		entity, resource, limit string
		over                    int64
		removed                 bool
	}
	var got []row
	for _, r := range report.Rows {
		got = append(got, row{r.Entity, r.Resource, r.Limit, r.Over, r.Removed()})
	}
	want := []row{
		{"alice", "claude", "tpm", 0, true},
		{"alice", "gpt-4", "rpm", 99, false},
		{"alice", "claude", "rpm", 1, false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows are %v, want %v", got, want)
	}
	equal(t, "unseen", report.Unseen, []string{"new"})
	equal(t, "entities", [2]int{report.Entities, report.EntitiesOver}, [2]int{2, 1})
}

func TestWhatIfStopsReading(t *testing.T) {
	tr := newTraffic(t, memory.New(nil), loose("rpm")...)
	for h := range 50 {
		for _, resource := range []string{"a", "b"} {
			tr.use(time.Duration(h)*time.Hour, "alice", resource, limiter.Tokens("rpm", 10))
		}
	}
	for maximum, complete := range map[int]bool{99: false, 100: true, 40: false} {
		report := tr.whatIf(50*time.Hour, levelOf("", "", limiter.PerHour("rpm", 1)),
			manifest.WhatIfOptions{MaxSnapshots: maximum})
		equal(t, "complete", report.Complete, complete)
		equal(t, "snapshots", report.Snapshots, maximum)
		equal(t, "last", *report.Last, midnight.Add(49*time.Hour))
		equal(t, "rows", len(report.Rows), 2)
		for _, row := range report.Rows {
			equal(t, "hours", row.HoursOver, row.HoursUsed)
			if n := row.HoursUsed - maximum/2; n < 0 || n > 1 {
				t.Errorf("%d of %d snapshots are of %s", row.HoursUsed, maximum, row.Resource)
			}
		}
	}
	report := tr.whatIf(50*time.Hour, levelOf("", "", limiter.PerHour("rpm", 1)), manifest.WhatIfOptions{Days: 1})
	equal(t, "first", *report.First, midnight.Add(26*time.Hour))
	equal(t, "from", report.From, midnight.Add(26*time.Hour))
}

func TestWhatIfRefusesNonsense(t *testing.T) {
	repo := memory.New(nil)
	for name, call := range map[string]func() error{
		"days": func() error {
			_, err := manifest.WhatIfLimits(bg, repo, limiter.Config{}, &manifest.WhatIfOptions{Days: 1000})
			return err
		},
		"minus": func() error {
			_, err := manifest.WhatIf(bg, repo, &manifest.Manifest{}, &manifest.WhatIfOptions{Days: -1})
			return err
		},
		"entity": func() error {
			_, err := manifest.WhatIf(bg, repo, &manifest.Manifest{}, &manifest.WhatIfOptions{Entity: "a#b"})
			return err
		},
		"limit": func() error {
			_, err := manifest.WhatIfLimits(bg, repo, levelOf("", "", limiter.Limit{Name: "rpm"}), nil)
			return err
		},
		"twice": func() error {
			_, err := manifest.WhatIfLimits(bg, repo,
				levelOf("", "", limiter.PerHour("a", 1), limiter.PerHour("a", 2)), nil)
			return err
		},
	} {
		if err := call(); !isInvalid(err) {
			t.Errorf("%s: error is %v, want an InvalidError", name, err)
		}
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*limiter.InvalidError](err)
	return ok
}

// A shadow limit refuses nothing, so that nothing is over it, now and then.
func TestWhatIfOfAShadowLimit(t *testing.T) {
	quota := limiter.Quota("tpm", 100, limiter.EveryDay)
	tr := newTraffic(t, memory.New(nil), quota.Shadow())
	tr.now = midnight
	for range 3 {
		_, err := tr.lim.Acquire(bg, limiter.Request{
			Entity: "key", Resource: "gpt-4", Consume: limiter.Tokens("tpm", 60),
		})
		check(t, err)
	}
	for _, c := range []struct {
		proposed  limiter.Limit
		over, now int64
		entities  int
	}{{quota, 80, 0, 1}, {limiter.Quota("tpm", 50, limiter.EveryDay).Shadow(), 0, 0, 0}} {
		report := tr.whatIf(time.Hour, levelOf("", "gpt-4", c.proposed), manifest.WhatIfOptions{All: true})
		if len(report.Rows) != 1 || report.Rows[0].Over != c.over || report.Rows[0].OverNow != c.now ||
			report.EntitiesOver != c.entities {
			t.Errorf("%v: %+v, and %d entities over", c.proposed, report.Rows, report.EntitiesOver)
		}
	}
}
