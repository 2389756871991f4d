package loadtest

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// Scenarios returns the scenarios of this package, by name.
func Scenarios() []Scenario {
	return []Scenario{llmGateway(), llmProduction(), maxRPS(), simple(), stress()}
}

// Find returns the scenario with a name. It looks for the name in extra, then
// in this package, and then in dir: for chat, the file chat.yaml comes before a
// file with the key name: chat. Find also accepts the name of a Python file,
// such as locustfiles/max_rps.py for max_rps. A name with the extension of a
// YAML file is always a file, relative to dir. If none or several have the
// name, the error is a *[limiter.InvalidError] that lists the names. If the
// file is wrong, it is a *[FileError].
func Find(name, dir string, extra ...Scenario) (Scenario, error) {
	// The path may come from a script for Windows, whose separator package path
	// does not know.
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
	if near := yamlfile.Nearest(wanted, names); near != "" {
		reason = "no such scenario; did you mean " + near + "? There are " + strings.Join(names, ", ")
	}
	reason += ", and the files NAME.yaml in " + cmp.Or(dir, ".")
	return Scenario{}, &limiter.InvalidError{Field: "scenario", Value: name, Reason: reason}
}

// Program runs the command line of the process with additional scenarios and
// returns the exit code. Package cmd/program has one.
type Program func(scenarios []Scenario) int

// Main runs a program with scenarios of its own. It checks them and runs the
// program, which has the commands of "zae-limiter loadtest":
//
//	func main() { os.Exit(loadtest.Main(program.Run, checkout)) }
//
// A scenario replaces one of this package that has the same name. If a scenario
// is not valid, Main writes the reason to stderr and returns 2.
func Main(run Program, scenarios ...Scenario) int {
	for i, s := range scenarios {
		err := s.Validate()
		for _, other := range scenarios[:i] {
			if err == nil && other.Name == s.Name {
				err = invalid("scenario", s.Name, "is given twice; give each scenario once")
			}
		}

		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}

	return run(scenarios)
}

//go:embed schema.json
var schema string

// Schema returns a JSON Schema of scenario files, for editors. It accepts the
// files that [Parse] accepts, except for rules that a schema cannot express,
// such as limits that a task consumes and no level defines.
func Schema() string { return schema }
