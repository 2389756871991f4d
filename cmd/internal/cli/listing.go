package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// column describes a column of a list.
type column struct {
	title string
	right bool // align right, as numbers
	whole bool // never cut; right columns never are
	spare bool // leave out if the terminal is too narrow
	keep  bool // leave out last, if the terminal is too narrow
	// extra leaves the column out if it is empty. Extra columns are the last ones.
	extra bool
}

func titles(columns []column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.title
		if c.extra {
			names[i] += " if any"
		}
	}
	return names
}

// listing describes how to print rows of type T.
type listing[T any] struct {
	columns []column
	row     func(T) []cell // for tables and tab-separated lines
	object  func(T) any    // for JSON
	nothing string         // message on stderr if there are no rows
}

// print writes the rows in the format of the console, or as JSON. It returns an
// error of the sequence after the rows that precede it.
func (l listing[T]) print(c *console, asJSON bool, rows iter.Seq2[T, error]) error {
	counted, stop := rows, func() {}

	// If stdout is a pipe, it may lead to a pager that owns the terminal, and
	// progress would disturb that.
	if c.terminal && !asJSON || c.outIsFile {
		counted, stop = watch(c, rows)
	}
	defer stop()

	var n int
	var err error

	switch {
	case asJSON:
		n, err = buffered(c.out, counted, l.printJSON)
	case c.terminal:
		n, err = l.printTable(c, counted)
	default:
		n, err = buffered(c.out, counted, l.printFields)
	}
	// The line of progress must be gone before the message.
	stop()
	if err == nil && n == 0 && l.nothing != "" {
		c.say("%s", l.nothing)
	}

	return err
}

// buffered writes rows through a buffer. That is faster, and a reader that takes
// only the first of a few rows does not break the pipe.
func buffered[T any](
	out io.Writer, rows iter.Seq2[T, error], write func(io.Writer, iter.Seq2[T, error]) (int, error),
) (int, error) {
	b := bufio.NewWriterSize(out, 1<<16)
	n, err := write(b, rows)
	return n, errors.Join(err, b.Flush())
}

func (l listing[T]) printTable(c *console, rows iter.Seq2[T, error]) (int, error) {
	var cells [][]string
	var failed error
	filled := make([]bool, len(l.columns))

	for v, err := range rows {
		if err != nil {
			failed = err
			break
		}

		row := l.row(v)
		shown := make([]string, len(row))
		for i := range row {
			shown[i] = row[i].shown()
			// A column counts as empty by its plain text, since an empty cell
			// shows a dash in a table.
			filled[i] = filled[i] || row[i].plain != ""
		}
		cells = append(cells, shown)
	}

	if len(cells) == 0 {
		return 0, failed
	}

	var columns []tty.Column
	for i, col := range l.columns {
		// Columns before this one that were empty are deleted already, so its
		// place is the number of those that were kept.
		if col.extra && !filled[i] {
			for j := range cells {
				cells[j] = slices.Delete(cells[j], len(columns), len(columns)+1)
			}
			continue
		}

		columns = append(columns, tty.Column{
			Title: strings.ToUpper(col.title), Right: col.right, Whole: col.whole || col.right,
			Spare: col.spare, Keep: col.keep,
		})
	}

	_, err := io.WriteString(c.out, strings.Join(tty.Table(columns, cells, c.width, c.style), "\n")+"\n")
	return len(cells), errors.Join(failed, err)
}

func (l listing[T]) printFields(out io.Writer, rows iter.Seq2[T, error]) (n int, err error) {
	for v, err := range rows {
		if err != nil {
			return n, err
		}

		var fields []string
		for _, c := range l.row(v) {
			fields = append(fields, c.plain)
		}
		// Only fields at the end are left out, so that the numbers of the
		// others stay the same.
		for last := len(fields) - 1; last >= 0 && last < len(l.columns) && l.columns[last].extra &&
			fields[last] == ""; last-- {
			fields = fields[:last]
		}

		if _, err := fmt.Fprintln(out, strings.Join(fields, "\t")); err != nil {
			return n, err
		}
		n++
	}

	return n, nil
}

// printJSON writes a JSON array, one object per line. After an error the array
// stays open, so that a reader notices.
func (l listing[T]) printJSON(out io.Writer, rows iter.Seq2[T, error]) (n int, err error) {
	separator := "[\n"
	for v, err := range rows {
		if err != nil {
			return n, err
		}

		object, err := encode(l.object(v))
		if err != nil {
			return n, err
		}

		if _, err := io.WriteString(out, separator+object); err != nil {
			return n, err
		}
		separator = ",\n"
		n++
	}

	end := "\n]\n"
	if n == 0 {
		end = "[]\n"
	}

	_, err = io.WriteString(out, end)
	return n, err
}

// each returns a sequence of values without errors.
func each[T any](values []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// property is a named value of a single object.
type property struct {
	name  string
	value cell
}

// printProperties writes a single object: a line for each property, or JSON.
func printProperties(c *console, asJSON bool, properties []property, object any) error {
	if asJSON {
		return c.printJSON(object)
	}

	wide := 0
	for _, p := range properties {
		wide = max(wide, tty.Width(p.name))
	}

	var b strings.Builder
	for _, p := range properties {
		if c.terminal {
			b.WriteString(tty.Ellipsis(c.style.Bold(tty.Left(p.name, wide))+"  "+p.value.shown(), c.width) + "\n")
		} else {
			b.WriteString(p.name + "\t" + p.value.plain + "\n")
		}
	}

	_, err := io.WriteString(c.out, b.String())
	return err
}

// printJSON writes an object as JSON on one line.
func (c *console) printJSON(object any) error {
	text, err := encode(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, text)
	return err
}

// encode returns an object as JSON on one line. It fails for a damaged time,
// whose year JSON cannot represent.
func encode(object any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return "", fmt.Errorf("a stored value cannot be written as JSON: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
