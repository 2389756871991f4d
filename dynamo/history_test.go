package dynamo_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

const trail = "{ns}/AUDIT#alice"

func TestEventIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	ev := s.Event("limits_set", "alice", "gpt-4")
	ev.Principal = "arn:aws:iam::1:user/bob"
	ev.Details = map[string]any{
		"limits": []any{map[string]any{
			"name": "rpm", "capacity": int64(60), "refill_amount": int64(60),
			"refill_period_seconds": int64(60),
		}},
		"half": 0.5, "none": nil, "yes": true,
	}
	scope := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
	s.Must(s.Repo.SetConfig(t.Context(), limiter.Config{Scope: scope, Limits: []limiter.Limit{perMinute}}, ev))
	s.CheckItem(trail, "#AUDIT#"+ev.ID, `
		entity_id S alice
		event_id S 01JP0000000000000000000001
		timestamp S 2026-03-14T15:09:26Z
		action S limits_set
		principal S arn:aws:iam::1:user/bob
		resource S gpt-4
		details M {half N 0.5; limits L [M {capacity N 60; name S rpm; refill_amount N 60; refill_period_seconds N 60}]; none NULL; yes BOOL true}
		ttl N 1781276966
		GSI4PK S {ns}
		GSI4SK S {ns}/AUDIT#alice`)
	s.Equal("90 days later", time.Unix(1781276966, 0).UTC(), dynamotest.Dawn.AddDate(0, 0, 90))
	anonymous := s.Event("entity_created", "alice", "")
	anonymous.Details = nil
	s.Must(s.Repo.CreateEntity(t.Context(), limiter.Entity{ID: "alice", Name: "alice", CreatedAt: dynamotest.Dawn},
		anonymous))
	s.CheckItem(trail, "#AUDIT#"+anonymous.ID, `
		entity_id S alice
		event_id S 01JP0000000000000000000002
		timestamp S 2026-03-14T15:09:26Z
		action S entity_created
		principal NULL
		resource NULL
		details M {}
		ttl N 1781276966
		GSI4PK S {ns}
		GSI4SK S {ns}/AUDIT#alice`)
}

// The retention applies even if the limits in the same item are damaged.
func TestEventsStayAsLongAsTheSystemSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stored string
		days   int64
	}{
		{"audit_retention_days N 7", 7},
		{"audit_retention_days N 7\nl_rpm_cp S damaged", 7},
		{"audit_retention_days N 0", 90},
		{"audit_retention_days S seven", 90},
		{"on_unavailable S allow", 90},
	} {
		t.Run(c.stored, func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.PutItem(system, systemConfig, c.stored)
			ev := s.Event("entity_created", "alice", "")
			s.Must(s.Repo.CreateEntity(t.Context(),
				limiter.Entity{ID: "alice", Name: "alice", CreatedAt: dynamotest.Dawn}, ev))
			want := fmt.Sprint("N ", dynamotest.Dawn.Unix()+c.days*86400)
			s.Equal("ttl", dynamotest.FormatAttribute(s.Item(trail, "#AUDIT#"+ev.ID)["ttl"]), want)
		})
	}
}

func TestTrailFollowsPagesAndSkipsWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	for i := range 9 {
		s.PutItem(trail, fmt.Sprintf("#AUDIT#0%d", i),
			"action S limits_set\nentity_id S alice\ntimestamp S 2026-03-14T15:09:26Z\nprincipal NULL\nresource NULL")
	}
	s.PutItem(trail, "#AUDIT#055", "entity_id S alice")
	s.Wire.PageSize.Store(2)
	ids := func(after string) (all []string) {
		for _, ev := range dynamotest.Collect(t, s.Repo.AuditEvents(t.Context(), "alice", after)) {
			all = append(all, ev.ID)
		}
		return all
	}
	s.Equal("all", ids(""), []string{"08", "07", "06", "05", "04", "03", "02", "01", "00"})
	s.Equal("before one", ids("05"), []string{"04", "03", "02", "01", "00"})
	s.Equal("before one that is no event", ids("055"), []string{"05", "04", "03", "02", "01", "00"})
	s.Equal("before one that is not there", ids("033"), []string{"03", "02", "01", "00"})
	s.Equal("before all", ids("0"), []string(nil))
	first := dynamotest.Collect(t, s.Repo.AuditEvents(t.Context(), "alice", ""))[0]
	s.Equal("event", first, limiter.AuditEvent{ID: "08", Action: "limits_set", Entity: "alice", At: dynamotest.Dawn})
}

// usage returns the snapshots of a query as short texts.
func (s *storedTable) usage(q limiter.UsageQuery) (all []string) {
	s.Helper()
	for _, u := range dynamotest.Collect(s.T, s.Repo.Usage(s.Context(), q)) {
		all = append(all,
			fmt.Sprint(u.Start.Format("02T15 "), u.Resource, " ", u.Entity, " ", u.Window, " ", u.Counters, " ",
				u.Events))
	}
	return all
}

func TestUsageReadsWhatPythonWrote(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.PutSnapshot("alice", "gpt-4", "hourly", "2026-03-14T15:00:00Z", "",
		"rpm N 3\ntpm N 500\nidle N 0\ntotal_events N 4")
	got := dynamotest.Collect(t, s.Repo.Usage(t.Context(), limiter.UsageQuery{Entity: "alice"}))
	start := time.Date(2026, time.March, 14, 15, 0, 0, 0, time.UTC)
	s.Equal("usage", got, []limiter.UsageSnapshot{{
		Entity: "alice", Resource: "gpt-4", Window: limiter.Hourly, Start: start,
		End:      start.Add(time.Hour - time.Second),
		Counters: map[string]int64{"rpm": 3, "tpm": 500}, Events: 4,
	}})
}

func TestUsageSelectsByKeyAndTime(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	for _, entity := range []string{"b", "a"} {
		for _, resource := range []string{"x", "x/1"} {
			for _, hour := range []string{"10", "11", "12"} {
				s.PutSnapshot(entity, resource, "hourly", "2026-03-14T"+hour+":00:00Z", "", "n N 1\ntotal_events N 1")
			}
			s.PutSnapshot(entity, resource, "daily", "2026-03-14T00:00:00Z", "", "n N 3\ntotal_events N 3")
		}
	}
	s.Wire.PageSize.Store(3)
	at := func(hour int) time.Time { return time.Date(2026, time.March, 14, hour, 0, 0, 0, time.UTC) }
	s.Equal("entity", s.usage(limiter.UsageQuery{Entity: "a", From: at(11)}), []string{
		"14T12 x a hourly map[n:1] 1", "14T12 x/1 a hourly map[n:1] 1", "14T11 x a hourly map[n:1] 1",
		"14T11 x/1 a hourly map[n:1] 1",
	})
	s.Equal("resource", s.usage(limiter.UsageQuery{Resource: "x", To: at(10)}), []string{
		"14T10 x a hourly map[n:1] 1", "14T10 x b hourly map[n:1] 1", "14T00 x a daily map[n:3] 3",
		"14T00 x b daily map[n:3] 3",
	})
	both := limiter.UsageQuery{Entity: "a", Resource: "x", From: at(10), To: at(11)}
	s.Equal("both", s.usage(both), []string{"14T11 x a hourly map[n:1] 1", "14T10 x a hourly map[n:1] 1"})
	both.Window = limiter.Daily
	s.Equal("another window", s.usage(both), []string(nil))
	both.From, both.To = time.Time{}, time.Date(12026, time.March, 1, 0, 0, 0, 0, time.UTC)
	s.Equal("days", s.usage(both), []string{"14T00 x a daily map[n:3] 3"})
	both.From, both.To = at(12), at(10)
	s.Equal("a time that ends before it begins", s.usage(both), []string(nil))
}

// Windows that start together share a key in Python's tables, so other writers
// use another key.
func TestUsageOfOneWindowUnderTwoKeysAddsUp(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	midnight := "2026-03-14T00:00:00Z"
	s.PutSnapshot("a", "x", "daily", midnight, "", "n N 3\nback N 2\ntotal_events N 3")
	s.PutSnapshot("a", "x", "daily", midnight, "#daily", "n N 4\nback N -2\nm N 1\ntotal_events N 5")
	s.PutSnapshot("a", "x", "hourly", midnight, "#hourly", "n N 1\ntotal_events N 1")
	want := []string{"14T00 x a daily map[m:1 n:7] 8", "14T00 x a hourly map[n:1] 1"}
	for _, q := range []limiter.UsageQuery{{Entity: "a"}, {Resource: "x"}, {Entity: "a", Resource: "x"}} {
		s.Equal("usage", s.usage(q), want)
	}
}

func TestUsageSkipsWhatIsNoSnapshotAndNamesWhatIsDamaged(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.PutSnapshot("a", "x", "weekly", "2026-03-14T00:00:00Z", "", "n N 3")
	s.PutSnapshot("a", "x", "hourly", "yesterday", "", "n N 3")
	s.PutItem("{ns}/ENTITY#a", "#USAGE#x#2026-03-14T01:00:00Z",
		"resource S x\nwindow S hourly\nwindow_start S 2026-03-14T01:00:00Z")
	s.PutItem("{ns}/ENTITY#a", "#USAGE#x#2026-03-14T02:00:00Z",
		"entity_id S a\nwindow S hourly\nwindow_start S 2026-03-14T02:00:00Z")
	s.PutItem("{ns}/ENTITY#a", "#USAGE#x#2026-03-14T03:00:00Z", "entity_id S a\nresource S x\nwindow S hourly")
	s.Equal("usage", s.usage(limiter.UsageQuery{Entity: "a"}), []string(nil))
	s.PutSnapshot("a", "x", "hourly", "2026-03-14T04:00:00Z", "", "n N 0.5")
	var last error
	for _, err := range s.Repo.Usage(t.Context(), limiter.UsageQuery{Entity: "a"}) {
		last = err
	}
	if _, ok := errors.AsType[*limiter.CorruptError](last); !ok {
		t.Errorf("error %v, want a *CorruptError", last)
	}
}
