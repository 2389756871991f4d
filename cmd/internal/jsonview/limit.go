package jsonview

import (
	"cmp"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Limit is a limit as JSON.
type Limit struct {
	Name     string `json:"name" doc:"name of the limit"`
	Capacity int64  `json:"capacity" doc:"maximum number of tokens (burst)"`
	Refill   int64  `json:"refill_amount" doc:"tokens refilled every period; 0 for a quota"`
	Seconds  int64  `json:"refill_period_seconds" doc:"length of the period; 0 for a quota"`
	Kind
	Dollars *LimitDollars `json:"dollars,omitempty" doc:"for limits of money: capacity and refill_amount in dollars"`
}

// Kind holds the fields of a limit that is not a plain rate.
type Kind struct {
	Window string `json:"window,omitempty" doc:"window of a quota: hour, day, week, month or year; absent for a rate"`
	Zone   string `json:"zone,omitempty" doc:"IANA zone of the window; absent for UTC"`
	Shadow bool   `json:"shadow,omitempty" doc:"whether it is a shadow limit, which never refuses; absent if not"`
}

func newKind(l limiter.Limit) Kind { return Kind{l.Window.String(), l.Zone, l.IsShadow} }

// NewLimit returns a limit as JSON.
func NewLimit(l limiter.Limit) Limit {
	return Limit{l.Name, l.Capacity, l.Refill, int64(l.Period / time.Second), newKind(l), NewLimitDollars(l)}
}

// NewLimits returns limits as JSON.
func NewLimits(all []limiter.Limit) []Limit {
	objects := make([]Limit, len(all))
	for i, l := range all {
		objects[i] = NewLimit(l)
	}
	return objects
}

// System holds the defaults of the system as JSON.
type System struct {
	Limits        []Limit `json:"limits"`
	OnUnavailable *string `json:"on_unavailable" doc:"block or allow when the store is unavailable"`
	Disabled      *Switch `json:"disabled,omitempty" doc:"reason and since, if everything is off; absent if not"`
}

// FieldDocs returns the texts that are too long for tags.
func (System) FieldDocs() map[string]string { return map[string]string{"limits": limitsDoc} }

// NewSystem returns the defaults of the system as JSON.
func NewSystem(limits []limiter.Limit, mode limiter.OnUnavailable) System {
	return System{NewLimits(limits), OrNull(string(mode)), nil}
}

// AllResources names limits of an entity for all resources.
const AllResources = "_default_"

// OrAllResources returns the name of a resource, AllResources for "".
func OrAllResources(resource string) string { return cmp.Or(resource, AllResources) }
