package server

import (
	"iter"

	"github.com/zeroae/zae-limiter-go"
)

// Statistics iterates over the statistics of the server.
func (s *Server) Statistics() iter.Seq[limiter.Statistic] {
	return func(yield func(limiter.Statistic) bool) {
		for _, stat := range []limiter.Statistic{
			{
				Name: "server.leases", Unit: "{lease}", Description: "Leases that are open",
				Value: float64(s.leases.len()),
			},
			{
				Name: "server.keys", Unit: "{key}", Description: "Idempotency keys that are remembered",
				Value: float64(s.keys.len()),
			},
			{
				Name: "server.calls", Unit: "{call}", Description: "Calls over HTTP that are under way",
				Value: float64(s.running.Held(s.allCalls)),
			},
		} {
			if !yield(stat) {
				return
			}
		}
	}
}
