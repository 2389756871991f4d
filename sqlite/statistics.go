package sqlite

import (
	"iter"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Statistics iterates over the calls that wrote and the commits that they shared.
func (r *Repository) Statistics() iter.Seq[limiter.Statistic] {
	return slices.Values([]limiter.Statistic{
		{
			Name: "store.requests", Unit: "{request}", Description: "Calls that write to the file", Total: true,
			Value: float64(r.writes.Load()),
		},
		{
			Name: "store.commits", Unit: "{commit}",
			Description: "Commits, each shared by the calls that wait for it", Total: true,
			Value: float64(r.commits.Load()),
		},
	})
}
