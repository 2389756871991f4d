package server

import (
	"fmt"
	"net/http"
)

// Metrics returns a handler that shows the gauges of the server in the text
// format of Prometheus. It asks for no token.
func (s *Server) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		draining := 0
		if s.draining.Load() {
			draining = 1
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		for _, gauge := range []struct {
			name, help string
			value      int
		}{
			{"leases_open", "Leases that are not settled.", s.leases.len()},
			{"idempotency_keys", "Idempotency keys that are remembered.", s.keys.len()},
			{"draining", "Whether the server refuses new leases.", draining},
		} {
			_, _ = fmt.Fprintf(w, "# HELP zae_limiter_server_%[1]s %[2]s\n# TYPE zae_limiter_server_%[1]s gauge\nzae_limiter_server_%[1]s %[3]d\n", gauge.name, gauge.help, gauge.value)
		}
	})
}
