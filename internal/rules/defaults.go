package rules

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Defaults are the limits of a bucket under the defaults of a charge, which are
// by name: those, and what else the bucket has. own are its limits, none if it
// is new.
func Defaults(defaults, own []limiter.Limit) []limiter.Limit {
	var kept []limiter.Limit
	for i, l := range own {
		if find(defaults, l.Name, i) < 0 {
			kept = append(kept, l)
		}
	}
	if kept == nil {
		return slices.Clone(defaults)
	}
	return Sorted(append(kept, defaults...))
}

// Follows reports whether a bucket with these limits is as the defaults of a
// charge, of which there is at least one, would make it.
func Follows(own, defaults []limiter.Limit) bool {
	for i, l := range defaults {
		if j := find(own, l.Name, i); j < 0 || own[j] != l {
			return false
		}
	}
	return len(defaults) > 0
}
