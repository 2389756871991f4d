package cli_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// TestPagesNameCommands checks the commands of the blocks that run or that are
// tagged check, and those in the prose: commands, flags and make's targets exist.
func TestPagesNameCommands(t *testing.T) {
	t.Parallel()
	c := newChecker(makeTargets(t))
	checked := 0
	for _, page := range allPages(t) {
		if page.Path == "CHANGELOG.md" { // it has names of the past
			continue
		}
		for _, b := range page.Blocks {
			if b.Tag != "check" && b.Tag != tagRun && b.Tag != tagAWS {
				continue
			}
			for _, step := range b.Steps() {
				checked++
				for _, problem := range c.line(step.Command) {
					t.Errorf("%s:%d: %s", page.Path, b.Line+1+step.Line, problem)
				}
			}
		}
		for _, span := range page.Spans {
			for _, problem := range c.span(span.Text) {
				t.Errorf("%s:%d: `%s`: %s", page.Path, span.Line, span.Text, problem)
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d commands were found", checked)
	}
}

// TestCheckLine checks that the check finds mistakes.
func TestCheckLine(t *testing.T) {
	checker := newChecker([]string{"test"})
	for _, c := range []struct{ line, want string }{
		{"zae-limiter status", ""},
		{"zae-limiter statuss", "no command"},
		{"zae-limiter entity bucketz key", "no command"},
		{"zae-limiter status --nope", "unknown flag"},
		{"zae-limiter acquire key gpt-4 rpm=1 --wait 5s -- sh -c 'zae-limiter nope'", ""},
		{"X=1 zae-limiter entity list --nope | head", "unknown flag"},
		{"head < x | zae-limiter entity show > out 2>&1 # comment", "missing"},
		{`eval "$(zae-limiter local upp)"`, "no command"},
		{"cat <<END | zae-limiter status --nope", "unknown flag"},
		{"echo zae-limiter status --nope", ""},
		{"make nope", "no target"},
		{"make test TESTFLAGS=-short", ""},
		{"go run ./cmd/zae-limiter nope", "no command"},
		{"zae-limiter loadtest local simple --users many", "invalid"},
	} {
		got := strings.Join(checker.line(c.line), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
}

// checker knows the commands, their flags and the targets of make.
type checker struct {
	root    *cobra.Command
	flags   map[string]bool
	targets []string
}

func newChecker(targets []string) *checker {
	c := &checker{root: tree(), flags: map[string]bool{}, targets: targets}
	for _, cmd := range kit.AllCommands(c.root) {
		for _, set := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			set.VisitAll(func(f *pflag.Flag) { c.flags["--"+f.Name] = true })
		}
	}
	return c
}

// line returns what is wrong with the commands of a shell's line.
func (c *checker) line(line string) []string {
	var problems []string
	for _, words := range shellCommands(line) {
		for _, w := range words {
			if _, inner, ok := strings.Cut(w, "$("); ok {
				problems = append(problems, c.line(strings.TrimSuffix(inner, ")"))...)
			}
		}
		if len(words) > 2 && words[0] == "go" && words[1] == "run" && strings.HasSuffix(words[2], "/cmd/zae-limiter") {
			words = words[2:]
			words[0] = "zae-limiter"
		}
		switch {
		case len(words) == 0:
		case words[0] == "zae-limiter":
			if err := checkArguments(words[1:]); err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", strings.Join(words, " "), err))
			}
		case words[0] == "make" && len(words) > 1:
			for _, w := range words[1:] {
				if !strings.Contains(w, "=") && !strings.HasPrefix(w, "-") && !slices.Contains(c.targets, w) {
					problems = append(problems, "make has no target "+w)
				}
			}
		}
	}
	return problems
}

// checkArguments checks the arguments of our program, in a tree of its own, since
// flags keep their values.
func checkArguments(args []string) error {
	cmd, rest, err := tree().Find(args)
	if err != nil {
		return fmt.Errorf("no command: %w", err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	words := cmd.Flags().Args()
	if cmd.HasAvailableSubCommands() && len(words) > 0 {
		return fmt.Errorf("no command %q", cmd.CommandPath()+" "+words[0])
	}
	if help, _ := cmd.Flags().GetBool("help"); help || cmd.HasAvailableSubCommands() {
		return nil
	}
	return cmd.ValidateArgs(words)
}

// shellCommands splits a line into commands and their words, without assignments,
// redirections and comments. Quotes are removed; a substitution stays one word.
func shellCommands(line string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	started, skip := false, false
	endWord := func() {
		if started && !skip {
			words = append(words, word.String())
		}
		if started {
			skip = false
		}
		word.Reset()
		started = false
	}
	endCommand := func() {
		endWord()
		for len(words) > 0 && assignment.MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words, skip = nil, false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			i++
			if line[i] != '\n' {
				word.WriteByte(line[i])
				started = true
			}
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				end = len(line) - i - 1
			}
			word.WriteString(line[i+1 : i+1+end])
			started = true
			i += end + 1
		case c == '"':
			end := i + 1
			for end < len(line) && line[end] != '"' {
				end++
			}
			word.WriteString(line[i+1 : min(end, len(line))])
			started = true
			i = end
		case strings.HasPrefix(line[i:], "$("):
			depth, end := 0, i+1
			for ; end < len(line); end++ {
				if line[end] == '(' {
					depth++
				} else if line[end] == ')' {
					if depth--; depth == 0 {
						break
					}
				}
			}
			word.WriteString(line[i:min(end+1, len(line))])
			started = true
			i = end
		case c == '#' && !started:
			endCommand()
			return commands
		case c == '>' || c == '<':
			if n := word.String(); n == "" || n == "1" || n == "2" || n == "&" {
				word.Reset()
				started = false
			}
			endWord()
			for i+1 < len(line) && strings.IndexByte("<>&-", line[i+1]) >= 0 {
				i++
			}
			skip = true
		case strings.IndexByte("|;&()\n", c) >= 0:
			endCommand()
		case c == ' ' || c == '\t':
			endWord()
		default:
			word.WriteByte(c)
			started = true
		}
	}
	endCommand()
	return commands
}

var (
	assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)
	flagName   = regexp.MustCompile(`(?:^|[\s(])(--[a-z][a-z0-9-]*)`)
	commandIn  = regexp.MustCompile(`^zae-limiter( [a-z][a-z-]*)*`)
)

// settingVariable matches the variables of flags of servers.
var settingVariable = regexp.MustCompile(`\bZAEL_(SERVE|PROXY|DASHBOARD)_([A-Z_]*[A-Z])\b`)

// span returns what is wrong with code in the prose. A span that starts with
// the name of another program is its business.
func (c *checker) span(text string) []string {
	var problems []string
	for _, m := range settingVariable.FindAllStringSubmatch(text, -1) {
		cmd, _, err := c.root.Find([]string{strings.ToLower(m[1])})
		flag := strings.ReplaceAll(strings.ToLower(m[2]), "_", "-")
		if err != nil || cmd.Flags().Lookup(flag) == nil && cmd.InheritedFlags().Lookup(flag) == nil {
			problems = append(problems, "there is no "+m[0])
		}
	}
	switch {
	case strings.HasPrefix(text, "make "):
		return append(problems, c.line(text)...)
	case strings.HasPrefix(text, "zae-limiter "):
		words := strings.Fields(commandIn.FindString(text))[1:]
		cmd, rest, err := c.root.Find(words)
		if err != nil || cmd.HasAvailableSubCommands() && len(rest) > 0 {
			return []string{"there is no such command"}
		}
		for _, m := range flagName.FindAllStringSubmatch(strings.SplitN(text, " -- ", 2)[0], -1) {
			if cmd.Flags().Lookup(m[1][2:]) == nil && cmd.InheritedFlags().Lookup(m[1][2:]) == nil {
				problems = append(problems, cmd.CommandPath()+" has no flag "+m[1])
			}
		}
	case strings.HasPrefix(text, "--"):
		for _, m := range flagName.FindAllStringSubmatch(text, -1) {
			if !c.flags[m[1]] {
				problems = append(problems, "no command has the flag "+m[1])
			}
		}
	default: // a command without the program's name, such as `serve --dashboard`
		words := strings.Fields(text)
		if len(words) < 2 {
			return nil
		}
		if cmd, _, err := c.root.Find(words[:1]); err == nil && cmd.HasParent() && strings.Contains(text, " --") {
			return c.span("zae-limiter " + text)
		}
	}
	return problems
}

// makeTargets returns the targets of the Makefile.
func makeTargets(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(text), -1) {
		targets = append(targets, m[1])
	}
	return targets
}
