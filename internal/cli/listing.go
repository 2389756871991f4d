package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// column is one of a list. Its title names it in every form.
type column struct {
	title string
	right bool // numbers
	whole bool // never cut; numbers never are
	spare bool // left out where there is too little room for all
}

func titles(columns []column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.title
	}
	return names
}

// listing is how rows of one kind are printed: row for people and for
// tab-separated lines, object as JSON.
type listing[T any] struct {
	columns []column
	row     func(T) []cell
	object  func(T) any
	nothing string // said on stderr when there are no rows
}

// print writes the rows in the form that the reader of stdout wants. An error
// of the sequence is returned, after what came before it.
func (l listing[T]) print(c *console, asJSON bool, rows iter.Seq2[T, error]) error {
	counted, stop := rows, func() {}
	if c.terminal && !asJSON || c.patient { // elsewhere it would draw over whatever reads the rows
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
	stop()
	if err == nil && n == 0 && l.nothing != "" {
		c.say("%s", l.nothing)
	}
	return err
}

// buffered writes a lot at once: that is faster, and whoever reads only the
// first of a few rows is not told off for it.
func buffered[T any](out io.Writer, rows iter.Seq2[T, error], write func(io.Writer, iter.Seq2[T, error]) (int, error)) (int, error) {
	b := bufio.NewWriterSize(out, 1<<16)
	n, err := write(b, rows)
	return n, errors.Join(err, b.Flush())
}

func (l listing[T]) printTable(c *console, rows iter.Seq2[T, error]) (int, error) {
	var cells [][]string
	var failed error
	for v, err := range rows {
		if err != nil {
			failed = err
			break
		}
		row := l.row(v)
		shown := make([]string, len(row))
		for i := range row {
			shown[i] = row[i].shown()
		}
		cells = append(cells, shown)
	}
	if len(cells) == 0 {
		return 0, failed
	}
	columns := make([]tty.Column, len(l.columns))
	for i, col := range l.columns {
		columns[i] = tty.Column{Title: strings.ToUpper(col.title), Right: col.right, Whole: col.whole || col.right, Spare: col.spare}
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
			fields = append(fields, c.program)
		}
		if _, err := fmt.Fprintln(out, strings.Join(fields, "\t")); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// printJSON writes an array, a line for each object. One that does not end was
// cut short by an error.
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

// each makes a sequence of a list.
func each[T any](values []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// first is at most n rows of a sequence, all if n is 0. More is called if there
// are others, with the last row it gave.
func first[T any](rows iter.Seq2[T, error], n int, more func(last T)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		given := 0
		var last T
		for v, err := range rows {
			if n > 0 && given == n && err == nil {
				more(last)
				return
			}
			if !yield(v, err) {
				return
			}
			last = v
			given++
		}
	}
}

// fact is a line about a single thing.
type fact struct {
	name  string
	value cell
}

// printFacts writes a single thing: lines of name and value, or an object.
func printFacts(c *console, asJSON bool, facts []fact, object any) error {
	if asJSON {
		return c.printJSON(object)
	}
	wide := 0
	for _, f := range facts {
		wide = max(wide, tty.Width(f.name))
	}
	var b strings.Builder
	for _, f := range facts {
		if c.terminal {
			b.WriteString(tty.Ellipsis(c.style.Bold(tty.Left(f.name, wide))+"  "+f.value.shown(), c.width) + "\n")
		} else {
			b.WriteString(f.name + "\t" + f.value.program + "\n")
		}
	}
	_, err := io.WriteString(c.out, b.String())
	return err
}

// printJSON writes an object on a line.
func (c *console) printJSON(object any) error {
	text, err := encode(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, text)
	return err
}

// encode is an object as JSON on one line. It fails for a time that was damaged:
// one in no year that JSON knows.
func encode(object any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return "", fmt.Errorf("something stored cannot be written as JSON: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
