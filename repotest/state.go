package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// state is a snapshot of everything that a store shows of one namespace, and
// its list of namespaces.
type state struct {
	Mode       limiter.OnUnavailable
	Entities   []limiter.Entity
	Configs    []limiter.Config
	Buckets    []limiter.Bucket
	Usage      []limiter.UsageSnapshot
	Events     []limiter.AuditEvent
	Namespaces []limiter.Namespace
	Managed    []limiter.Scope
	Hash       string
	Switches   []limiter.Switch
}

// state reads a snapshot at d.
func (f *fixture) state(d time.Duration) (s state) {
	f.Helper()

	s.Entities = collect(f, "Entities", f.repo.Entities(f.ctx, ""))
	s.Buckets = f.buckets(d, limiter.Scope{Resource: model})
	s.Usage = f.usage(limiter.UsageQuery{Resource: model})

	for _, scope := range []limiter.Scope{
		{}, {Resource: model}, {Entity: "key-1"}, {Entity: "key-1", Resource: model},
	} {
		cfg, err := f.repo.Config(f.ctx, scope)
		f.ok("Config", err)
		s.Configs = append(s.Configs, cfg)
	}

	for _, entity := range []string{"$SYSTEM", "$RESOURCE:" + model, "key-1", "key-2", "project-1"} {
		s.Events = append(s.Events, f.audit(entity, "")...)
	}

	s.Switches = f.switches()
	s.Namespaces = collect(f, "Namespaces", f.repo.Namespaces(f.ctx))

	if _, ok := limiter.Optional[limiter.ManagedStore](f.repo); ok {
		s.Managed, s.Hash = f.managed()
	}
	// Reading the config of the system above has set the mode.
	s.Mode = f.repo.OnUnavailable()
	return s
}

func (f *fixture) audit(entity, after string) []limiter.AuditEvent {
	f.Helper()
	return collect(f, "AuditEvents", f.repo.AuditEvents(f.ctx, entity, after))
}

// usage returns the snapshots of a query without counters of 0. A store may
// leave out such a counter.
func (f *fixture) usage(q limiter.UsageQuery) []limiter.UsageSnapshot {
	f.Helper()

	all := collect(f, "Usage", f.repo.Usage(f.ctx, q))
	for _, s := range all {
		for limit, n := range s.Counters {
			if n == 0 {
				delete(s.Counters, limit)
			}
		}
	}
	return all
}
