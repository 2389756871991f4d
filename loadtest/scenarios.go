package loadtest

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Scenarios returns the scenarios of this package, by name.
func Scenarios() []Scenario {
	return []Scenario{llmGateway(), llmProduction(), maxRPS(), simple(), stress()}
}

// Find returns the scenario with a name: one of extra, one of this package, or
// one that a file in dir defines: chat.yaml for chat, else a file with the key
// name: chat. It accepts the name of a Python file too, such as
// locustfiles/max_rps.py for max_rps. A name with the extension of a YAML file
// is always a file, relative to dir. If none or several have the name, the error
// is a *[limiter.InvalidError] that lists the names; if the file is wrong, it is
// a *[FileError].
func Find(name, dir string, extra ...Scenario) (Scenario, error) {
	wanted := strings.TrimSuffix(path.Base(strings.ReplaceAll(name, `\`, "/")), ".py")
	all := slices.Concat(extra, Scenarios())
	for _, s := range all {
		if s.Name == wanted {
			return s, nil
		}
	}
	if file := findFile(name, wanted, dir); file != "" {
		return Load(file)
	}
	if s, ok, err := findNamed(wanted, dir); ok || err != nil {
		return s, err
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	reason := "no such scenario; choose from " + strings.Join(names, ", ")
	if near := nearest(wanted, names); near != "" {
		reason = "no such scenario; did you mean " + near + "? There are " + strings.Join(names, ", ")
	}
	reason += ", and the files NAME.yaml in " + cmp.Or(dir, ".")
	return Scenario{}, &limiter.InvalidError{Field: "scenario", Value: name, Reason: reason}
}

// nearest returns the name that differs from wanted by the fewest changes, or ""
// if all differ by more than a third of it.
func nearest(wanted string, names []string) string {
	best, least := "", len(wanted)/3+1
	for _, name := range names {
		if d := distance(wanted, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns the number of bytes to insert, remove or replace between a
// and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
