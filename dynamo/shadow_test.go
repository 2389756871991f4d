package dynamo_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// The undo of a charge that was not admitted reverts what it counted for a spared
// limit: here another process has emptied the parent's bucket.
func TestAnUndoneChargeWouldHaveRefusedNothing(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Entity: "alice"}, limiter.PerMinute("rpm", 10).Shadow())
	s.SetLimits(limiter.Scope{Entity: "project"}, perMinute60)
	createChild(t, s.Repo, "alice", "project")
	other := dynamotest.Connect(t, s.TableName, nil)
	consume(t, s.Repo, 0, chargeOf("alice", 20), true)
	consume(t, other, 0, chargeOf("project", 40), true)
	before := dynamotest.FormatItem(s.bucketItem())
	consume(t, s.Repo, 0, chargeOf("alice", 30), false)
	s.Equal("the bucket", dynamotest.FormatItem(s.bucketItem()), before)
	s.Equal("the spared limit", quotaAttributes(s.bucketItem()), map[string]string{
		"b_rpm_tk": "N 10000", "b_rpm_sh": "BOOL true", "b_rpm_wr": "N 1",
	})
}

// A spared charge depends neither on what others charge meanwhile nor on the refill
// time, and it moves nothing that others depend on. So it is one request however busy
// the bucket is.
func TestSparedChargesDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	for _, shadow := range []limiter.Limit{
		limiter.PerHour("z", 1).Shadow(), limiter.Quota("z", 1, limiter.EveryMonth).Shadow(),
	} {
		t.Run(shadow.String(), func(t *testing.T) {
			t.Parallel()
			table, wire := dynamotest.NewTable(t), dynamotest.NewCounter()
			w := &countedTable{TB: t, counter: wire, other: dynamotest.Connect(t, table, nil)}
			w.repo = dynamotest.Connect(t, table, &dynamo.Options{
				AWS: wire.Config(dynamotest.Endpoint(t)), CacheTTL: 24 * time.Hour,
			})
			setDefaults(t, w.other, limiter.PerMinute("rpm", 1000), shadow)
			take := func(repo *dynamo.Repository, n int64) func() {
				return func() { consume(t, repo, 0, chargeNamed(limiter.Tokens("rpm", 1).And("z", n)), true) }
			}
			take(w.other, 1)()
			take(w.repo, 1)()
			for range 3 {
				take(w.other, 1)()
				w.checkRequests("an amount that was taken before", 1, take(w.repo, 1), update)
				take(w.other, 1)()
				w.checkRequests("an amount above the capacity", 1, take(w.repo, math.MaxInt64/2000), update)
			}
			w.other.Forget()
			out, err := w.other.Peek(t.Context(), at(0), chargeNamed(limiter.Tokens("rpm", 1)))
			must(t, err)
			if got := out.Payers[0].Tokens; got[0] != (1000-14-1)*1000 || got[1] != 0 {
				t.Errorf("%d tokens are left, want 985000 and 0", got)
			}
		})
	}
}

// A shadow limit never refuses, also if others change the bucket before each write: a
// charge that names one goes on longer, and then fails as in an outage.
func TestAChargeOfAShadowLimitOutlastsLostRaces(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.Quota("spend", 1, limiter.EveryDay).Shadow())
	consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 1)), true)
	const losses = 10
	for _, test := range []struct {
		losses  int
		timeout time.Duration
		err     bool
	}{{losses, time.Minute, false}, {1000, time.Second, true}} {
		lost := 0
		overtaken := dynamotest.Fault{Name: "overtaken", Act: func(x *dynamotest.Exchange) {
			lost++
			// as a change of limits does
			s.SetNumber(aliceBucket, "#BUCKET#gpt-4", "_lv", fmt.Sprint(1000*test.losses+lost))
			x.Answer(x.Execute(x.Body))
		}}
		proxy := dynamotest.NewProxy(t, dynamotest.First(test.losses, update, overtaken))
		repo := dynamotest.Connect(t, s.TableName, &dynamo.Options{
			AWS: dynamotest.Config(proxy.URL), Timeout: test.timeout,
		})
		out, err := repo.Consume(t.Context(), at(0), chargeNamed(limiter.Tokens("spend", 1)))
		if out.Admitted == test.err || (err != nil) != test.err || !test.err && lost != losses {
			t.Errorf("after %d lost races: admitted %v, error %v", lost, out.Admitted, err)
		}
	}
}

// shadowAddition returns the addition of the same changes. A shadow limit would have
// refused each of them once.
func (s *storedTable) shadowAddition(numbers ...int) aggregator.Addition {
	a := s.addition("a", limiter.Daily, numbers...)
	for i := range a.Entries {
		a.Entries[i].WouldRefuse = map[string]int64{"rpm": 1}
	}
	return a
}

// wouldRefuse returns the counts of a query.
func (s *storedTable) wouldRefuse(q limiter.UsageQuery) (all []string) {
	s.Helper()
	for _, u := range dynamotest.Collect(s.T, s.Repo.Usage(s.Context(), q)) {
		all = append(all, fmt.Sprint(u.Window, " ", u.Counters["rpm"], " ", u.WouldRefuse))
	}
	return all
}

func TestWhatShadowLimitsWouldRefuseIsAddedOnce(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	u := s.Repo.UsageStore(0)
	s.Must(u.AddUsage(t.Context(), s.addition("a", limiter.Daily, 1)))
	s.CheckNoItem("{ns}/ENTITY#alice", "#SHADOW#gpt-4#2026-03-01T00:00:00Z#daily")
	for range 2 {
		s.Must(u.AddUsage(t.Context(), s.shadowAddition(2, 3)))
		s.Must(u.AddUsage(t.Context(), s.shadowAddition(3, 4)))
		s.Must(u.AddUsage(t.Context(), s.addition("a", limiter.Hourly, 4)))
	}
	for _, q := range []limiter.UsageQuery{
		{}, {Entity: "alice"}, {Resource: "gpt-4"}, {Entity: "alice", Resource: "gpt-4"},
	} {
		s.Equal(fmt.Sprint(q), s.wouldRefuse(q), []string{"daily 4 map[rpm:3]", "hourly 1 map[]"})
	}
	it := s.Item("{ns}/ENTITY#alice", "#SHADOW#gpt-4#2026-03-01T00:00:00Z#daily")
	delete(it, "ttl")
	s.Equal("the item", dynamotest.FormatItem(it), dynamotest.FormatItem(s.Attributes(`
		PK S {ns}/ENTITY#alice
		SK S #SHADOW#gpt-4#2026-03-01T00:00:00Z#daily
		entity_id S alice
		resource S gpt-4
		window S daily
		window_start S 2026-03-01T00:00:00Z
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#alice
		_sq S a:0000000000000000000000000000000000000004
		rpm N 3`)))
	s.CreateEntity(limiter.Entity{ID: "alice"})
	s.Must(s.deleteEntity(t.Context(), "alice"))
	s.CheckNoItem("{ns}/ENTITY#alice", "#SHADOW#gpt-4#2026-03-01T00:00:00Z#daily")
}

// Usage without shadow limits is read by the same requests as before, and a hundred
// snapshots with them by one more.
func TestRequestsForWhatShadowLimitsWouldRefuse(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	u := s.Repo.UsageStore(0)
	for day := range 4 {
		a := s.shadowAddition(day + 1)
		if day < 2 {
			a = s.addition("a", limiter.Daily, day+1)
		}
		a.Start = midnight.AddDate(0, 0, day)
		s.Must(u.AddUsage(t.Context(), a))
	}
	wire := dynamotest.NewCounter()
	repo := dynamotest.Connect(t, s.TableName, &dynamo.Options{AWS: wire.Config(dynamotest.Endpoint(t))})
	for what, c := range map[string]struct {
		to   time.Time
		want []string
	}{
		"without": {midnight.AddDate(0, 0, 1), []string{"Query"}},
		"with":    {midnight.AddDate(0, 0, 3), []string{"Query", read}},
	} {
		// reads the namespace
		dynamotest.Collect(t, repo.Usage(t.Context(), limiter.UsageQuery{Entity: "alice", Resource: "gpt-4", To: c.to}))
		wire.Reset()
		dynamotest.Collect(t, repo.Usage(t.Context(), limiter.UsageQuery{Entity: "alice", Resource: "gpt-4", To: c.to}))
		s.Equal(what, wire.Requests(), c.want)
	}
}

// A change that reaches the aggregator after a boundary steps the quota, whatever it
// used, and without the refill time.
func TestAggregatorsStepQuotas(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.Quota("spend", 10, limiter.EveryHour),
		limiter.Quota("daily", 10, limiter.EveryDay))
	consume(t, s.Repo, 0, chargeNamed(limiter.Tokens("spend", 4).And("daily", 4)), true)
	late := s.state()
	s.pythonTakes(at(2*time.Hour), 6)
	record := record("2", s.bucketItem(), s.bucketItem())
	record.At = at(time.Minute)
	if _, _, ok := record.Change(); ok {
		t.Error("a record without usage counts, though nothing is due")
	}
	record.At = at(time.Hour)
	c, reason, ok := record.Change()
	if !ok {
		t.Fatal("a due step is no change: ", reason)
	}
	id := aggregator.ID{Namespace: s.NS, Entity: "alice", Resource: "gpt-4"}
	clock := at(50 * time.Minute)
	a, err := aggregator.New(s.Repo.UsageStore(0), &aggregator.Options{Now: func() time.Time { return clock }})
	s.Must(err)
	s.Equal("refills before the boundary", a.Process(t.Context(), []aggregator.Change{c}).Refills, 0)
	clock = at(time.Hour)
	s.Equal("refills after it", a.Process(t.Context(), []aggregator.Change{c}).Refills, 1)
	hour, day := start.Truncate(time.Hour).Add(time.Hour).UnixMilli(), start.Truncate(24*time.Hour).UnixMilli()
	want := map[string]string{
		"b_spend_tk": "N 10000", "b_spend_wn": "S hour", "b_spend_wi": fmt.Sprint("N ", hour),
		"b_daily_tk": "N 6000", "b_daily_wn": "S day", "b_daily_wi": fmt.Sprint("N ", day),
	}
	s.Equal("the item", quotaAttributes(s.bucketItem()), want)
	for _, old := range []*aggregator.State{late, c.State} {
		done, err := s.Repo.UsageStore(0).Refill(t.Context(), clock, id, old)
		s.Must(err)
		s.Equal("a second step", done, false)
	}
	s.Equal("the item", quotaAttributes(s.bucketItem()), want)
}
