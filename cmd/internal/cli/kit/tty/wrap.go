package tty

import "strings"

// Wrap breaks the lines of a text between words, or inside a word that is wider
// than width. The rest of an indented line has the same indent, up to half of
// width.
func Wrap(text string, width int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, wrapLine(line, max(width, 1))...)
	}
	return strings.Join(out, "\n")
}

func wrapLine(line string, width int) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	indent = indent[:min(len(indent), width/2)]
	room := width - len(indent)

	lines := []string{""}
	for word := range strings.FieldsSeq(line) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case Width(*last)+1+Width(word) <= room:
			*last += " " + word
		default:
			lines = append(lines, word)
		}

		for Width(lines[len(lines)-1]) > room {
			head, rest := split(lines[len(lines)-1], room)
			// A single character may be wider than the line.
			if rest == "" {
				break
			}
			lines = append(lines[:len(lines)-1], head, rest)
		}
	}

	for i := range lines {
		lines[i] = indent + lines[i]
	}
	return lines
}

// split splits text after as many characters as fit, at least one.
func split(text string, width int) (head, rest string) {
	at := 0
	for at < len(text) {
		size, visible := next(text[at:])
		if width -= visible; width < 0 && at > 0 {
			break
		}
		at += size
	}
	return text[:at], text[at:]
}
