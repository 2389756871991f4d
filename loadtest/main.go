package loadtest

import (
	"fmt"
	"os"
)

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
