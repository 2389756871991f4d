package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/chain"
)

// OwnLimitsFrom is the first level of a chain that pays only by limits that are stored
// for its own entity. The entity of a charge is level 0, and its parent level 1. So an
// organization above teams and keys is not held to the limits that a resource has for
// keys.
const OwnLimitsFrom = 2

// PlaceOf returns the place of an entity's record.
func PlaceOf(e *limiter.Entity) chain.Place {
	return chain.Place{Parent: e.Parent, Cascade: e.Cascade, Generation: e.Generation}
}

// Climb returns an entity and the ancestors that its charges reach. place returns the
// place of an entity. Of a chain that is too deep, Climb returns the levels that may pay,
// and the error: a switch of theirs precedes it.
func Climb(entity string, place func(id string) (chain.Place, error)) (levels []string, err error) {
	c := chain.Begin(entity)
	for next := entity; next != ""; {
		p, err := place(next)
		if err != nil {
			return nil, err
		}
		if next, err = Next(&c, p); err != nil {
			return c.Entities[:limiter.MaxLevels], err
		}
	}
	return c.Entities, nil
}

// Next does what [chain.Climb.Next] does, with an error for a chain that is too deep.
func Next(c *chain.Climb, p chain.Place) (parent string, err error) {
	parent, tooDeep := c.Next(p)
	if tooDeep {
		return "", errTooDeep(c.Entities)
	}
	return parent, nil
}

// errTooDeep returns the error for a chain that is longer than a charge may climb.
func errTooDeep(entities []string) error {
	return &limiter.InvalidError{
		Field: "parent_id", Value: strings.Join(entities, " > "),
		Reason: fmt.Sprintf("is a chain of more than %d entities that cascade; move one of them closer to the top",
			limiter.MaxLevels),
	}
}

// CheckPlace returns an error if an entity with this record cannot be stored: if it
// would be its own ancestor, or too deep. A record without a generation, which makes no
// deep tree, is not checked.
func CheckPlace(e *limiter.Entity, place func(id string) (chain.Place, error)) error {
	if e.Generation == 0 {
		return nil
	}

	// Parents that do not cascade count as ancestors too: a walk up the tree must end.
	entities, cascades, levels := []string{e.ID}, e.Cascade, 1
	for id := e.Parent; id != ""; {
		if id == e.ID {
			return &limiter.InvalidError{
				Field: "parent_id", Value: e.Parent,
				Reason: fmt.Sprintf("would make entity %s its own ancestor: %s", e.ID,
					strings.Join(append(entities, id), " > ")),
			}
		}
		// Older releases store circles. A charge pays each entity once.
		if slices.Contains(entities, id) {
			return nil
		}
		entities = append(entities, id)

		if cascades {
			if levels++; levels > limiter.MaxLevels {
				return errTooDeep(entities)
			}
		}

		above, err := place(id)
		if err != nil {
			return err
		}
		id, cascades = above.Parent, cascades && above.Cascade
	}
	return nil
}
