package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/zeroae/zae-limiter-go/internal/golden"
)

const docsFolder = "../../../docs"

// tree returns the whole command tree.
func tree() *cobra.Command {
	root := newProgram(newConsole(strings.NewReader(""), io.Discard, io.Discard))
	root.InitDefaultHelpCmd()
	root.DisableAutoGenTag = true
	for _, cmd := range allCommands(root) {
		cmd.InitDefaultHelpFlag()
	}
	return root
}

// TestReference compares docs/cli.md with the commands; -update rewrites it.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Command line\n\nGenerated from the commands themselves: `make docs` rewrites this page. " +
		"The [tour](tour.md) shows them at work, and " +
		"[docs/man](https://github.com/zeroae/zae-limiter-go/tree/main/docs/man) has them as man pages.\n\n" +
		environment)
	commands := allCommands(tree())
	for _, cmd := range commands {
		fmt.Fprintf(&b, "- [`%s`](#%s): %s\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"),
			cmd.Short)
	}
	for _, cmd := range commands {
		b.WriteString(section(cmd))
	}
	golden.Check(t, filepath.Join(docsFolder, "cli.md"), b.String())
}

const environment = `| variable | |
|---|---|
| ZAEL_STORE | store, in the form of --store, if neither --store nor --name is given |
| ZAEL_STACK | name of a DynamoDB table, if ZAEL_STORE is not set |
| ZAEL_NAMESPACE | namespace, if --namespace is not given |
| XDG_DATA_HOME | folder of the default store, zae-limiter/limits.db; ~/.local/share if it is not set, and the usual folder on macOS and Windows |
| XDG_STATE_HOME | folder of the engines of "local up", zae-limiter/local; ~/.local/state if it is not set, and the usual folder on macOS and Windows |
| ZAEL_CACHE | folder in which "local up" keeps the DynamoDB Local that Maven fetched, dynamodb-local; zae-limiter in the user's cache folder if it is not set |
| JAVA_HOME | Java of "local up", if it is not the java of PATH |
| DOCKER_HOST | Docker daemon of "local up", with Docker's other variables and contexts |
| NO_COLOR | any value disables colours |
| COLUMNS | width of the output, if it cannot be detected |
| ZAEL_FORCE_TTY | number of columns; makes stdout a terminal of that width |
| ZAEL_LOCUST | program of Locust for loadtest local --ui, if --locust is not given |

The variables of the AWS SDK, such as AWS_REGION, AWS_PROFILE and AWS_ENDPOINT_URL, apply to DynamoDB.

`

// section returns the documentation of a command.
func section(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", cmd.CommandPath())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "```text\n%s\n```\n", cmd.Long)
	} else {
		fmt.Fprintf(&b, "```text\n%s\n\n%s\n```\n", cmd.UseLine(), cmd.Long)
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso: `%s`.\n", strings.Join(cmd.Aliases, "`, `"))
	}
	for _, flags := range []struct{ title, usages string }{
		{"Flags", cmd.LocalFlags().FlagUsagesWrapped(screenWidth)},
		{"Flags of every `" + parentPath(cmd) + "` command", cmd.InheritedFlags().FlagUsagesWrapped(screenWidth)},
	} {
		if flags.usages != "" {
			fmt.Fprintf(&b, "\n%s:\n\n```text\n%s```\n", flags.title, flags.usages)
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n\n<!-- check -->\n```sh\n%s\n```\n",
			strings.ReplaceAll("\n"+cmd.Example, "\n  ", "\n")[1:])
	}
	if output := cmd.Annotations[annotationOutput]; output != "" {
		b.WriteString("\n" + output)
	}
	return b.String()
}

func parentPath(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return cmd.Parent().CommandPath()
}

// TestManPages compares docs/man with the commands, and finds pages of commands
// that no longer exist; -update rewrites them.
func TestManPages(t *testing.T) {
	folder := filepath.Join(docsFolder, "man")
	pages := map[string]bool{}
	for _, cmd := range allCommands(tree()) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		pages[name] = true
		cmd.Long = plainMarkdown(cmd.Long)
		day := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) // a fixed date
		var page bytes.Buffer
		if err := doc.GenMan(
			cmd, &doc.GenManHeader{Date: &day, Source: "zae-limiter", Manual: "zae-limiter"}, &page,
		); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join(folder, name), page.String())
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if pages[e.Name()] {
			continue
		}
		if !*golden.Update {
			t.Errorf("%s has no command; -update removes it", e.Name())
		} else if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			t.Error(err)
		}
	}
}

// plainMarkdown escapes the characters that Markdown interprets.
func plainMarkdown(text string) string {
	return strings.NewReplacer("_", `\_`, "*", `\*`, "<", `\<`, "`", "\\`", "[", `\[`).Replace(text)
}
