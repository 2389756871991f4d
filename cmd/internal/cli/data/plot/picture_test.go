package plot

import (
	"slices"
	"strings"
	"testing"
)

// picture is a chart read back from plain text.
type picture struct {
	labels []string // of the axis, by row
	rows   [][]rune // right of the axis
	ruler  string
	times  string // below the ruler
}

// read parses the chart of a limit.
func read(t *testing.T, text, limit string) picture {
	t.Helper()
	_, text, found := strings.Cut(text, "\n "+limit+"  total ")
	if !found {
		t.Fatalf("no chart of %s in:\n%s", limit, text)
	}
	lines := strings.Split(text, "\n")
	lines = lines[slices.IndexFunc(lines, func(line string) bool { return strings.ContainsAny(line, "┤┼") }):]
	end := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "└") })
	if end < 0 {
		t.Fatalf("no ruler in:\n%s", text)
	}
	margin := len(lines[end]) - len(strings.TrimLeft(lines[end], " ")) + 1
	p := picture{ruler: string([]rune(lines[end])[margin:]), times: lines[end+1][margin:]}
	for _, line := range lines[:end] {
		runes := []rune(line)
		p.labels = append(p.labels, strings.TrimSpace(string(runes[:margin-1])))
		p.rows = append(p.rows, runes[margin:])
	}
	return p
}

// value returns the label of the row at which a column ends, "" between two labels.
func (p picture) value(t *testing.T, column int) string {
	t.Helper()
	var found []string
	for i, row := range p.rows {
		if column < len(row) && strings.ContainsRune("─╭╰", row[column]) {
			found = append(found, p.labels[i])
		}
	}
	if len(found) != 1 {
		t.Fatalf("column %d ends at %q, want one row", column, found)
	}
	return found[0]
}

// columns returns the width of the line.
func (p picture) columns() int {
	widest := 0
	for _, row := range p.rows {
		widest = max(widest, len(row))
	}
	return widest
}
