package loadtest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

// scenarioChoice selects a scenario and classes of its users: by arguments, or
// the scenario by --locustfile and only classes by arguments.
type scenarioChoice struct {
	program   Program
	file, dir string
}

func (s *scenarioChoice) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.file, "locustfile", "f", "",
		"`scenario`, in place of the first argument; the name of its Python file works, too")

	s.addDir(cmd)
	cmd.ValidArgsFunction = s.completer()
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
		return loadtest.Scenario{}, nil, kit.Usagef(
			`SCENARIO is missing; "%s scenarios" lists them`, s.program.command())
	}
	// A missing file or a wrong name is a mistake on the command line; what is
	// wrong in a file is not.
	found, err := loadtest.Find(name, s.dir, s.program.Scenarios...)
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
func (s *scenarioChoice) completer() cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var words []cobra.Completion

		if s.file == "" && len(args) == 0 {
			// Completion leaves out a file with a mistake and goes on.
			all, _ := s.all()
			for _, scenario := range all {
				words = append(words, scenario.Name)
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		}

		name, _ := s.name(args)
		if found, err := loadtest.Find(name, s.dir, s.program.Scenarios...); err == nil {
			words = classNames(found)
		}

		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// all returns all scenarios: of the program, compiled in, and in files. Of two
// with one name it returns the first.
func (s *scenarioChoice) all() ([]loadtest.Scenario, error) {
	files, err := loadtest.LoadDir(s.dir)

	var all []loadtest.Scenario
	seen := map[string]bool{}
	for _, list := range [][]loadtest.Scenario{s.program.Scenarios, loadtest.Scenarios(), files} {
		for _, scenario := range list {
			if !seen[scenario.Name] {
				seen[scenario.Name] = true
				all = append(all, scenario)
			}
		}
	}

	return all, err
}

type scenariosOptions struct {
	*kit.Console
	choice scenarioChoice
	json   bool
}

func newScenarios(c *kit.Console, p Program) *cobra.Command {
	o := scenariosOptions{Console: c, choice: scenarioChoice{program: p}}
	cmd := &cobra.Command{
		Use:     "scenarios",
		Aliases: []string{"ls"},
		Short:   "List the scenarios",
		Long: `List the scenarios with their classes and shapes: those of the program, and
those that YAML files in --directory define. A file with a mistake is reported
and left out.`,
		Example: "  zae-limiter loadtest scenarios\n  zae-limiter loadtest scenarios -C scenarios --json",
		Args:    kit.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runScenarios(o) },
	}

	o.choice.addDir(cmd)
	kit.AddJSON[scenarioJSON](cmd, &o.json, kit.AnArray, scenarioColumns)
	return cmd
}

func runScenarios(o scenariosOptions) error {
	all, err := o.choice.all()
	if errors.Is(err, fs.ErrNotExist) {
		return kit.Usagef("%v", err)
	}
	// The scenarios without a mistake are listed in any case, and then err
	// reports the mistakes.
	if err := scenarioListing().Print(o.Console, o.json, kit.Each(all)); err != nil {
		return err
	}
	return err
}

// scenarioJSON is a scenario as JSON.
type scenarioJSON struct {
	Name        string   `json:"name" doc:"name of the scenario"`
	Classes     []string `json:"classes" doc:"classes of its users"`
	Shapes      []string `json:"shapes" doc:"shapes of its load"`
	Description string   `json:"description" doc:"what it does"`
}

var scenarioColumns = []kit.Column{
	{Title: "name", Whole: true},
	{Title: "classes", Whole: true},
	{Title: "shapes", Spare: true},
	{Title: "description"},
}

func scenarioListing() kit.Listing[loadtest.Scenario] {
	shapes := func(s loadtest.Scenario) []string {
		names := []string{}
		for _, shape := range s.Shapes {
			names = append(names, shape.Name)
		}
		return names
	}

	return kit.Listing[loadtest.Scenario]{
		Columns: scenarioColumns,
		Row: func(s loadtest.Scenario) []kit.Cell {
			return []kit.Cell{
				kit.Text(s.Name), kit.Text(strings.Join(classNames(s), ",")), kit.Text(strings.Join(shapes(s), ",")),
				kit.Text(s.Description),
			}
		},
		Object:  func(s loadtest.Scenario) any { return scenarioJSON{s.Name, classNames(s), shapes(s), s.Description} },
		Nothing: "There are no scenarios.",
	}
}

func newSchema(c *kit.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of scenario files",
		Long: `Print the JSON Schema of scenario files, with which editors check and complete
them.`,
		Example: "  zae-limiter loadtest schema > scenario.schema.json",
		Args:    kit.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := c.Out.Write([]byte(loadtest.Schema()))
			return err
		},
	}
}

func newLocustfile(c *kit.Console, p Program) *cobra.Command {
	choice := scenarioChoice{program: p}
	var o locust.FileOptions
	cmd := &cobra.Command{
		Use:   "locustfile SCENARIO [CLASS...]",
		Short: "Print the Python file of a Locust master",
		Long: `Print the Python file that a Locust master loads to run a scenario. It holds the
names and weights of the classes of users, which run in workers that
"zae-limiter loadtest worker" starts. When a test begins, the master sends its
ID to all workers, which then share a namespace. At the end one of them removes
it, unless --keep was given.

A shape takes the place of the number of users. With its option --class-picker,
Locust offers all classes and shapes on its page.`,
		Example: `  zae-limiter loadtest locustfile simple > simple.py
  locust -f simple.py --master --master-bind-host 127.0.0.1 --web-host 127.0.0.1
  zae-limiter loadtest locustfile llm_production --shape MorningSpike > spike.py`,
		RunE: func(_ *cobra.Command, args []string) error {
			scenario, classes, err := choice.find(c, args)
			if err != nil {
				return err
			}

			o.Classes = classes
			file, err := locust.File(scenario, &o)
			if err != nil {
				return kit.Usagef("%v", err)
			}

			_, err = c.Out.Write(file)
			return err
		},
	}

	choice.addFlags(cmd)
	cmd.Flags().StringVar(&o.Shape, "shape", "", "`name` of the shape that the master follows")

	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the namespace of a test in the store")
	return cmd
}
