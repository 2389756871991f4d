package escrow

import (
	"iter"

	"github.com/zeroae/zae-limiter-go"
)

// Statistics iterates over the values of Stats, then over those that the store
// reports.
func (r *Repository) Statistics() iter.Seq[limiter.Statistic] {
	return func(yield func(limiter.Statistic) bool) {
		for _, s := range r.Stats().statistics() {
			if !yield(s) {
				return
			}
		}
		if store, ok := r.Repository.(limiter.StatisticsReporter); ok {
			store.Statistics()(yield)
		}
	}
}

// statistics returns the counters by name.
func (s Stats) statistics() []limiter.Statistic {
	total := func(name, unit, description string, value int64) limiter.Statistic {
		return limiter.Statistic{Name: name, Unit: unit, Description: description, Total: true, Value: float64(value)}
	}
	return []limiter.Statistic{
		{Name: "escrow.pots", Unit: "{pot}", Description: "Buckets with a pot", Value: float64(s.Pots)},
		{Name: "escrow.held", Unit: "{token}", Description: "Tokens held to be spent", Value: float64(s.Held)},
		total("escrow.local_admissions", "{call}", "Calls admitted without a request", s.AdmittedLocally),
		total("escrow.requests", "{request}", "Charges sent to the store", s.Requests),
		total("escrow.shared", "{call}", "Calls that shared a request with another", s.Shared),
		total("escrow.returned", "{token}", "Tokens given back to the store", s.Returned),
		total("escrow.dropped", "{token}", "Tokens that could not be given back in time", s.Dropped),
	}
}
