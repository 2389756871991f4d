package dynamo

import (
	"iter"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Statistics iterates over the values of Stats. It yields billed units only with
// Options.CountCapacity.
func (r *Repository) Statistics() iter.Seq[limiter.Statistic] {
	s := r.Stats()
	total := func(name, unit, description string, value float64) limiter.Statistic {
		return limiter.Statistic{Name: name, Unit: unit, Description: description, Total: true, Value: value}
	}

	// A gauge of 0 would say that the clock is right.
	offset := math.NaN()
	if s.ClockKnown {
		offset = s.ClockOffset.Seconds()
	}

	all := []limiter.Statistic{
		total("store.requests", "{request}", "Requests to the table, retries included", float64(s.Requests)),
		total("store.cache.hits", "{lookup}", "Lookups of records that the cache answered", float64(s.CacheHits)),
		total("store.cache.misses", "{lookup}", "Lookups of records that read the table", float64(s.CacheMisses)),
		{
			Name: "store.cache.records", Unit: "{record}", Description: "Records in the cache",
			Value: float64(s.CacheSize),
		},
		total("store.local_refusals", "{refusal}", "Refusals without a request", float64(s.LocalRejections)),
		total("store.dropped_credits", "{credit}",
			"Credits lost because the outcome of a write stayed unknown or the bucket kept changing",
			float64(s.CreditsDropped)),
		{
			Name: "store.clock.offset", Unit: "s",
			Description: "How far the table's time is ahead of the machine's", Value: offset,
		},
	}

	if r.opts.CountCapacity {
		all = append(all,
			total("store.billed_reads", "{unit}", "Read units that the table billed", s.ReadUnits),
			total("store.billed_writes", "{unit}", "Write units that the table billed", s.WriteUnits))
	}
	return slices.Values(all)
}
