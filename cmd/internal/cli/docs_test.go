package cli_test

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

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

const docsFolder = "../../../docs"

// tree returns the whole command tree.
func tree() *cobra.Command {
	root := cli.NewProgram(kit.NewConsole(strings.NewReader(""), io.Discard, io.Discard), nil)
	root.InitDefaultHelpCmd()
	root.DisableAutoGenTag = true
	for _, cmd := range kit.AllCommands(root) {
		cmd.InitDefaultHelpFlag()
	}
	return root
}

// TestReference compares docs/cli with the commands, a page for each command of
// the program with its commands; -update rewrites them.
func TestReference(t *testing.T) {
	root := tree()

	var index strings.Builder
	index.WriteString("# Command line\n\nGenerated from the commands themselves: `make docs` rewrites these pages. " +
		"The [tour](../tour.md) shows the commands at work, and " +
		"[docs/man](https://github.com/zeroae/zae-limiter-go/tree/main/docs/man) has them as man pages.\n\n" +
		environment)

	pages := map[string]string{}
	for _, group := range root.Groups() {
		fmt.Fprintf(&index, "## %s\n\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID != group.ID {
				continue
			}

			page := cmd.Name() + ".md"
			pages[page] = commandPage(cmd)
			for _, sub := range kit.AllCommands(cmd) {
				fmt.Fprintf(&index, "- [`%s`](%s#%s): %s\n", sub.CommandPath(), page, anchor(sub), sub.Short)
			}
		}
		index.WriteString("\n")
	}

	index.WriteString("## The program itself\n" + section(root))
	pages["README.md"] = index.String()
	checkFolder(t, filepath.Join(docsFolder, "cli"), pages)
}

// commandPage returns the page of a command of the program.
func commandPage(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s. [All commands](README.md).\n", cmd.Name(), cmd.Short)

	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n")
		for _, sub := range kit.AllCommands(cmd)[1:] {
			fmt.Fprintf(&b, "- [`%s`](#%s): %s\n", sub.CommandPath(), anchor(sub), sub.Short)
		}
	}

	for _, sub := range kit.AllCommands(cmd) {
		b.WriteString(section(sub))
	}
	return b.String()
}

// anchor returns the anchor of a command's section.
func anchor(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// checkFolder compares the files of a folder with pages by their names, and finds
// files that have no page any more; -update rewrites them.
func checkFolder(t *testing.T, folder string, pages map[string]string) {
	t.Helper()

	for name, text := range pages {
		golden.Check(t, filepath.Join(folder, name), text)
	}

	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := pages[e.Name()]; ok {
			continue
		}

		if !*golden.Update {
			t.Errorf("%s has no command; -update removes it", e.Name())
		} else if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			t.Error(err)
		}
	}
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
		{"Flags", cmd.LocalFlags().FlagUsagesWrapped(kit.ScreenWidth)},
		{"Flags of every `" + parentPath(cmd) + "` command", cmd.InheritedFlags().FlagUsagesWrapped(kit.ScreenWidth)},
	} {
		if flags.usages != "" {
			fmt.Fprintf(&b, "\n%s:\n\n```text\n%s```\n", flags.title, flags.usages)
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n\n<!-- check -->\n```sh\n%s\n```\n",
			strings.ReplaceAll("\n"+cmd.Example, "\n  ", "\n")[1:])
	}
	if output := cmd.Annotations[kit.AnnotationOutput]; output != "" {
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

// TestManPages compares docs/man with the commands; -update rewrites it.
func TestManPages(t *testing.T) {
	pages := map[string]string{}
	for _, cmd := range kit.AllCommands(tree()) {
		cmd.Long = plainMarkdown(cmd.Long)
		day := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) // a fixed date

		var page bytes.Buffer
		if err := doc.GenMan(
			cmd, &doc.GenManHeader{Date: &day, Source: "zae-limiter", Manual: "zae-limiter"}, &page,
		); err != nil {
			t.Fatal(err)
		}
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = page.String()
	}
	checkFolder(t, filepath.Join(docsFolder, "man"), pages)
}

// plainMarkdown escapes the characters that Markdown interprets.
func plainMarkdown(text string) string {
	return strings.NewReplacer("_", `\_`, "*", `\*`, "<", `\<`, "`", "\\`", "[", `\[`).Replace(text)
}
