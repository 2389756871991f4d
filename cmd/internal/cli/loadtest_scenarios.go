package cli

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

type loadScenariosOptions struct {
	*kit.Console
	choice scenarioChoice
	json   bool
}

func newLoadtestScenarios(c *kit.Console) *cobra.Command {
	o := loadScenariosOptions{Console: c}
	cmd := &cobra.Command{
		Use:     "scenarios",
		Aliases: []string{"ls"},
		Short:   "List the scenarios",
		Long: `List the scenarios with their classes and shapes: those of the program, and
those that YAML files in --directory define. A file with a mistake is reported
and left out.`,
		Example: "  zae-limiter loadtest scenarios\n  zae-limiter loadtest scenarios -C scenarios --json",
		Args:    kit.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runLoadScenarios(o) },
	}

	o.choice.addDir(cmd)
	kit.AddJSON[scenarioJSON](cmd, &o.json, kit.AnArray, scenarioColumns)
	return cmd
}

func runLoadScenarios(o loadScenariosOptions) error {
	all, err := o.choice.all(o.Console)
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

func newLoadtestSchema(c *kit.Console) *cobra.Command {
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
