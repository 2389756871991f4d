// Package chain follows the parents of entities up to the last one that a charge reaches.
package chain

import "slices"

// MaxLevels is the largest number of entities that one charge reaches.
const MaxLevels = 8

// Place is the part of an entity's record that decides where its charges go. It is zero
// for an entity without a record.
type Place struct {
	Parent     string
	Cascade    bool
	Generation int64
}

// Climb is a chain of entities that is under way. Begin returns one.
type Climb struct {
	Entities []string // the entity of the charge, its parent, and so on
	end      int      // the length at which the chain ends, 0 for unknown
}

// Begin returns a chain of one entity.
func Begin(entity string) Climb { return Climb{Entities: append(make([]string, 0, 4), entity)} }

// Next adds the parent of the last entity, whose place it gets, and returns it. It
// returns "" where the chain ends, and reports whether it ends because it is too deep.
func (c *Climb) Next(p Place) (parent string, tooDeep bool) {
	// Python accepts an entity as its own parent, and older releases accept a circle. An
	// entity pays once.
	if !p.Cascade || p.Parent == "" || slices.Contains(c.Entities, p.Parent) {
		return "", false
	}

	// A tree that was stored before there were deep ones must not change: charges of an
	// entity with such a record reach its parent and go no further.
	if p.Generation == 0 && c.end == 0 {
		c.end = len(c.Entities) + 1
	}
	if c.end != 0 && len(c.Entities) >= c.end {
		return "", false
	}

	c.Entities = append(c.Entities, p.Parent)
	if len(c.Entities) > MaxLevels {
		return "", true
	}
	return p.Parent, false
}
