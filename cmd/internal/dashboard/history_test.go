package dashboard

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestUsageIsAddedUpOldestFirst(t *testing.T) {
	now := time.Date(2026, 1, 31, 15, 30, 0, 0, time.UTC)
	r := newRig(t, Options{Now: func() time.Time { return now }})
	r.ok(r.lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 100)))
	end := now
	for _, back := range []time.Duration{3 * time.Hour, time.Hour} {
		now = end.Add(-back)
		r.use("key", "gpt-4", "rpm", 2)
		r.use("key", "other", "rpm", 3)
	}
	now = end
	u := get[Usage](r, "/api/usage?entity=key")
	if len(u.Snapshots) != 2 || !u.Snapshots[0].Start.Before(u.Snapshots[1].Start) ||
		u.Snapshots[0].Counters["rpm"] != 5 || u.Snapshots[0].Window != "hourly" {
		t.Errorf("hourly: %+v", u)
	}
	if one := get[Usage](
		r, "/api/usage?entity=key&resource=other&window=daily",
	); len(one.Snapshots) != 1 || one.Snapshots[0].Counters["rpm"] != 6 {
		t.Errorf("daily: %+v", one)
	}
	if none := get[Usage](r, "/api/usage?entity=key&to=2026-01-31T00:00:00Z"); len(none.Snapshots) != 0 {
		t.Errorf("before: %+v", none)
	}
}

func TestAuditInPages(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 5 {
		r.ok(r.lim.SetLimits(t.Context(), "key", "", limiter.PerMinute("rpm", int64(i+1))))
	}
	n, after := 0, ""
	for {
		a := get[Audit](r, "/api/audit?entity=key&limit=2&after="+after)
		n += len(a.Events)
		if after = a.Next; after == "" {
			break
		}
	}
	if n != 5 {
		t.Errorf("%d events", n)
	}
	if all := get[Audit](r, "/api/audit"); len(all.Events) != 6 {
		t.Errorf("all: %d events", len(all.Events))
	}
}
