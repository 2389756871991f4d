package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// problemJSON is a problem of a manifest as JSON.
type problemJSON struct {
	Line    int    `json:"line" doc:"line, from 1; 0 if unknown"`
	Column  int    `json:"column" doc:"column in the line"`
	Path    string `json:"path" doc:"such as resources.gpt-4.limits.rpm"`
	Problem string `json:"problem" doc:"what is wrong, and what would be right"`
}

func newLimitsValidate(conn *kit.Connection) *cobra.Command {
	o := limitsOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a manifest without a store",
		Long: `Check a manifest and report every problem with its line and column on stderr.
The command needs no store. The exit code is 1 if there is a problem.

With --json, print the problems as an array of objects with line, column, path,
problem.`,
		Example: "  zae-limiter limits validate limits.yaml\n  zae-limiter limits validate --json " +
			"- < limits.yaml",
		Args:              kit.Arguments(fileArg(&o.file)),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(*cobra.Command, []string) error { return runLimitsValidate(o) },
	}

	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	cmd.Annotations = map[string]string{}
	kit.DocumentFields[problemJSON](cmd, "`--json` prints "+kit.AnArray)
	return cmd
}

func runLimitsValidate(o limitsOptions) error {
	m, err := o.parseFile()
	bad, invalid := errors.AsType[*manifest.ParseError](err)
	if err != nil && !invalid {
		return err
	}

	if o.json {
		var problems []manifest.Problem
		if invalid {
			problems = bad.Problems
		}
		list := kit.Listing[manifest.Problem]{Object: func(p manifest.Problem) any {
			return problemJSON{p.Line, p.Column, p.Path, p.Text}
		}}
		if err := list.Print(o.Console, true, kit.Each(problems)); err != nil {
			return err
		}
	}

	// The problems are on stdout, so the error holds their number alone.
	if invalid && o.json {
		return fmt.Errorf("%s has %s", o.file, kit.Count(len(bad.Problems), "problem"))
	}

	if invalid {
		return o.reportProblems(bad)
	}

	where := "any namespace"
	if m.Namespace != "" {
		where = "namespace " + m.Namespace
	}

	o.Done("%s is valid: for %s, it declares %s", o.file, where, levelCounts(m.Levels))
	return nil
}
