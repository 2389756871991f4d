package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// completeNoFiles keeps commands that do not complete their arguments from
// suggesting file names.
func completeNoFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, c := range cmd.Commands() {
		completeNoFiles(c)
	}
}

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	var shell string
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a shell completion script",
		Long: `Print a script that makes bash, zsh, fish or powershell complete commands,
flags, and the names of entities, resources, limits and namespaces. The script
of bash needs no other package.`,
		Example: `  source <(zae-limiter completion bash)
  zae-limiter completion zsh > "${fpath[1]}/_zae-limiter"
  zae-limiter completion fish > ~/.config/fish/completions/zae-limiter.fish`,
		ValidArgs: shells,
		Args: kit.Arguments(kit.Argument{Name: "SHELL", Set: func(s string) (err error) {
			if shell, err = kit.OneOf(shells...)(s); err != nil {
				return fmt.Errorf("invalid SHELL %q: %w", kit.Clip(s), err)
			}
			return nil
		}}),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			switch shell {
			case "bash":
				return printBashCompletion(cmd.Root(), out)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			}
			return cmd.Root().GenPowerShellCompletionWithDesc(out)
		},
	}
}
