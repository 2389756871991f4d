package manifest

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Action is what is to be done to a level.
type Action string

// The actions there are. Whether there is something to create, update or delete
// is decided by what is stored, not by what was applied before.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	// Adopt is no change: what is stored as declared becomes managed.
	Adopt Action = "adopt"
)

// Change is one level that differs.
type Change struct {
	Action        Action
	Scope         limiter.Scope
	Before, After limiter.Config // as stored, and as it will be
	Damaged       bool           // what is stored cannot be read, so that Before is empty
	Unlisted      bool           // no list of the store shows what is stored; see [limiter.ConfigLister]
}

// Fields are the values that differ: what is wrong with the whole, called state,
// then the mode, then limits by name.
func (c Change) Fields() []Field {
	var fields []Field
	for _, wrong := range []struct {
		is            bool
		before, after string
	}{{c.Damaged, "damaged", "sound"}, {c.Unlisted, "unlisted", "listed"}} {
		if wrong.is && c.Action == Delete {
			wrong.after = ""
		}
		if wrong.is {
			fields = append(fields, Field{"state", wrong.before, wrong.after})
		}
	}
	return append(fields, fieldsOf(c.Before, c.After)...)
}

// action is what has to be done, "" if nothing.
func (c Change) action() Action {
	wrong := c.Damaged || c.Unlisted
	switch {
	case !wrong && same(c.Before, c.After):
		return ""
	case empty(c.After):
		return Delete
	case !wrong && empty(c.Before):
		return Create
	}
	return Update
}

// phase is when a change is made. Those of one phase need no order.
func (c Change) phase() int {
	n := map[string]int{"system": 0, "resource": 1, "entity": 3}[Level(c.Scope)]
	if c.Action == Delete && n > 0 {
		n++
	}
	return n
}

func empty(cfg limiter.Config) bool { return len(cfg.Limits) == 0 && cfg.OnUnavailable == "" }

func same(a, b limiter.Config) bool {
	return a.OnUnavailable == b.OnUnavailable && slices.Equal(a.Limits, b.Limits)
}
