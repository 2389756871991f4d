package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

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

// bashWords replaces functions of the package bash-completion, which many systems
// lack. It calls the functions of the package where they exist.
const bashWords = `# Splits the line into cur, prev, words and cword, where = and : are parts of words.
__zae-limiter_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local i gap rest=$COMP_LINE
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        gap=${rest%%[^[:blank:]]*}
        rest=${rest#"$gap"}
        rest=${rest#"${COMP_WORDS[i]}"}
        if [[ $i -eq 0 || -n $gap ]]; then
            words+=("${COMP_WORDS[i]}")
        else
            words[${#words[@]}-1]+=${COMP_WORDS[i]}
        fi
        if ((i == COMP_CWORD)); then
            cword=$((${#words[@]} - 1))
        fi
    done
    cur=${words[cword]}
    prev=
    if ((cword > 0)); then
        prev=${words[cword-1]}
    fi
}

# Completes folders with -d, and files with the extensions of a pattern such as
# @(yaml|yml).
__zae-limiter_filedir()
{
    if declare -F _filedir >/dev/null 2>&1; then
        _filedir "$@"
        return
    fi
    local name
    compopt -o filenames 2>/dev/null
    if [[ ${1-} == -d ]]; then
        while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -d -- "$cur")
        return
    fi
    while IFS= read -r name; do
        if [[ -d $name || -z ${1-} || ${name##*.} =~ ^(${1//[@()]/})$ ]]; then
            COMPREPLY+=("$name")
        fi
    done < <(compgen -f -- "$cur")
}

`

// printBashCompletion writes the completion script of bash, which needs no other
// package.
func printBashCompletion(root *cobra.Command, out io.Writer) error {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}

	// Between these two comments, the generated script calls functions of
	// bash-completion.
	before, calls, found := strings.Cut(script.String(), "# This function calls the ")
	head, _, replaced := strings.Cut(before, "# Macs have bash3 ")
	if !found || !replaced {
		return errors.New("completion of bash: the library generates another script than expected")
	}

	name := root.Name()
	text := head + strings.ReplaceAll(bashWords, "zae-limiter",
		name) + "# This function calls the " + strings.ReplaceAll(calls, "_filedir", "__"+name+"_filedir")

	_, err := io.WriteString(out, text)
	return err
}
