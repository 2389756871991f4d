package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// scenarioChoice selects a scenario and classes of its users: by arguments, or
// the scenario by --locustfile and only classes by arguments.
type scenarioChoice struct{ file, dir string }

func (s *scenarioChoice) addFlags(c *kit.Console, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.file, "locustfile", "f", "",
		"`scenario`, in place of the first argument; the name of its Python file works, too")

	s.addDir(cmd)
	cmd.ValidArgsFunction = s.completer(c)
}

func (s *scenarioChoice) addDir(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.dir, "directory", "C", ".", "`folder` with YAML files of scenarios")
}

// name returns the scenario as the command line names it, and the other arguments.
// It returns "" if there is none.
func (s *scenarioChoice) name(args []string) (name string, classes []string) {
	if s.file == "" && len(args) > 0 {
		return args[0], args[1:]
	}
	return s.file, args
}

// find returns the chosen scenario and the names of the chosen classes, all if
// none is given. It reports the problems of a file.
func (s *scenarioChoice) find(c *kit.Console, args []string) (loadtest.Scenario, []string, error) {
	name, args := s.name(args)

	if name == "" {
		return loadtest.Scenario{}, nil, kit.Usagef(`SCENARIO is missing; "%s scenarios" lists them`, loadCommand(c))
	}
	// A missing file or a wrong name is a mistake on the command line; what is
	// wrong in a file is not.
	found, err := loadtest.Find(name, s.dir, c.Scenarios...)
	switch {
	case errors.Is(err, fs.ErrNotExist), kit.Is[*limiter.InvalidError](err):
		return found, nil, kit.Usagef("%v", err)
	case err != nil:
		return found, nil, reportFile(c, err)
	}

	chosen, err := found.Select(args)
	if err != nil {
		return found, nil, kit.Usagef("%v", err)
	}

	return found, classNames(chosen), nil
}

// loadCommand returns the words that start a command for load tests.
func loadCommand(c *kit.Console) string {
	if c.LoadOnly != "" {
		return c.LoadOnly
	}
	return "zae-limiter loadtest"
}

// reportFile reports the problems of a scenario file: a single one as the error,
// several as messages and their number as the error.
func reportFile(c *kit.Console, err error) error {
	bad, ok := errors.AsType[*loadtest.FileError](err)
	// A single problem is the whole message, so it needs no number.
	if !ok || len(bad.Problems) == 1 {
		return err
	}

	for line := range strings.Lines(bad.Error()) {
		c.Say("%s", strings.TrimSuffix(line, "\n"))
	}

	return fmt.Errorf("%s has %s", bad.File, kit.Count(len(bad.Problems), "problem"))
}

func classNames(s loadtest.Scenario) []string {
	names := make([]string, 0, len(s.Classes))
	for _, c := range s.Classes {
		names = append(names, c.Name)
	}
	return names
}

// completer returns a completion function that suggests scenarios, then classes.
func (s *scenarioChoice) completer(c *kit.Console) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var words []cobra.Completion

		if s.file == "" && len(args) == 0 {
			// Completion leaves out a file with a mistake and goes on.
			all, _ := s.all(c)
			for _, scenario := range all {
				words = append(words, scenario.Name)
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		}

		name, _ := s.name(args)
		if found, err := loadtest.Find(name, s.dir, c.Scenarios...); err == nil {
			words = classNames(found)
		}

		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// all returns all scenarios: of the program, compiled in, and in files. Of two
// with one name it returns the first.
func (s *scenarioChoice) all(c *kit.Console) ([]loadtest.Scenario, error) {
	files, err := loadtest.LoadDir(s.dir)

	var all []loadtest.Scenario
	seen := map[string]bool{}
	for _, list := range [][]loadtest.Scenario{c.Scenarios, loadtest.Scenarios(), files} {
		for _, scenario := range list {
			if !seen[scenario.Name] {
				seen[scenario.Name] = true
				all = append(all, scenario)
			}
		}
	}

	return all, err
}
