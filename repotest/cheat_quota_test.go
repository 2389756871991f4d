package repotest_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests use zones on every machine

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// quotaCheat returns the limits to fill before a charge, where seen is the bucket as
// the charge before saw it. It is zero at first.
type quotaCheat func(seen, is limiter.Bucket) []string

// quotaCheats lists ways in which a store may break the promise of a quota.
var quotaCheats = map[string]quotaCheat{
	"step twice": eachQuota(func(_ limiter.Limit, before, begin, _, _ int64) bool {
		return before < begin
	}),
	"forget the window if a clock is behind": eachQuota(func(_ limiter.Limit, _, begin, _, now int64) bool {
		return now < begin
	}),
	"mint at midnight of UTC, whatever the zone": eachQuota(func(l limiter.Limit, _, _, seen, now int64) bool {
		return l.Zone != "" && utcDay(seen) < utcDay(now)
	}),
	"mint when the clocks of Berlin change": eachQuota(func(l limiter.Limit, _, _, seen, now int64) bool {
		return l.Zone == "Europe/Berlin" && berlinOffset(seen) != berlinOffset(now)
	}),
}

func utcDay(ms int64) int64 { return ms / (24 * time.Hour).Milliseconds() }

func berlinOffset(ms int64) int {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	_, offset := time.UnixMilli(ms).In(berlin).Zone()
	return offset
}

// eachQuota returns a cheat that decides about each quota, by the windows and the
// times of the charge before and of this one.
func eachQuota(cheats func(l limiter.Limit, before, begin, seen, now int64) bool) quotaCheat {
	return func(seen, is limiter.Bucket) (names []string) {
		if seen.Detail == nil || is.Detail == nil || len(seen.Detail.Starts) != len(is.Detail.Starts) {
			return nil
		}
		for i, l := range is.Account.Limits {
			if l.IsQuota() && cheats(l, seen.Detail.Starts[i], is.Detail.Starts[i], seen.Detail.At, is.Detail.At) {
				names = append(names, l.Name)
			}
		}
		return names
	}
}

// quotaCheater fills quotas when it should not.
type quotaCheater struct {
	limiter.Repository
	cheat quotaCheat
	seen  map[limiter.Scope][2]limiter.Bucket // the last two charges of each bucket
}

func newQuotaCheater(cheat quotaCheat) *quotaCheater {
	return &quotaCheater{memory.New(nil), cheat, map[limiter.Scope][2]limiter.Bucket{}}
}

// try fills the quotas of a bucket if the cheat says so.
func (c *quotaCheater) try(ctx context.Context, now time.Time, charge limiter.Charge) {
	if isTwin(charge.Entity) || charge.Limits != nil {
		return
	}
	key := limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}
	out, err := c.Repository.Peek(ctx, now, limiter.Charge{
		Entity: charge.Entity, Resource: charge.Resource, Defaults: charge.Defaults,
	})
	if err != nil {
		return
	}
	last := c.seen[key]
	names := c.cheat(last[0], out.Payers[0]) // the last charge but one, so that a step comes before
	if len(names) > 0 {
		_, _ = c.Fill(ctx, now,
			limiter.Fill{Entity: charge.Entity, Resource: charge.Resource, Limits: names, Defaults: charge.Defaults},
			limiter.AuditEvent{Entity: "cheat"})
	}
	c.seen[key] = [2]limiter.Bucket{last[1], out.Payers[0]}
}

func (c *quotaCheater) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	c.try(ctx, now, charge)
	return c.Repository.Consume(ctx, now, charge)
}

func (c *quotaCheater) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	c.try(ctx, now, charge)
	return c.Repository.Peek(ctx, now, charge)
}

// histories is how many histories may pass before a cheat is found.
const histories = 30

// TestComparisonFindsQuotasThatCheat checks that Compare finds two stores that fill
// quotas at the same wrong times.
func TestComparisonFindsQuotasThatCheat(t *testing.T) {
	comparisonFinds(t, quotaCheats)
}

// TestEnduranceFindsQuotasThatCheat checks that Endure finds them.
func TestEnduranceFindsQuotasThatCheat(t *testing.T) {
	enduranceFinds(t, 100, quotaCheats) // the first history crosses a change of clocks
}

// comparisonFinds checks that Compare finds two stores that cheat alike.
func comparisonFinds(t *testing.T, cheats map[string]quotaCheat) {
	t.Helper()
	findsCheats(t, cheats, func(tb testing.TB, seed uint64, cheat quotaCheat) {
		tb.Helper()
		repotest.Compare(tb, seed, 2000, newQuotaCheater(cheat), newQuotaCheater(cheat))
	})
}

// enduranceFinds checks that Endure finds a store that cheats, in histories from
// first on.
func enduranceFinds(t *testing.T, first uint64, cheats map[string]quotaCheat) {
	t.Helper()
	findsCheats(t, cheats, func(tb testing.TB, seed uint64, cheat quotaCheat) {
		tb.Helper()
		c := newQuotaCheater(cheat)
		repotest.Endure(tb, first+seed, 4000, 0, c, c, struct{ limiter.Repository }{c})
	})
}

func findsCheats(t *testing.T, cheats map[string]quotaCheat, run func(tb testing.TB, seed uint64, cheat quotaCheat)) {
	t.Helper()
	for name, cheat := range cheats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, "more than the limits allow", func(tb testing.TB, seed uint64) {
				tb.Helper()
				run(tb, seed, cheat)
			})
		})
	}
}

// finds checks that one of some histories fails, first with a text.
func finds(t *testing.T, text string, run func(tb testing.TB, seed uint64)) {
	t.Helper()
	for seed := range uint64(histories) {
		said := verdict(t, func(tb testing.TB) { tb.Helper(); run(tb, seed) })
		if said == "" {
			continue
		}
		t.Logf("found in history %d", seed)
		if !strings.Contains(said, text) {
			t.Errorf("found, but not %q: %s", text, said)
		}
		return
	}
	t.Errorf("not found in %d histories", histories)
}

// rogue is a store with one wrong answer.
type rogue struct {
	limiter.Repository
	fills    int
	forgets  bool // the IDs of top-ups
	deaf     bool // to switches
	counts   bool // refusals as charges that would be refused
	ignores  bool // what a credit says was spared
	enforces bool // shadow limits
	refused  map[string]int64
}

func (r *rogue) Fill(ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent) (bool, error) {
	if r.fills++; r.forgets && f.ID != "" {
		f.ID = fmt.Sprintf("%s-%d", f.ID, r.fills)
	}
	return r.Repository.Fill(ctx, now, f, ev)
}

func (r *rogue) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	if r.deaf {
		s.Scope = limiter.Scope{Entity: "unused"}
	}
	return r.Repository.SetSwitch(ctx, s, ev)
}

func (r *rogue) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	if r.deaf {
		of = limiter.Scope{Entity: "unused"}
	}
	return r.Repository.DeleteSwitch(ctx, of, ev)
}

func (r *rogue) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	charge.Strict = charge.Strict || r.enforces
	out, err := r.Repository.Consume(ctx, now, charge)
	if err == nil && !out.Admitted {
		for i, l := range out.Payers[0].Account.Limits {
			if n, named := charge.Amounts.Lookup(l.Name); named && l.IsShadow && out.Payers[0].Tokens[i] < n*1000 {
				r.refused[l.Name]++
			}
		}
	}
	return out, err
}

func (r *rogue) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	for _, c := range credits {
		if r.ignores {
			c.Spared = nil
		}
		if err := r.Repository.Credit(ctx, now, c); err != nil {
			return err
		}
	}
	return nil
}

func (r *rogue) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return func(yield func(limiter.UsageSnapshot, error) bool) {
		for s, err := range r.Repository.Usage(ctx, q) {
			if r.counts && err == nil && len(r.refused) > 0 {
				s.WouldRefuse = maps.Clone(r.refused)
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// rogues lists what Compare finds, two of a kind or beside an honest store, and what
// Endure finds.
var rogues = map[string]struct {
	make          func() *rogue
	twice, endure string // "" for not found by this
}{
	"forgets the IDs of top-ups": {func() *rogue { return &rogue{forgets: true} }, "is carried out", "is carried out"},
	"ignores switches": {func() *rogue {
		return &rogue{deaf: true}
	}, "", "which is off for more than a minute"},
	"counts refusals":            {func() *rogue { return &rogue{counts: true} }, "", ""},
	"gives back what was spared": {func() *rogue { return &rogue{ignores: true} }, "their shadows", ""},
	"enforces shadow limits":     {func() *rogue { return &rogue{enforces: true} }, "", ""},
}

func TestHistoriesFindRogues(t *testing.T) {
	for name, c := range rogues {
		newRogue := func() limiter.Repository {
			r := c.make()
			r.Repository, r.refused = memory.New(nil), map[string]int64{}
			return r
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds(t, "", func(tb testing.TB, seed uint64) {
				tb.Helper()
				repotest.Compare(tb, seed, 2000, memory.New(nil), newRogue())
			})
			if c.twice != "" {
				finds(t, c.twice, func(tb testing.TB, seed uint64) {
					tb.Helper()
					repotest.Compare(tb, seed, 2000, newRogue(), newRogue())
				})
			}
			if c.endure != "" {
				finds(t, c.endure, func(tb testing.TB, seed uint64) {
					tb.Helper()
					r := newRogue()
					repotest.Endure(tb, seed, 2000, 0, r, r)
				})
			}
		})
	}
}
