package manifest

import (
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Field is a value of a level that is to change.
type Field struct {
	Name          string // such as rpm.capacity, or on_unavailable
	Before, After string // "" where there is none
}

// fieldsOf are the values that differ, the mode first, then limits by name.
func fieldsOf(before, after limiter.Config) []Field {
	var fields []Field
	words := inFile()
	add := func(name, before, after string) {
		if before != after {
			fields = append(fields, Field{name, before, after})
		}
	}
	add(words.onUnavailable, string(before.OnUnavailable), string(after.OnUnavailable))
	var names []string
	for _, l := range slices.Concat(before.Limits, after.Limits) {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		old, next := valuesOf(before.Limits, name), valuesOf(after.Limits, name)
		for i, field := range []string{words.capacity, words.refillAmount, words.refillPeriod} {
			add(name+"."+field, old[i], next[i])
		}
	}
	return fields
}

// valuesOf are the numbers of a limit as text, empty if there is none.
func valuesOf(limits []limiter.Limit, name string) (values [3]string) {
	i := slices.IndexFunc(limits, func(l limiter.Limit) bool { return l.Name == name })
	if i < 0 {
		return values
	}
	l := limits[i]
	for k, n := range []int64{l.Capacity, l.Refill, int64(l.Period / time.Second)} {
		values[k] = strconv.FormatInt(n, 10)
	}
	return values
}
