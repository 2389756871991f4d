package local

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/local"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type localEnvOptions struct {
	connection
	name   string
	format local.Format
}

func newEnv(c *kit.Console) *cobra.Command {
	o := &localEnvOptions{connection: connection{Console: c}, format: local.FormatEval}
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the environment that selects a local table",
		Long: `Print the environment variables with which programs use a local table. The
command needs no Docker. If no engine is running, it prints the defaults.

` + help,
		Example: "  eval \"$(zae-limiter local env)\"\n  zae-limiter local env --format direnv > .env\n" +
			"  zae-limiter local env --format powershell | Invoke-Expression",
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLocalEnv(cmd.Context(), o) },
	}

	addShellFormat(cmd, &o.format)
	o.addPort(cmd, "port of the engine (default: of the running one, else 4566)")
	cmd.Flags().StringVarP(&o.name, "name", "n", "", "`name` of the table (default: what \"local up\" prepared last)")
	return cmd
}

// addShellFormat adds the flag --format.
func addShellFormat(cmd *cobra.Command, target *local.Format) {
	words := []local.Format{local.FormatEval, local.FormatDirenv, local.FormatPowerShell}
	kit.AddFlagP(cmd, target, "format", "f", "format", string(local.FormatEval),
		"syntax of the variables: eval, direnv or powershell", func(text string) (local.Format, error) {
			return kit.OneOf(words...)(strings.ToLower(text))
		})
	_ = cmd.RegisterFlagCompletionFunc("format", kit.CompleteWords(words...))
}

func runLocalEnv(ctx context.Context, o *localEnvOptions) error {
	if o.name != "" {
		if err := checkTable(o.name); err != nil {
			return err
		}
	}

	folder, err := local.OpenFolder()
	if err != nil {
		return err
	}

	// Recorded does not call Docker, so the command works where the daemon is
	// not reachable.
	e, err := folder.Recorded(o.port)
	known := err == nil
	if errors.Is(err, local.ErrNotRunning) {
		e, err = &local.Engine{Kind: local.LocalStack, Port: cmp.Or(o.port, local.LocalStack.Port())}, nil
		o.Warn("no engine is known at %s; zae-limiter local up starts one", e.Endpoint())
	}
	if err != nil {
		return usageError(err)
	}

	// An engine without a record had its warning above.
	if known && !e.Answers(ctx) {
		o.warnSilent(e)
	}

	return o.printEnvironment(e, cmp.Or(o.name, e.Table, dynamo.TableName("")), o.format, overrides(e))
}

// warnSilent warns about an engine that does not answer.
func (o *localEnvOptions) warnSilent(e *local.Engine) {
	if e.Process != nil && !e.Process.Alive() {
		o.Warn("nothing answers at %s, since %s has ended; zae-limiter local up starts it again", e.Endpoint(),
			e.Kind.Title())
		return
	}

	o.Warn("nothing answers at %s; zae-limiter local status shows the state of %s", e.Endpoint(), e.Kind.Title())
}

// printEnvironment writes the variables to stdout, and warnings to stderr.
func (o *connection) printEnvironment(
	e *local.Engine, table string, format local.Format, warnings []string,
) error {
	for _, warning := range warnings {
		o.Warn("%s", warning)
	}

	_, err := io.WriteString(o.Out, format.Write(local.Environment(e.Endpoint(), table)))
	return err
}
