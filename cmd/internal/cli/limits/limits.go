// Package limits has the commands that manage the limits of a namespace with a
// manifest.
package limits

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// Commands returns the constructors of the commands by their names.
func Commands() kit.Commands { return kit.Commands{"limits": newGroup} }

func newGroup(c *kit.Console) *cobra.Command {
	conn := &kit.Connection{Console: c}
	cmd := kit.NewGroup("limits", "Manage the limits of a namespace with a file",
		`Manage the limits of a namespace with a manifest: a YAML file that declares the
limits of the system, of resources and of entities. Apply manages what the
manifest declares: it deletes limits that the manifest no longer declares, and
leaves limits alone that it never declared.

    resources:
      gpt-4:
        limits:
          rpm: 100/min:150
          tpm: 10000/min:within

A limit has the form of --limit after NAME:, or is a mapping with capacity,
burst, refill_amount and refill_period (in seconds), or for a quota with
capacity, window and zone. In either, shadow: true makes it a shadow limit.`)

	conn.AddNamespace(cmd)
	cmd.AddCommand(
		newValidate(conn), newPlan(conn), newWhatIf(conn), newApply(conn),
		newDiff(conn), newExport(conn),
		newTemplate(conn), newSchema(conn),
	)

	return cmd
}

const manifestHelp = `FILE is a manifest, or - for stdin. If the manifest names a namespace, omit
--namespace or give the same one.`

// options holds the options of the limits commands.
type options struct {
	*kit.Connection
	file            string
	exit, yes, json bool
	forget          bool
}

func fileArg(target *string) kit.Argument {
	return kit.Argument{Name: "FILE", Set: func(s string) error {
		if s == "" {
			return errors.New("FILE is empty; give the path of a manifest, or - for stdin")
		}
		*target = s
		return nil
	}}
}

// loadManifest reads the manifest and selects its namespace.
func (o *options) loadManifest() (*manifest.Manifest, error) {
	m, err := o.parseFile()
	if err != nil {
		return nil, o.reportProblems(err)
	}

	if given := o.Namespace; given != "" && m.Namespace != "" && given != m.Namespace {
		return nil, kit.Usagef("invalid --namespace %q: %s is for namespace %q; remove one of them", given,
			kit.FileName(o.file), m.Namespace)
	}

	if m.Namespace == "" {
		m.Namespace = o.NamespaceName()
	}
	// The store is opened in the namespace of the connection.
	o.Namespace = m.Namespace

	for _, level := range m.Levels {
		o.WarnCents(level.Limits)
	}

	return m, nil
}

// parseFile reads and parses the file.
func (o *options) parseFile() (*manifest.Manifest, error) {
	read := func() ([]byte, error) { return os.ReadFile(o.file) }
	if o.file == "-" {
		read = func() ([]byte, error) { return io.ReadAll(o.In) }
	}

	data, err := read()
	// A missing file is a mistake on the command line.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, kit.Usagef("%v", err)
	}

	if err != nil {
		return nil, err
	}
	return manifest.Parse(data)
}

// reportProblems reports the problems of the file: a single one as the error,
// several as messages and their number as the error.
func (o *options) reportProblems(err error) error {
	bad, ok := errors.AsType[*manifest.ParseError](err)
	if !ok {
		return err
	}

	if len(bad.Problems) == 1 {
		return errors.New(o.problemText(bad.Problems[0]))
	}

	for _, p := range bad.Problems {
		o.Say("%s", o.problemText(p))
	}
	return fmt.Errorf("%s has %s", kit.FileName(o.file), kit.Count(len(bad.Problems), "problem"))
}

// problemText returns a problem with its file, in the form that editors parse.
func (o *options) problemText(p manifest.Problem) string {
	if p.Line == 0 {
		return kit.FileName(o.file) + ": " + p.String()
	}
	return kit.FileName(o.file) + ":" + p.String()
}

// planOptions returns the options of a plan.
func (o *options) planOptions() *manifest.Options {
	return &manifest.Options{
		Now: o.Now, Principal: o.Author(), Forget: o.forget,
		Waiting: func() { o.Say("another apply is running; waiting for it to end") },
	}
}

// levelCounts returns what a manifest declares: "2 resources, 1 entity", or
// "nothing".
func levelCounts(levels []limiter.Config) string {
	entities, resources, system := map[string]bool{}, 0, false
	for _, level := range levels {
		switch manifest.Level(level.Scope) {
		// An entity may have limits for several resources, and counts once.
		case "entity":
			entities[level.Scope.Entity] = true
		case "resource":
			resources++
		default:
			system = true
		}
	}

	var parts []string
	if system {
		parts = append(parts, "the system")
	}
	if resources > 0 {
		parts = append(parts, kit.Count(resources, "resource"))
	}
	if n := len(entities); n > 0 {
		parts = append(parts, entityCount(n))
	}

	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// entityCount returns a number of entities: "1 entity", "1,200 entities".
func entityCount(n int) string {
	if n == 1 {
		return "1 entity"
	}
	return tty.Number(int64(n)) + " entities"
}

// problemJSON is a problem of a manifest as JSON.
type problemJSON struct {
	Line    int    `json:"line" doc:"line, from 1; 0 if unknown"`
	Column  int    `json:"column" doc:"column in the line"`
	Path    string `json:"path" doc:"such as resources.gpt-4.limits.rpm"`
	Problem string `json:"problem" doc:"what is wrong, and what would be right"`
}

func newValidate(conn *kit.Connection) *cobra.Command {
	o := options{Connection: conn}
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

func runLimitsValidate(o options) error {
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
		return fmt.Errorf("%s has %s", kit.FileName(o.file), kit.Count(len(bad.Problems), "problem"))
	}

	if invalid {
		return o.reportProblems(bad)
	}

	where := "any namespace"
	if m.Namespace != "" {
		where = "namespace " + m.Namespace
	}

	o.Done("%s is valid: for %s, it declares %s", kit.FileName(o.file), where, levelCounts(m.Levels))
	return nil
}
