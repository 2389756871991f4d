package dashboard

import (
	"math"
	"sync"

	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// Info describes the dashboard and the session, as JSON.
type Info struct {
	Store     string  `json:"store"`
	Namespace string  `json:"namespace"`
	Role      Role    `json:"role"`
	Principal *string `json:"principal"`
	// Write reports whether the session may change things.
	Write   bool   `json:"write"`
	Version string `json:"version"`
	// Kind is local, serve or demo.
	Kind string `json:"kind"`
	// ReadBudget and ReadRate are null unless the store bills reads.
	ReadBudget *float64 `json:"read_budget"`
	ReadRate   *float64 `json:"read_rate"`
	Demo       any      `json:"demo"`
}

func info(c *call) (any, error) {
	if err := c.exists(c.ctx); err != nil {
		return nil, err
	}

	o := &c.h.opts
	i := Info{
		Store: o.Store, Namespace: c.name, Role: c.by.Role, Principal: jsonview.OrNull(c.by.Name),
		Write: o.Write && c.by.Role == RoleAdmin, Version: o.Version, Kind: "serve", ReadRate: c.readRate(),
		Demo: o.Demo,
	}

	switch {
	case o.Demo != nil:
		i.Kind = "demo"
	case c.by.local:
		i.Kind = "local"
	}

	if c.billed() {
		i.ReadBudget = &o.ReadBudget
	}

	return i, nil
}

// readRate returns the read units spent per second, nil unless the store bills
// them.
func (s *space) readRate() *float64 {
	if !s.billed() {
		return nil
	}

	_, rate := s.spent()
	rate = math.Round(rate*10) / 10
	return &rate
}

// resourceSet collects the names of resources that were seen in buckets.
type resourceSet struct {
	mu    sync.Mutex
	names map[string]bool
}

// maxResources bounds the names that are kept.
const maxResources = 1000

func newResourceSet() *resourceSet { return &resourceSet{names: map[string]bool{}} }

func (r *resourceSet) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.names) < maxResources {
		r.names[name] = true
	}
}

func (r *resourceSet) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.names))
	for name := range r.names {
		names = append(names, name)
	}
	return names
}
