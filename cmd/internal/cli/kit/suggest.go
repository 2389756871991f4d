package kit

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// closest returns the known word that is most similar to word, or "" if none is.
func closest(word string, known []string) string {
	// Up to three letters may have one typo, and longer words two.
	best, distance := "", max(1, min(2, len(word)/2))+1
	for _, k := range known {
		d := editDistance(strings.ToLower(word), k)

		// An abbreviation counts as one typo: "name" is close to "namespace".
		if len(word) > 2 && strings.HasPrefix(k, word) {
			d = min(d, 1)
		}
		if d < distance {
			best, distance = k, d
		}
	}

	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func editDistance(a, b string) int {
	// Longer words are no typos, and their table would be large.
	if len(a) > 64 || len(b) > 64 {
		return 64
	}

	// rows[i][j] is the distance of the first i bytes of a from the first j
	// bytes of b.
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}

	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}

	return rows[len(a)][len(b)]
}

// unknownCommand returns the error for a word that is not a command of cmd. It
// suggests a similar command of cmd, never one of another group, which would do
// something else.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names, aliases []string
	paths := map[string]string{}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		names, aliases = append(names, c.Name()), append(aliases, c.Aliases...)
		for _, name := range append([]string{c.Name()}, c.Aliases...) {
			paths[name] = c.CommandPath()
		}
	}

	// Of two equally similar words, the first wins: a name before an alias.
	if name := closest(word, slices.Concat(names, aliases)); name != "" {
		return Usagef("unknown command %q; did you mean %q? %q lists the commands", Clip(word), paths[name],
			cmd.CommandPath()+" --help")
	}
	return Usagef("unknown command %q; the commands of %s are %s", Clip(word), cmd.CommandPath(),
		strings.Join(names, ", "))
}

// similarFlag returns the flag of cmd that is most similar to name, or "".
func similarFlag(cmd *cobra.Command, name string) string {
	var known []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	}

	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return closest(name, known)
}

// AllCommands returns cmd and all commands below it.
func AllCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, AllCommands(c)...)
	}
	return all
}

// maxShown is the number of bytes of an argument that a message shows.
const maxShown = 200

// Clip cuts an argument that is too long for a message.
func Clip(word string) string {
	if len(word) <= maxShown {
		return word
	}
	// The cut may be inside a character.
	return strings.ToValidUTF8(word[:maxShown], "") + "..."
}

// RequireKnownCommand rejects arguments that are not commands of cmd.
func RequireKnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return NoArgs(cmd, args)
	}
	return unknownCommand(cmd, args[0])
}
