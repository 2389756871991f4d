package cli

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
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
	"github.com/zeroae/zae-limiter-go/manifest"
)

func newLimits(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := group("limits", "Keep the limits of a namespace in a file",
		`A manifest declares limits of a namespace in YAML: those of the system, of
resources and of entities. What it declares is managed from then on: what is
declared no longer is deleted, and what never was is not touched.

    resources:
      gpt-4:
        limits:
          rpm: 100/min:150
          tpm: 10000/min:within

A limit is written as after NAME: in --limit, or as a mapping with capacity,
burst, refill_amount and refill_period (in seconds).`)
	conn.addNamespace(cmd)
	cmd.AddCommand(
		newLimitsValidate(conn), newLimitsPlan(conn), newLimitsApply(conn), newLimitsDiff(conn), newLimitsExport(conn),
		newLimitsTemplate(conn), newLimitsSchema(conn),
	)
	return cmd
}

const manifestHelp = `FILE is a manifest, or - for stdin. Where it names no namespace, --namespace
does; where both do, they have to agree.`

// limitsOptions are those of commands that read a manifest.
type limitsOptions struct {
	*connection
	file            string
	exit, yes, json bool
	forget          bool
}

func fileArg(target *string) argument {
	return argument{"FILE", func(s string) error {
		if s == "" {
			return errors.New("FILE is empty; it has to be the path of a manifest, or - for stdin")
		}
		*target = s
		return nil
	}}
}

// completeManifest suggests files.
func completeManifest(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// declared is the manifest, for a namespace that is known from then on.
func (o *limitsOptions) declared() (*manifest.Manifest, error) {
	m, err := o.parse()
	if err != nil {
		return nil, o.tellProblems(err)
	}
	if given := o.namespace; given != "" && m.Namespace != "" && given != m.Namespace {
		return nil, usagef("--namespace is %q, but %s is for namespace %q; leave one of them out", given, o.file, m.Namespace)
	}
	if m.Namespace == "" {
		m.Namespace = o.space()
	}
	o.namespace = m.Namespace
	return m, nil
}

// parse reads the file.
func (o *limitsOptions) parse() (*manifest.Manifest, error) {
	read := func() ([]byte, error) { return os.ReadFile(o.file) }
	if o.file == "-" {
		read = func() ([]byte, error) { return io.ReadAll(o.in) }
	}
	data, err := read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%v", err)
	}
	if err != nil {
		return nil, err
	}
	return manifest.Parse(data)
}

// tellProblems says what is wrong with the file: a sentence, or a line for each
// problem and then that there are some.
func (o *limitsOptions) tellProblems(err error) error {
	bad, ok := errors.AsType[*manifest.ParseError](err)
	if !ok {
		return err
	}
	if len(bad.Problems) == 1 {
		return errors.New(o.place(bad.Problems[0]))
	}
	for _, p := range bad.Problems {
		o.say("%s", o.place(p))
	}
	return fmt.Errorf("%s has %s", o.file, count(len(bad.Problems), "problem"))
}

// place is a problem with its file, as editors like it.
func (o *limitsOptions) place(p manifest.Problem) string {
	if p.Line == 0 {
		return o.file + ": " + p.String()
	}
	return o.file + ":" + p.String()
}

// planning are the options of plans.
func (o *limitsOptions) planning() *manifest.Options {
	return &manifest.Options{
		Now: o.now, Principal: o.author(), Forget: o.forget,
		Waiting: func() { o.say("another apply is at work; waiting for it to end") },
	}
}

// counts is "2 resources, 1 entity", or "nothing".
func counts(levels []limiter.Config) string {
	entities, resources, system := map[string]bool{}, 0, false
	for _, level := range levels {
		switch manifest.Level(level.Scope) {
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
		parts = append(parts, count(resources, "resource"))
	}
	switch n := len(entities); n {
	case 0:
	case 1:
		parts = append(parts, "1 entity")
	default:
		parts = append(parts, tty.Number(int64(n))+" entities")
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}
