package repotest

import (
	"maps"
	"regexp"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

func statisticsChecks() []check {
	checks := []check{
		{"statistics have names, units and descriptions", statisticsNamed},
		{"names stay, and totals only grow", statisticsGrow},
		{"views report the same statistics", statisticsOfViews},
	}

	for i, c := range checks {
		checks[i].run = func(f *fixture) {
			if _, ok := f.repo.(limiter.StatisticsReporter); !ok {
				f.Skip("the store has no Statistics")
			}
			c.run(f)
		}
	}
	return checks
}

// statistics returns the statistics of a repository by name.
func (f *fixture) statistics(repo limiter.Repository) map[string]limiter.Statistic {
	f.Helper()
	reporter, ok := repo.(limiter.StatisticsReporter)
	if !ok {
		f.Fatalf("%T has no Statistics", repo)
	}

	all := map[string]limiter.Statistic{}
	for s := range reporter.Statistics() {
		if _, twice := all[s.Name]; twice {
			f.Errorf("statistic %s is reported twice", s.Name)
		}
		all[s.Name] = s
	}
	return all
}

func statisticsNamed(f *fixture) {
	name, unit := regexp.MustCompile(
		`^[a-z]+(_[a-z]+)*(\.[a-z]+(_[a-z]+)*)+$`,
	), regexp.MustCompile(`^(s|By|1|\{[a-z]+\})$`)

	for _, s := range f.statistics(f.repo) {
		// A value that differs from itself is NaN.
		if !name.MatchString(s.Name) || !unit.MatchString(s.Unit) || s.Description == "" || s.Total && (s.Value < 0 ||
			s.Value != s.Value) {
			f.Errorf("statistic %+v: want a dotted name, a unit of UCUM, a description, and a total of at least 0", s)
		}
	}
}

func statisticsGrow(f *fixture) {
	before := f.statistics(f.repo)
	f.populate()
	after := f.statistics(f.repo)

	f.ok("Close", f.repo.Close())
	// The statistics of a closed store can still be read.
	closed := f.statistics(f.repo)

	for _, later := range []map[string]limiter.Statistic{after, closed} {
		f.equal("names of statistics", slices.Sorted(maps.Keys(later)), slices.Sorted(maps.Keys(before)))
		for name, s := range later {
			if s.Total && s.Value < before[name].Value {
				f.Errorf("the total %s went from %g to %g", name, before[name].Value, s.Value)
			}
		}
		before = later
	}
}

func statisticsOfViews(f *fixture) {
	_, inside := f.namespace("other")

	f.equal("names of statistics", slices.Sorted(maps.Keys(f.statistics(inside.repo))),
		slices.Sorted(maps.Keys(f.statistics(f.repo))))

	inside.populate()
	// The view is read first, so that the total of the repository can only be
	// larger.
	for name, s := range f.statistics(inside.repo) {
		if whole := f.statistics(f.repo)[name]; s.Total && whole.Value < s.Value {
			f.Errorf("the total %s is %g through a view, and %g through the repository", name, s.Value, whole.Value)
		}
	}
}
