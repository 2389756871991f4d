package cli_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/docs"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// TestReferenceOfSettings compares docs/reference/configuration.md with the flags
// of the servers; -update rewrites it.
func TestReferenceOfSettings(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Configuration\n\nThe environment variables of the program, and the settings of its " +
		"servers. `make docs` generates this page from the code.\n\n" +
		"## Environment\n\n" + strings.ReplaceAll(environment, "| variable | |\n", "| variable | meaning |\n"))
	found := 0
	for _, cmd := range kit.AllCommands(tree()) {
		if cmd.Flags().Lookup(kit.ConfigFlag) == nil {
			continue
		}
		found++
		fmt.Fprintf(&b, "## zae-limiter %s\n\nA flag comes first, then the variable, then the key of the "+
			"YAML file that `--config` names. "+
			"`zae-limiter %s schema` prints the file's JSON Schema. Commas separate the values of a list in "+
			"a variable.\n\n"+
			"| flag | variable | key | default | meaning |\n|---|---|---|---|---|\n", cmd.Name(), cmd.Name())
		b.WriteString(settingRows(cmd))
		b.WriteString("\n")
	}
	if found < 2 {
		t.Errorf("only %d commands have settings", found)
	}
	golden.Check(t, filepath.Join(docsFolder, "reference", "configuration.md"),
		strings.TrimRight(b.String(), "\n")+"\n")
}

func settingRows(cmd *cobra.Command) string {
	var rows []string
	s := kit.Settings{Prefix: "ZAEL_" + strings.ToUpper(cmd.Name()) + "_"}
	add := func(f *pflag.Flag) {
		if !kit.IsSetting(f) {
			return
		}
		variables, shared := kit.StoreVariables[f.Name]
		if !shared {
			variables = []string{s.Variable(f.Name)}
		}
		_, usage := pflag.UnquoteUsage(f)
		value := f.DefValue
		if value == "false" || value == "[]" || value == "0" || value == "0s" {
			value = ""
		}
		if value != "" {
			value = "`" + value + "`"
		}
		rows = append(rows,
			fmt.Sprintf("| %#q | %s | %#q | %s | %s |\n", "--"+f.Name, "`"+strings.Join(variables, "`, `")+"`",
				kit.SettingKey(f.Name), value, docs.Cell(usage)))
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	slices.Sort(rows)
	return strings.Join(slices.Compact(rows), "")
}

// TestReferenceOfErrors compares docs/reference/errors.md with the code; -update
// rewrites it.
func TestReferenceOfErrors(t *testing.T) {
	refusal := &limiter.ExceededError{}
	samples := map[string]error{
		"ExceededError": refusal, "InvalidError": &limiter.InvalidError{Field: "entity_id"},
		"UnavailableError": &limiter.UnavailableError{},
		"CorruptError":     &limiter.CorruptError{}, "DisabledError": &limiter.DisabledError{},
		"SwitchDelayedError": &limiter.SwitchDelayedError{}, "VersionError": &limiter.VersionError{},
		"ErrNotFound": limiter.ErrNotFound, "ErrExists": limiter.ErrExists, "ErrConflict": limiter.ErrConflict,
		"ErrLeaseDone": limiter.ErrLeaseDone,
		"ErrClosed":    limiter.ErrClosed, "ErrNoLimits": &limiter.InvalidError{Err: limiter.ErrNoLimits},
		"ErrNeverFits": refusal,
		"ErrUnknown":   &limiter.InvalidError{Err: limiter.ErrUnknown},
	}
	code, err := docs.ReadSource("../../..")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Errors\n\nEvery exported error, and what a client gets for it. Find a sentinel, such as " +
		"`ErrNotFound`, with `errors.Is`, and a type with data, such as `InvalidError`, " +
		"with `errors.As`. `make docs` generates this page from the code.\n\n" +
		"## Errors of the limiter\n\nHTTP is the status of [`httplimit`](../http.md), gRPC the code of " +
		"[`grpclimit`](../grpc.md), and exit the code of the command line. " +
		"[`zae-limiter serve`](../serve.md) has two statuses more: 404 for a record, a limit or a zone that " +
		"does not exist, and 410 for a lease that has ended.\n\n" +
		"| error | HTTP | gRPC | exit | meaning |\n|---|---|---|---|---|\n")
	for _, n := range code.Packages["limiter"].Names {
		if !isError(n) {
			continue
		}
		sample, ok := samples[n.Name]
		if !ok {
			t.Errorf("TestReferenceOfErrors has no sample of %s", n.Name)
			continue
		}
		b.WriteString(errorRow(n, sample))
	}
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		b.WriteString(errorRow(
			docs.Name{
				Name: map[bool]string{
					true: "context.Canceled", false: "context.DeadlineExceeded",
				}[errors.Is(end, context.Canceled)],
				Synopsis: "The caller's context ended.",
			},
			end,
		))
	}
	b.WriteString("\n## Errors of other packages\n\n| package | error | meaning |\n|---|---|---|\n")
	all := make([]*docs.Package, 0, len(code.Packages))
	for _, p := range code.Packages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *docs.Package) int { return cmp.Compare(a.Dir, b.Dir) })
	for _, p := range all {
		for _, n := range p.Names {
			if p.Name != "limiter" && p.Name != "main" && isError(n) {
				fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", p.Dir, n.Name, docs.Cell(n.Synopsis))
			}
		}
	}
	b.WriteString("\n## Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, row := range []struct {
		code    int
		meaning string
	}{
		{kit.ExitDone, "done"},
		{kit.ExitFailed, "failed; stderr says why"},
		{kit.ExitUsage, "the command line is wrong; nothing was done"},
		{kit.ExitExceeded, "a limit was exceeded"},
		{kit.ExitDrift, "stored limits differ from the manifest"},
		{kit.ExitDisabled, "a level is disabled"},
		{kit.ExitBrokenPipe, "stdout was closed, as a shell reports SIGPIPE"},
	} {
		fmt.Fprintf(&b, "| %d | %s |\n", row.code, row.meaning)
	}
	golden.Check(t, filepath.Join(docsFolder, "reference", "errors.md"), b.String())
}

func isError(n docs.Name) bool {
	return n.Kind == "var" && strings.HasPrefix(n.Name, "Err") || n.Kind == "type" && strings.HasSuffix(n.Name, "Error")
}

func errorRow(n docs.Name, sample error) string {
	if n.Synopsis == "" {
		n.Synopsis = sample.Error()
	}
	return fmt.Sprintf("| %#q | %d | %s | %d | %s |\n", n.Name, httplimit.NewProblem(sample).Status,
		status.Code(grpclimit.Error(sample)), kit.ExitCode(sample), docs.Cell(n.Synopsis))
}
