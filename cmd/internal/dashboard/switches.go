package dashboard

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/chain"
)

// switchSet holds the levels that are off.
type switchSet map[limiter.Scope]limiter.Switch

// maxSwitches bounds the levels that are read. Rows do not show the others.
const maxSwitches = 10_000

// off returns the levels that are off, as of a moment ago. If the store does not
// answer, off returns the result of the last read.
func (s *space) off(ctx context.Context) switchSet {
	set, _ := s.switches.get(ctx, struct{}{})
	return set
}

// readSwitches returns the levels that are off, and the life of that.
func (s *space) readSwitches(ctx context.Context, _ struct{}) (switchSet, time.Duration, error) {
	set := switchSet{}
	for one, err := range s.repo.Switches(ctx) {
		if err != nil {
			return nil, 0, outage(err)
		}
		if set[one.Scope] = one; len(set) == maxSwitches {
			break
		}
	}
	return set, s.pace.configFor, nil
}

// refusing returns the switch that refuses the charges of a bucket, or nil. It climbs as
// far as labels are known.
func (set switchSet) refusing(entity, resource string, labels map[string]label) *jsonview.Switch {
	if len(set) == 0 {
		return nil
	}

	climb := chain.Begin(entity)
	for id := entity; id != ""; {
		for _, scope := range limiter.Precedence(id, resource) {
			if one, found := set[scope]; found {
				return jsonview.SwitchOrNull(&one)
			}
		}
		l := labels[id]
		id, _ = climb.Next(chain.Place{Parent: l.parent, Cascade: l.cascade, Generation: l.generation})
	}
	return nil
}

// of returns the levels that are off and refuse some or all calls of an entity, or
// of all entities if it is "", for some resources. The ancestors are those that the calls
// of the entity reach.
func (set switchSet) of(entity string, ancestors []limiter.Entity, resources ...string) []jsonview.Switch {
	found := []limiter.Switch{}
	for scope, one := range set {
		mine := scope.Entity == "" || scope.Entity == entity ||
			slices.ContainsFunc(ancestors, func(e limiter.Entity) bool { return e.ID == scope.Entity })
		// A switch of the entity itself concerns it whatever the resource, so
		// the page shows all of them.
		if mine && (scope.Resource == "" || slices.Contains(resources, scope.Resource) || entity != "" &&
			scope.Entity == entity) {
			found = append(found, one)
		}
	}

	slices.SortFunc(found, func(a, b limiter.Switch) int { return compareScopes(a.Scope, b.Scope) })
	// The page expects an empty list where NewSwitches returns nil.
	return append([]jsonview.Switch{}, jsonview.NewSwitches(found)...)
}
