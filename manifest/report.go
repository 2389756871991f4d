package manifest

import "slices"

// Result is what came of a change. Err is nil if it was made.
type Result struct {
	Change
	Err error

	tried   bool
	unknown bool // whether it was made
}

// Begun tells whether the change was tried. If not, its error is that of the
// whole.
func (r Result) Begun() bool { return r.tried }

// Report is what an apply did.
type Report struct {
	Results []Result // in the order of the plan
	Same    int      // levels that were as declared
	Adopted []Change // of those, what is managed from now on

	owner owner // as noted
}

// Count is how many changes of a kind were made.
func (r *Report) Count(a Action) int {
	n := 0
	for _, result := range r.Results {
		if result.Action == a && result.Err == nil {
			n++
		}
	}
	return n
}

// Made are the changes that were made.
func (r *Report) Made() []Change {
	var made []Change
	for _, result := range r.Results {
		if result.Err == nil {
			made = append(made, result.Change)
		}
	}
	return made
}

// Failed are the changes that were not made, as far as is known.
func (r *Report) Failed() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(result Result) bool { return result.Err == nil })
}

// Left is how many changes were not begun, and why.
func (r *Report) Left() (n int, why error) {
	for _, result := range r.Results {
		if result.Err != nil && !result.tried {
			n, why = n+1, result.Err
		}
	}
	return n, why
}
