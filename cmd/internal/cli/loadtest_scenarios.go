package cli

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

type loadScenariosOptions struct {
	*console
	choice scenarioChoice
	json   bool
}

func newLoadtestScenarios(c *console) *cobra.Command {
	o := loadScenariosOptions{console: c}
	cmd := &cobra.Command{
		Use:     "scenarios",
		Aliases: []string{"ls"},
		Short:   "List the scenarios",
		Long: `List the scenarios with their classes and shapes: those of the program, and
those that YAML files in --directory define. A file with a mistake is reported
and left out.`,
		Example: "  zae-limiter loadtest scenarios\n  zae-limiter loadtest scenarios -C scenarios --json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return runLoadScenarios(o) },
	}

	o.choice.addDir(cmd)
	addJSON[scenarioJSON](cmd, &o.json, anArray, scenarioColumns)
	return cmd
}

func runLoadScenarios(o loadScenariosOptions) error {
	all, err := o.choice.all(o.console)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("%v", err)
	}
	// The scenarios without a mistake are listed in any case, and then err
	// reports the mistakes.
	if err := scenarioListing().print(o.console, o.json, each(all)); err != nil {
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

var scenarioColumns = []column{
	{title: "name", whole: true},
	{title: "classes", whole: true},
	{title: "shapes", spare: true},
	{title: "description"},
}

func scenarioListing() listing[loadtest.Scenario] {
	shapes := func(s loadtest.Scenario) []string {
		names := []string{}
		for _, shape := range s.Shapes {
			names = append(names, shape.Name)
		}
		return names
	}

	return listing[loadtest.Scenario]{
		scenarioColumns,
		func(s loadtest.Scenario) []cell {
			return []cell{
				text(s.Name), text(strings.Join(classNames(s), ",")), text(strings.Join(shapes(s), ",")),
				text(s.Description),
			}
		},
		func(s loadtest.Scenario) any { return scenarioJSON{s.Name, classNames(s), shapes(s), s.Description} },
		"There are no scenarios.",
	}
}

func newLoadtestSchema(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of scenario files",
		Long: `Print the JSON Schema of scenario files, with which editors check and complete
them.`,
		Example: "  zae-limiter loadtest schema > scenario.schema.json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := c.out.Write([]byte(loadtest.Schema()))
			return err
		},
	}
}
