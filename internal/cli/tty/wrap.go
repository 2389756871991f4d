package tty

import "strings"

// Wrap breaks the lines of a text between words, or where a word is wider than
// width, inside it. What a line begins with to be indented, its continuation
// begins with, too.
func Wrap(text string, width int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, wrapLine(line, max(width, 1))...)
	}
	return strings.Join(out, "\n")
}

func wrapLine(line string, width int) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var out []string
	current := indent
	for word := range strings.FieldsSeq(line) {
		if current != indent && Width(current)+1+Width(word) > width {
			out = append(out, current)
			current = indent
		}
		if current != indent {
			current += " "
		}
		current += word
		for Width(current) > width {
			cut := Clip(current, width)
			out = append(out, cut)
			current = indent + current[len(cut):]
		}
	}
	return append(out, current)
}
