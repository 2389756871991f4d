package jsonview

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Switch is a level that is off as JSON.
type Switch struct {
	Level    string    `json:"level" doc:"entity (with a resource), entity_default (without one), resource or system"`
	Entity   *string   `json:"entity_id" doc:"entity of the level"`
	Resource *string   `json:"resource" doc:"resource of the level"`
	Reason   *string   `json:"reason" doc:"why it is off; null if no reason was given"`
	Since    time.Time `json:"since" doc:"time since when it is off"`
}

// NewSwitch returns a level that is off as JSON.
func NewSwitch(s limiter.Switch) Switch {
	return Switch{s.Scope.Level(), OrNull(s.Scope.Entity), OrNull(s.Scope.Resource), OrNull(s.Reason), s.Since.UTC()}
}

// SwitchOrNull returns a level that is off as JSON, or nil for nil.
func SwitchOrNull(s *limiter.Switch) *Switch {
	if s == nil {
		return nil
	}
	object := NewSwitch(*s)
	return &object
}

// SwitchOf returns the switch that an error reports, or nil if the error is not a
// *limiter.DisabledError.
func SwitchOf(err error) *limiter.Switch {
	off, ok := errors.AsType[*limiter.DisabledError](err)
	if !ok {
		return nil
	}
	return &limiter.Switch{Scope: off.Scope, Reason: off.Reason, Since: off.Since}
}

// ReadSwitches returns the levels that are off and refuse calls of the first entity of a
// chain: those of each entity of the chain, of the given resources, and everything.
func ReadSwitches(
	ctx context.Context, lim *limiter.RateLimiter, chain []limiter.Entity, resources ...string,
) ([]limiter.Switch, error) {
	var all []limiter.Switch
	for s, err := range lim.Switches(ctx) {
		if err != nil {
			return nil, err
		}
		of := s.Scope
		reached := of.Entity == "" ||
			slices.ContainsFunc(chain, func(e limiter.Entity) bool { return e.ID == of.Entity })
		// A switch of another level concerns the calls of the given resources
		// only.
		if reached && (of.Resource == "" || of.Entity == chain[0].ID || slices.Contains(resources, of.Resource)) {
			all = append(all, s)
		}
	}

	return all, nil
}

func allSwitches(seq iter.Seq2[limiter.Switch, error]) (all []limiter.Switch, err error) {
	for s, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Refusing returns the switch among those that are off that refuses calls of a chain of
// entities for a resource, or nil.
func Refusing(off []limiter.Switch, resource string, chain ...limiter.Entity) *limiter.Switch {
	for _, e := range chain {
		for _, scope := range limiter.Precedence(e.ID, resource) {
			if i := slices.IndexFunc(off, func(s limiter.Switch) bool { return s.Scope == scope }); i >= 0 {
				return &off[i]
			}
		}
	}
	return nil
}

// ReadSwitch returns the switch of exactly one level, or nil if it is not off.
func ReadSwitch(ctx context.Context, lim *limiter.RateLimiter, of limiter.Scope) (*limiter.Switch, error) {
	for s, err := range lim.Switches(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Scope == of {
			return &s, nil
		}
	}
	return nil, nil //nolint:nilnil // not being off is no error
}

// NewSwitches returns levels that are off as JSON, nil if there are none.
func NewSwitches(all []limiter.Switch) []Switch {
	var objects []Switch
	for _, s := range all {
		objects = append(objects, NewSwitch(s))
	}

	return objects
}
