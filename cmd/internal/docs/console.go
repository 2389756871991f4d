package docs

import (
	"regexp"
	"strings"
)

// Step is a command of a console block with the output that the page shows.
type Step struct {
	Line    int    // in the block, counted from 0
	Source  string // as on the page, with its prompt
	Command string // for a shell
	Output  string
}

// Steps returns the commands of a block. In a console block they follow a prompt,
// "$ ", and their output follows them. In other blocks every line is a command. A
// line that ends with a backslash continues on the next one.
func (b Block) Steps() []Step {
	var steps []Step
	continues := false
	number := -1

	for line := range strings.Lines(b.Text) {
		number++
		command, prompted := strings.CutPrefix(line, "$ ")

		switch {
		case continues:
			last := &steps[len(steps)-1]
			last.Source += line
			last.Command += line
		case prompted || b.Lang != "console":
			if strings.TrimSpace(command) == "" {
				continue
			}
			steps = append(steps, Step{Line: number, Source: line, Command: command})
		case len(steps) > 0:
			steps[len(steps)-1].Output += line
			continue
		}

		continues = strings.HasSuffix(line, "\\\n")
	}
	return steps
}

// Matches reports whether a command printed what the page shows. A line "..." of
// the page stands for any lines, and "..." in a line for any text.
func Matches(page, printed string) bool {
	// The common case needs no pattern.
	if !strings.Contains(page, "...") {
		return page == printed
	}

	var pattern strings.Builder
	pattern.WriteString(`\A`)

	for line := range strings.Lines(page) {
		if line == "...\n" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`))
	}

	pattern.WriteString(`\z`)

	return regexp.MustCompile(pattern.String()).MatchString(printed)
}

var docLink = regexp.MustCompile(`\[(\*?[A-Za-z][\w.]*)\]`)

// Cell returns a text of the code for a cell of a table: links of Go's comments
// become code, and characters that Markdown interprets are escaped.
func Cell(text string) string {
	// NUL bytes mark the links, so that the escapes of Markdown do not touch
	// their brackets.
	text = strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ", "*", `\*`, "_",
		`\_`).Replace(docLink.ReplaceAllString(text, "\x00$1\x00"))
	parts := strings.Split(text, "\x00")
	// Every second part was a link.
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "`" + strings.ReplaceAll(parts[i], `\`, "") + "`"
	}
	return strings.Join(parts, "")
}
