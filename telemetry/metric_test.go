package telemetry_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// expect compares the values of a counter.
func (r *rig) expect(tb testing.TB, name string, want map[string]int64) {
	tb.Helper()
	if diff := cmp.Diff(want, r.counts(tb, name)); diff != "" {
		tb.Errorf("%s: %s", name, diff)
	}
}

func TestDecisionsAndTokens(t *testing.T) {
	r := newRig(t, newMemory(t), nil)
	ctx := t.Context()
	use := func(entity string, consume limiter.Amounts) (*limiter.Lease, error) {
		return r.lim.Acquire(ctx, limiter.Request{Entity: entity, Resource: "api", Consume: consume})
	}
	first, err := use("alice", limiter.Tokens("rpm", 1).And("tpm", 50))
	check(t, err)
	check(t, first.Adjust(limiter.Tokens("tpm", 20)))
	check(t, first.Commit(ctx))
	second, err := use("bob", limiter.Tokens("rpm", 4).And("tpm", 0))
	check(t, err)
	check(t, second.Rollback(ctx))
	if _, err := use("alice", limiter.Tokens("rpm", 1).And("tpm", 60)); err == nil {
		t.Error("it was admitted")
	}
	if _, err := r.lim.Acquire(ctx, limiter.Request{
		Entity: "alice", Resource: "unknown", Consume: limiter.Tokens("rpm", 1),
	}); err == nil {
		t.Error("it was admitted")
	}
	r.expect(t, "zae_limiter.decisions", map[string]int64{
		"zae_limiter.resource=api,zae_limiter.result=admitted":                      2,
		"zae_limiter.resource=api,zae_limiter.result=refused":                       1,
		"error.type=no_limits,zae_limiter.resource=_OTHER,zae_limiter.result=error": 1,
	})
	r.expect(t, "zae_limiter.tokens.admitted", map[string]int64{
		"zae_limiter.limit=rpm,zae_limiter.resource=api": 5, "zae_limiter.limit=tpm,zae_limiter.resource=api": 70,
	})
	r.expect(t, "zae_limiter.tokens.refused", map[string]int64{"zae_limiter.limit=tpm,zae_limiter.resource=api": 60})
	r.expect(t, "zae_limiter.tokens.returned", map[string]int64{"zae_limiter.limit=rpm,zae_limiter.resource=api": 4})
}

// TestTokensOfACascadeCountOnce checks that the tokens that an entity and its
// parent both pay count once.
func TestTokensOfACascadeCountOnce(t *testing.T) {
	r := newRig(t, newMemory(t), nil)
	ctx := t.Context()
	for _, e := range []limiter.Entity{{ID: "team"}, {ID: "alice", Parent: "team", Cascade: true}} {
		_, err := r.lim.CreateEntity(ctx, e)
		check(t, err)
	}
	lease, err := r.lim.Acquire(ctx, limiter.Request{
		Entity: "alice", Resource: "api", Consume: limiter.Tokens("tpm", 30),
	})
	check(t, err)
	check(t, lease.Adjust(limiter.Tokens("tpm", 12)))
	check(t, lease.Flush(ctx))
	check(t, lease.Rollback(ctx))
	tpm := "zae_limiter.limit=tpm,zae_limiter.resource=api"
	r.expect(t, "zae_limiter.tokens.admitted", map[string]int64{tpm: 42})
	r.expect(t, "zae_limiter.tokens.returned", map[string]int64{tpm: 42})
}

// TestShadowLimitsAndSwitches checks that a spared limit is counted apart from
// refusals, and that a level that is off is neither a refusal nor an error.
func TestShadowLimitsAndSwitches(t *testing.T) {
	r := newRig(t, newMemory(t), nil)
	ctx := t.Context()
	check(t,
		r.lim.SetResourceDefaults(ctx, "chat", limiter.PerMinute("rpm", 3), limiter.PerMinute("tpm", 100).Shadow()))
	_, err := r.lim.CreateEntity(ctx, limiter.Entity{ID: "alice", Parent: "team", Cascade: true})
	check(t, err)
	use := func(tpm int64) error {
		_, err := r.lim.Acquire(ctx, limiter.Request{
			Entity: "alice", Resource: "chat", Consume: limiter.Tokens("rpm", 1).And("tpm", tpm),
		})
		return err
	}
	for _, tpm := range []int64{90, 90, 10} {
		check(t, use(tpm))
	}
	if err := use(90); err == nil {
		t.Error("it was admitted")
	}
	check(t, r.lim.Disable(ctx, limiter.Scope{Entity: "alice"}, "leaked"))
	if err := use(1); err == nil {
		t.Error("it was admitted")
	}
	check(t, r.lim.Enable(ctx, limiter.Scope{Entity: "alice"}))
	r.expect(t, "zae_limiter.decisions", map[string]int64{
		"zae_limiter.resource=chat,zae_limiter.result=admitted": 3,
		"zae_limiter.resource=chat,zae_limiter.result=refused":  1,
		"zae_limiter.resource=chat,zae_limiter.result=disabled": 1,
	})
	r.expect(t, "zae_limiter.shadow.refusals", map[string]int64{"zae_limiter.limit=tpm,zae_limiter.resource=chat": 1})
	r.expect(t, "zae_limiter.tokens.refused", map[string]int64{"zae_limiter.limit=rpm,zae_limiter.resource=chat": 1})
}

func TestDurations(t *testing.T) {
	r := newRig(t, newMemory(t), nil)
	_, err := r.Consume(t.Context(), epoch, refused)
	check(t, err)
	check(t, r.Ping(t.Context()))
	for range r.Namespaces(t.Context()) {
		continue
	}
	data, ok := r.metrics(t)["zae_limiter.operation.duration"].Data.(metricdata.Histogram[float64])
	if !ok {
		t.Fatal("there is no histogram")
	}
	got := map[string]uint64{}
	for _, p := range data.DataPoints {
		operation, _ := p.Attributes.Value("zae_limiter.operation")
		result, _ := p.Attributes.Value("zae_limiter.result")
		got[operation.AsString()+" "+result.AsString()] = p.Count
		if p.Sum <= 0 || p.Sum > 600 {
			t.Errorf("%s took %g s", operation.AsString(), p.Sum)
		}
	}
	if diff := cmp.Diff(map[string]uint64{"consume refused": 1, "ping ok": 1, "namespaces ok": 1}, got); diff != "" {
		t.Error(diff)
	}
}

// TestMetricsFollowTheConventions checks names and units against the conventions
// of OpenTelemetry: dotted names without units, totals or plural prefixes.
func TestMetricsFollowTheConventions(t *testing.T) {
	r := newRig(t, newBilled(t), &telemetry.Options{WritePrice: 1})
	_, err := r.Consume(t.Context(), epoch, refused)
	check(t, err)
	all := r.metrics(t)
	if len(all) < 6 {
		t.Errorf("only %d metrics", len(all))
	}
	name, forbidden := regexp.MustCompile(
		`^zae_limiter(\.[a-z]+(_[a-z]+)*)+$`,
	), regexp.MustCompile(`_total$|second|byte|_ms`)
	unit := regexp.MustCompile(`^(s|\{[A-Za-z]+\})$`)
	for _, m := range all {
		if !name.MatchString(m.Name) || forbidden.MatchString(m.Name) || !unit.MatchString(m.Unit) ||
			m.Description == "" {
			t.Errorf("%s in %s: %s", m.Name, m.Unit, m.Description)
		}
	}
}

// TestResourcesAreBounded checks that callers who choose names of resources and
// limits cannot make metrics without end.
func TestResourcesAreBounded(t *testing.T) {
	r := newRig(t, newMemory(t), &telemetry.Options{MaxResources: 2})
	lim := r.lim
	check(t, lim.SetSystemDefaults(context.Background(), limiter.PerMinute("rpm", 10)))
	for i := range 5 {
		_, err := lim.Acquire(t.Context(), limiter.Request{
			Entity: "alice", Resource: fmt.Sprint("r", i), Consume: limiter.Tokens("rpm", 1),
		})
		check(t, err)
	}
	r.expect(t, "zae_limiter.decisions", map[string]int64{
		"zae_limiter.resource=r0,zae_limiter.result=admitted":     1,
		"zae_limiter.resource=r1,zae_limiter.result=admitted":     1,
		"zae_limiter.resource=_OTHER,zae_limiter.result=admitted": 3,
	})
	var limits []limiter.Limit
	amounts := limiter.Amounts{}
	for i := range 4 {
		name := fmt.Sprint("limit", i)
		limits, amounts = append(limits, limiter.PerMinute(name, 10)), amounts.And(name, 1)
	}
	_, err := r.Consume(t.Context(), epoch, limiter.Charge{
		Entity: "bob", Resource: "r0", Amounts: amounts, Limits: limits,
	})
	check(t, err)
	if counts := r.counts(
		t, "zae_limiter.tokens.admitted",
	); counts["zae_limiter.limit=_OTHER,zae_limiter.resource=r0"] != 3 {
		t.Error(counts)
	}
}
