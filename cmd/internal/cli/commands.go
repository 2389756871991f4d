package cli

import (
	"maps"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/data"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/demo"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/limits"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/local"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/programs"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/stack"
)

// newProgram returns the command tree of the program, with the commands that a
// command line needs: all of them if there are no arguments.
func newProgram(c *kit.Console, args []string) *cobra.Command {
	c.Version = thisBuild().Version
	root := newRoot(c)
	addCommands(root, c, args)
	return root
}

// constructors returns the constructors of all commands by their names.
func constructors() kit.Commands {
	all := kit.Commands{
		"version": newVersion, "completion": func(*kit.Console) *cobra.Command { return newCompletion() },
		"help": func(*kit.Console) *cobra.Command { return newHelp() },
	}
	for _, f := range []kit.Commands{
		data.Commands(), limits.Commands(), stack.Commands(), programs.Commands(), loadtest.Commands(),
		local.Commands(), demo.Commands(),
	} {
		maps.Copy(all, f)
	}
	return all
}

// groups lists the commands in the order of the help.
var groups = []struct{ title, commands string }{
	{"Take tokens and ask:", "acquire explain"},
	{"Set limits:", "entity resource system limits namespace switches"},
	{"Watch:", "top dashboard usage audit"},
	{"Serve:", "serve proxy prices"},
	{"Try and test:", "demo loadtest local"},
	{"DynamoDB and AWS:", "deploy status check upgrade delete list table aggregate cfn-template lambda-export"},
	{"This program:", "version completion help"},
}

// addCommands adds the commands to the root, in groups for the help. If the
// arguments begin with the name of a command that needs no other, it builds that one
// alone.
func addCommands(root *cobra.Command, c *kit.Console, args []string) {
	all := constructors()
	if len(args) > 0 && all[args[0]] != nil && args[0] != "help" && args[0] != "completion" {
		all = kit.Commands{args[0]: all[args[0]], "help": all["help"]}
	}

	for i, group := range groups {
		id := strconv.Itoa(i)
		root.AddGroup(&cobra.Group{ID: id, Title: group.title})

		for name := range strings.FieldsSeq(group.commands) {
			construct, ok := all[name]
			if !ok {
				continue
			}

			cmd := construct(c)
			cmd.GroupID = id
			// Cobra adds the help command itself. It has a group all the same, or
			// the help would list it apart.
			if name == "help" {
				root.SetHelpCommand(cmd)
			} else {
				root.AddCommand(cmd)
			}
		}
	}

	completeNoFiles(root)
}
