package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/manifest"
)

// problemShape is what is wrong with a manifest as JSON.
type problemShape struct {
	Line    int    `json:"line" doc:"where, beginning at 1; 0 where it is not known"`
	Column  int    `json:"column" doc:"where in the line"`
	Path    string `json:"path" doc:"such as resources.gpt-4.limits.rpm"`
	Problem string `json:"problem" doc:"what is wrong, and what would be right"`
}

func newLimitsValidate(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a manifest, without a store",
		Long: `Checks a manifest and tells everything that is wrong with it, by line and
column, on stderr. It needs no store. The code is 1 if there is a problem.

With --json they are printed, as an array of objects with line, column, path,
problem.`,
		Example:           "  zae-limiter limits validate limits.yaml\n  zae-limiter limits validate --json - < limits.yaml",
		Args:              arguments(fileArg(&o.file)),
		ValidArgsFunction: completeManifest,
		RunE:              func(*cobra.Command, []string) error { return runLimitsValidate(o) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	cmd.Annotations = map[string]string{}
	addShape[problemShape](cmd, "With `--json` it is "+anArray)
	return cmd
}

func runLimitsValidate(o limitsOptions) error {
	m, err := o.parse()
	bad, invalid := errors.AsType[*manifest.ParseError](err)
	if err != nil && !invalid {
		return err
	}
	if o.json {
		var problems []manifest.Problem
		if invalid {
			problems = bad.Problems
		}
		list := listing[manifest.Problem]{object: func(p manifest.Problem) any { return problemShape{p.Line, p.Column, p.Path, p.Text} }}
		if err := list.print(o.console, true, each(problems)); err != nil {
			return err
		}
	}
	if invalid && o.json { // which lists them
		return fmt.Errorf("%s has %s", o.file, count(len(bad.Problems), "problem"))
	}
	if invalid {
		return o.tellProblems(bad)
	}
	where := "any namespace"
	if m.Namespace != "" {
		where = "namespace " + m.Namespace
	}
	o.done("%s is valid: for %s, it declares %s", o.file, where, counts(m.Levels))
	return nil
}
