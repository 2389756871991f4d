package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// monthBegins is half an hour into the month, where all windows begin
// together.
var monthBegins = time.Date(2026, time.March, 1, 0, 30, 0, 0, time.UTC).Sub(epoch)

// charges takes one token of each resource from each entity.
func (f *fixture) charges(d time.Duration, entities, resources []string) {
	f.Helper()
	f.setLimits(limiter.Scope{}, perMinute60)

	for _, entity := range entities {
		for _, resource := range resources {
			c := ask(entity, rpm(1))
			c.Resource = resource
			f.take(d, c)
		}
	}
}

// selects checks which snapshots a query returns.
func (f *fixture) selects(what string, q limiter.UsageQuery, want ...string) {
	f.Helper()

	var got []string
	for _, s := range f.usage(q) {
		got = append(got, s.Start.UTC().Format("01-02 15h ")+s.Resource+" "+s.Entity+" "+string(s.Window))
	}

	f.equal(what, got, want)
}

func usageOrder(f *fixture) {
	f.charges(monthBegins, []string{"b", "a"}, []string{"y", "x"})
	f.charges(monthBegins+time.Hour, []string{"a"}, []string{"x"})

	f.selects("of an entity", limiter.UsageQuery{Entity: "a"},
		"03-01 01h x a hourly",
		"03-01 00h x a daily", "03-01 00h x a hourly", "03-01 00h x a monthly",
		"03-01 00h y a daily", "03-01 00h y a hourly", "03-01 00h y a monthly")

	f.selects("of a resource", limiter.UsageQuery{Resource: "x"},
		"03-01 01h x a hourly",
		"03-01 00h x a daily", "03-01 00h x a hourly", "03-01 00h x a monthly",
		"03-01 00h x b daily", "03-01 00h x b hourly", "03-01 00h x b monthly")

	f.selects("of everything", limiter.UsageQuery{Window: limiter.Hourly},
		"03-01 01h x a hourly",
		"03-01 00h x a hourly", "03-01 00h x b hourly", "03-01 00h y a hourly", "03-01 00h y b hourly")

	month, _ := limiter.Monthly.Bounds(epoch.Add(monthBegins))
	f.selects("of everything, later", limiter.UsageQuery{From: month.Add(time.Hour)}, "03-01 01h x a hourly")
	f.selects("of everything, earlier", limiter.UsageQuery{Window: limiter.Monthly, To: month},
		"03-01 00h x a monthly", "03-01 00h x b monthly", "03-01 00h y a monthly", "03-01 00h y b monthly")
}

func usageQuery(f *fixture) {
	const day = 24 * time.Hour
	for _, d := range []time.Duration{0, time.Hour, 2 * time.Hour, day} {
		f.charges(d, []string{"a", "a1"}, []string{"x", "x/1"})
	}

	base := limiter.UsageQuery{Entity: "a", Resource: "x"}
	hours, days := base, base
	hours.Window, days.Window = limiter.Hourly, limiter.Daily

	f.selects("hours", hours, "03-15 15h x a hourly", "03-14 17h x a hourly", "03-14 16h x a hourly",
		"03-14 15h x a hourly")
	f.selects("days", days, "03-15 00h x a daily", "03-14 00h x a daily")

	hours.From, hours.To = thisHour.Add(time.Hour), thisHour.Add(2*time.Hour)
	f.selects("hours between, inclusive", hours, "03-14 17h x a hourly", "03-14 16h x a hourly")

	hours.From, hours.To = thisHour.Add(time.Second), time.Time{}
	f.selects("hours that begin later", hours, "03-15 15h x a hourly", "03-14 17h x a hourly", "03-14 16h x a hourly")

	hours.From, hours.To = time.Time{}, thisHour
	f.selects("hours that begin no later", hours, "03-14 15h x a hourly")

	base.From, base.To = thisDay, thisDay.Add(day-time.Second)
	f.selects("all windows of a day", base, "03-14 17h x a hourly", "03-14 16h x a hourly", "03-14 15h x a hourly",
		"03-14 00h x a daily")

	f.selects("an unknown entity", limiter.UsageQuery{Entity: "unknown"})
	f.selects("another resource", limiter.UsageQuery{Entity: "a", Resource: "y"})

	f.selects("months of an entity", limiter.UsageQuery{Entity: "a", Window: limiter.Monthly},
		"03-01 00h x a monthly", "03-01 00h x/1 a monthly")
	f.selects("months of a resource", limiter.UsageQuery{Resource: "x", Window: limiter.Monthly},
		"03-01 00h x a monthly", "03-01 00h x a1 monthly")
}

func usageNotShared(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)))
	clear(first(f, "Usage", f.usage(limiter.UsageQuery{Entity: "key-1"})).Counters)
	f.used("key-1", 1, counters{"rpm": 1})
}
