package docs

import (
	"regexp"
	"strings"
)

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
