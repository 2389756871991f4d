package manifest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Action is the kind of a [Change].
type Action string

// The actions. The stored limits decide between them, not earlier applies.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	// Adopt makes a level managed that is already stored as declared.
	Adopt Action = "adopt"
)

// Change describes one level that differs.
type Change struct {
	Action        Action
	Scope         limiter.Scope
	Before, After limiter.Config // as stored, and as declared
	Damaged       bool           // the stored level cannot be read; Before is empty
	// Unlisted means that the lists of the store do not show the level. See
	// limiter.ConfigLister.
	Unlisted bool
}

// Fields returns the values that differ: a field named state if the level is
// damaged or unlisted, then the mode, then the limits by name.
func (c Change) Fields() []Field {
	return slices.Concat(c.states(), diffMode(c.Before, c.After), diffLimits(c.Before, c.After))
}

// states returns a field for each state of the level that has to change.
func (c Change) states() (fields []Field) {
	for _, state := range []struct {
		is            bool
		before, after string
	}{{c.Damaged, "damaged", "sound"}, {c.Unlisted, "unlisted", "listed"}} {
		if state.is && c.Action == Delete {
			state.after = ""
		}
		if state.is {
			fields = append(fields, Field{"state", state.before, state.after})
		}
	}
	return fields
}

// Summary returns what differs in a line for each limit: a field named state if the
// level is damaged or unlisted, then the mode, then the limits by name, whose
// values are as ParseLimit reads them after the name, such as 100/min:150 and
// $50.00@month.
func (c Change) Summary() []Field {
	fields := append(c.states(), diffMode(c.Before, c.After)...)
	for _, name := range limitNames(c.Before, c.After) {
		fields = appendDiff(fields, name, limitText(c.Before.Limits, name), limitText(c.After.Limits, name))
	}
	return fields
}

// limitText returns the named limit without its name, or "" if there is none.
func limitText(limits []limiter.Limit, name string) string {
	i := slices.IndexFunc(limits, func(l limiter.Limit) bool { return l.Name == name })
	if i < 0 {
		return ""
	}
	text := strings.TrimPrefix(limits[i].String(), name+" ")
	// String separates a burst and the mark of a shadow limit with a space, and
	// ParseLimit with a colon.
	return strings.NewReplacer(" burst ", ":", " shadow", ":shadow").Replace(text)
}

// requiredAction returns the action that leads from Before to After, or "" if
// none is needed.
func (c Change) requiredAction() Action {
	// A damaged or unlisted level is written again, even if its values are as
	// declared.
	rewrite := c.Damaged || c.Unlisted
	switch {
	case !rewrite && equalConfigs(c.Before, c.After):
		return ""
	case isEmpty(c.After):
		return Delete
	case !rewrite && isEmpty(c.Before):
		return Create
	}
	return Update
}

// phase returns the position of the change in an apply: the system, resources to
// set, resources to delete, entities to set, entities to delete. Changes of one phase
// have no order among them.
func (c Change) phase() int {
	n := map[string]int{"system": 0, "resource": 1, "entity": 3}[Level(c.Scope)]
	if c.Action == Delete && n > 0 {
		n++
	}
	return n
}

func isEmpty(cfg limiter.Config) bool { return len(cfg.Limits) == 0 && cfg.OnUnavailable == "" }

func equalConfigs(a, b limiter.Config) bool {
	return a.OnUnavailable == b.OnUnavailable && slices.Equal(a.Limits, b.Limits)
}

// Field describes one value of a level that changes.
type Field struct {
	// Name is a name such as rpm.capacity or on_unavailable. In a summary, it
	// is the name of a limit.
	Name          string
	Before, After string // "" if absent
}

// appendDiff appends a field if its values differ.
func appendDiff(fields []Field, name, before, after string) []Field {
	if before == after {
		return fields
	}
	return append(fields, Field{name, before, after})
}

// diffMode returns the mode if it differs.
func diffMode(before, after limiter.Config) []Field {
	return appendDiff(nil, fileDialect().onUnavailable, string(before.OnUnavailable), string(after.OnUnavailable))
}

// diffLimits returns the values of limits that differ.
func diffLimits(before, after limiter.Config) (fields []Field) {
	d := fileDialect()
	for _, name := range limitNames(before, after) {
		old, next := limitValues(before.Limits, name), limitValues(after.Limits, name)
		for i, field := range []string{d.capacity, d.refillAmount, d.refillPeriod, d.window, d.zone, d.shadow} {
			fields = appendDiff(fields, name+"."+field, old[i], next[i])
		}
	}
	return fields
}

// limitNames returns the names of the limits of both levels, sorted.
func limitNames(before, after limiter.Config) (names []string) {
	for _, l := range slices.Concat(before.Limits, after.Limits) {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// limitValues returns the values of the named limit as text. They are empty if
// there is no such limit, or if it has no such value.
func limitValues(limits []limiter.Limit, name string) (values [6]string) {
	i := slices.IndexFunc(limits, func(l limiter.Limit) bool { return l.Name == name })
	if i < 0 {
		return values
	}
	l := limits[i]
	for k, n := range []int64{l.Capacity, l.Refill, int64(l.Period / time.Second)} {
		if n != 0 { // the refill of a quota
			values[k] = strconv.FormatInt(n, 10)
		}
	}

	values[3], values[4] = l.Window.String(), l.Zone
	if l.IsShadow {
		values[5] = "true"
	}
	return values
}
