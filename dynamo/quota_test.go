package dynamo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

const aliceBucket = "{ns}/ENTITY#alice"

// chargeNamed returns a charge of alice.
func chargeNamed(amounts limiter.Amounts) limiter.Charge {
	return limiter.Charge{Entity: "alice", Resource: model, Amounts: amounts}
}

// quotaAttributes returns the lines of an item that make limits quotas or shadow
// limits, and their tokens.
func quotaAttributes(it dynamotest.Item) map[string]string {
	found := map[string]string{}
	for attr, v := range it {
		if len(attr) > 3 && attr[:2] == "b_" {
			switch attr[len(attr)-3:] {
			case "_wn", "_wi", "_sh", "_wr", "_tk":
				found[attr] = dynamotest.FormatAttribute(v)
			}
		}
	}
	return found
}

// Quotas and shadow limits add attributes to configs and buckets, and have rates that
// Python never refills.
func TestQuotasAndShadowLimitsAreStored(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Resource: model}, limiter.Quota("spend", 100, limiter.EveryDay).In("Europe/Berlin"),
		limiter.PerMinute("rpm", 10).Shadow())
	s.CheckItem("{ns}/RESOURCE#gpt-4", "#CONFIG", `
		GSI4PK S {ns}
		GSI4SK S {ns}/RESOURCE#gpt-4
		config_version N 1
		resource S gpt-4
		l_spend_cp N 100
		l_spend_ra N 1
		l_spend_rp N 9000000000
		l_spend_wn S day:Europe/Berlin
		l_rpm_cp N 10
		l_rpm_ra N 10
		l_rpm_rp N 60
		l_rpm_sh BOOL true`)
	cfg, err := s.Repo.Config(t.Context(), limiter.Scope{Resource: model})
	s.Must(err)
	s.Equal("limits", cfg.Limits, []limiter.Limit{
		limiter.PerMinute("rpm", 10).Shadow(),
		limiter.Quota("spend", 100, limiter.EveryDay).In("Europe/Berlin"),
	})
	consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("rpm", 11).And("spend", 30)), true)
	begin := time.Date(2026, time.March, 13, 23, 0, 0, 0, time.UTC) // midnight in Berlin
	s.CheckItem(aliceBucket, "#BUCKET#gpt-4", fmt.Sprintf(`
		_id
		GSI2PK S {ns}/RESOURCE#gpt-4
		GSI2SK S BUCKET#alice
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#alice
		entity_id S alice
		resource S gpt-4
		cascade BOOL false
		rf N %d
		ttl N %d
		b_spend_tk N 70000
		b_spend_tc N 30000
		b_spend_cp N 100000
		b_spend_ra N 1000
		b_spend_rp N 9000000000000
		b_spend_wn S day:Europe/Berlin
		b_spend_wi N %d
		b_spend_wx S %[3]d:100000:100000
		b_rpm_tk N 10000
		b_rpm_tc N 11000
		b_rpm_cp N 10000
		b_rpm_ra N 10000
		b_rpm_rp N 60000
		b_rpm_sh BOOL true
		b_rpm_wr N 1`, start.UnixMilli(), begin.Add(24*time.Hour).Unix(), begin.UnixMilli()))
}

// A boundary costs the first caller one locked write, and others two.
func TestRequestsAtABoundary(t *testing.T) {
	t.Parallel()
	table, wire := dynamotest.NewTable(t), dynamotest.NewCounter()
	w := &countedTable{TB: t, counter: wire, other: dynamotest.Connect(t, table, nil)}
	w.repo = dynamotest.Connect(t, table, &dynamo.Options{
		AWS: wire.Config(dynamotest.Endpoint(t)), CacheTTL: 24 * time.Hour,
	})
	setDefaults(t, w.other, perMinute60, limiter.Quota("spend", 100, limiter.EveryHour))
	take := func(repo *dynamo.Repository, d time.Duration, name string) func() {
		return func() { consume(t, repo, d, chargeNamed(limiter.Tokens(name, 1)), true) }
	}
	const next = 51 * time.Minute // start is 9 minutes past
	take(w.other, 0, "spend")()
	take(w.repo, 0, "spend")()
	w.checkRequests("inside the window", 1, take(w.repo, time.Second, "spend"), update)
	take(w.other, time.Second, "spend")()
	w.checkRequests("the first after the boundary, though others have charged", 1, take(w.repo, next, "spend"), update)
	take(w.other, next+time.Hour, "rpm")() // steps what it does not name, too
	w.checkRequests("not the first", 2, take(w.repo, next+time.Hour, "spend"), update, update)
	w.checkRequests("inside the next window", 1, take(w.repo, next+time.Hour, "spend"), update)
	w.checkRequests("a limit beside the quota", 1, take(w.repo, next+time.Hour, "rpm"), update)
}

// An override costs what it cost before, unless its quota differs from the bucket's:
// then the levels are read once, and cached.
func TestRequestsForQuotasThatCallsCarry(t *testing.T) {
	t.Parallel()
	table, wire := dynamotest.NewTable(t), dynamotest.NewCounter()
	w := &countedTable{TB: t, counter: wire, other: dynamotest.Connect(t, table, nil)}
	w.repo = dynamotest.Connect(t, table, &dynamo.Options{AWS: wire.Config(dynamotest.Endpoint(t))})
	take := func(repo *dynamo.Repository, n int64, admitted bool, limits ...limiter.Limit) func() {
		return func() {
			c := chargeNamed(limiter.Tokens("spend", n))
			c.Limits = limits
			consume(t, repo, 0, c, admitted)
		}
	}
	quota := func(n int64, every limiter.Calendar) limiter.Limit { return limiter.Quota("spend", n, every) }
	month, day := quota(1000, limiter.EveryMonth), quota(10, limiter.EveryDay)
	w.checkRequests("a brand-new bucket", 2, take(w.repo, 1, true, month), read, put)
	w.checkRequests("the same quota", 1, take(w.repo, 1, true, month), update)
	w.checkRequests("another quota", 2, take(w.repo, 1, true, day), read, update)
	w.checkRequests("that quota again", 1, take(w.repo, 1, true, day), update)
	w.checkRequests("another quota, levels cached", 1, take(w.repo, 1, true, quota(20, limiter.EveryDay)), update)
	take(w.other, 15, true, quota(20, limiter.EveryDay))()
	w.checkRequests("a quota that refuses, and begins", 2, take(w.repo, 100, false, month), get, update)
	w.checkRequests("a quota that refuses", 1, take(w.repo, 100, false, month), get)
	w.checkRequests("a quota that refuses, remembered", 0, take(w.repo, 100, false, month))
	setDefaults(t, w.repo, quota(500, limiter.EveryMonth))
	w.checkRequests("a quota that a level holds", 2, take(w.repo, 0, true, day), read, update)
	w.checkRequests("a quota that a level holds, cached", 1, take(w.repo, 0, true, day), update)
}

// The tokens of a step do not depend on what others take at the same time: what is
// left of the old window fills up, and debt is carried over.
func TestStepsCarryDebtOver(t *testing.T) {
	t.Parallel()
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	setDefaults(t, repo, limiter.Quota("spend", 100, limiter.EveryHour))
	const hour = time.Hour
	out := consume(t, repo, 0, chargeNamed(limiter.Tokens("spend", 90)), true)
	owe := limiter.Credit{Account: out.Payers[0].Account, Amounts: limiter.Tokens("spend", -260)} // leaves -250
	must(t, repo.Credit(t.Context(), at(0), owe))
	consume(t, repo, hour, chargeNamed(limiter.Tokens("spend", 1)), false)
	consume(t, repo, 2*hour, chargeNamed(limiter.Tokens("spend", 1)), false)
	out = consume(t, repo, 3*hour, chargeNamed(limiter.Tokens("spend", 20)), true)
	if got := out.Payers[0].Tokens[0]; got != 30_000 {
		t.Errorf("%d left after three steps, want 30000", got)
	}
	// a clock that is behind counts as the window
	consume(t, repo, 2*hour, chargeNamed(limiter.Tokens("spend", 30)), true)
	consume(t, repo, 3*hour, chargeNamed(limiter.Tokens("spend", 1)), false)
}

// Every write of 24 quotas and shadow limits fits into the limits of an expression,
// also if all of them become something else, and if others leave.
func TestAsManyQuotasAsAnExpressionHolds(t *testing.T) {
	t.Parallel()
	const maxLimits = 24
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	charge := func(d time.Duration, limits []limiter.Limit, n int64) limiter.Outcome {
		var amounts limiter.Amounts
		for _, l := range limits {
			amounts = amounts.And(l.Name, n)
		}
		return consume(t, repo, d, chargeNamed(amounts), true)
	}
	become := func(limits []limiter.Limit, to func(limiter.Limit) limiter.Limit) []limiter.Limit {
		var changed []limiter.Limit
		for _, l := range limits {
			changed = append(changed, to(l))
		}
		setDefaults(t, repo, changed...)
		return changed
	}
	quota := func(l limiter.Limit) limiter.Limit { return limiter.Quota(l.Name, 60, limiter.EveryHour).Shadow() }
	const hour = time.Hour
	rates, _ := manyLimits("old", maxLimits)
	limits := become(rates, limiter.Limit.Enforced)
	charge(0, limits, 1)
	limits = become(rates, quota)
	charge(0, limits, 1)         // all become shadow quotas
	charge(0, limits, 1)         // plain
	charge(hour, limits, 1)      // a step
	charge(hour, limits, 60)     // spared
	charge(2*hour, limits, 1000) // a step, and spared
	out := charge(2*hour, limits, 1)
	amounts := limiter.Amounts{}
	for _, l := range limits {
		amounts = amounts.And(l.Name, -1)
	}
	must(t, repo.Credit(t.Context(), at(3*hour), limiter.Credit{Account: out.Payers[0].Account, Amounts: amounts}))
	charge(3*hour, become(limits, func(l limiter.Limit) limiter.Limit { l.Capacity = 70; return l }), 1)
	charge(3*hour, become(limits, func(l limiter.Limit) limiter.Limit {
		return limiter.Quota(l.Name, 60, limiter.EveryDay).In("Europe/Berlin").Shadow()
	}), 1)
	others, _ := manyLimits("new", maxLimits)
	charge(3*hour, become(others, quota), 1000) // all leave, and as many join and are spared
	charge(3*hour, become(others, limiter.Limit.Enforced), 1)
	limits = become(others, limiter.Limit.Shadow)
	charge(3*hour, limits, 60)
	charge(3*hour, limits, 60)   // spared, plain
	charge(3*hour, limits, 1000) // above the capacity
}
