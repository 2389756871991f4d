package kit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Cell is a value to print: for a table, and for a tab-separated line.
type Cell struct {
	Display, Plain string
	paint          func(string) string // colours the text in a table; nil leaves it
}

// None stands for an empty value in a table.
const None = "-"

// Text returns the cell of a stored text. It escapes control characters, so that
// they cannot move the cursor or start another field.
func Text(s string) Cell {
	s = tty.Printable(s)
	if s == "" {
		return Cell{Display: None}
	}
	return Cell{Display: s, Plain: s}
}

// Number returns the cell of a whole number.
func Number(n int64) Cell { return Cell{Display: tty.Number(n), Plain: strconv.FormatInt(n, 10)} }

// Amount returns the cell of a number of tokens of a limit: dollars in a table for
// a limit of money, millionths in a line.
func Amount(limit string, n int64) Cell {
	return Cell{Display: tty.Amount(limit, n), Plain: strconv.FormatInt(n, 10)}
}

// Tokens returns the cell of a number of thousandths of a token of a limit.
func Tokens(limit string, n int64) Cell {
	shown := tty.Thousandths(n)
	plain := strings.ReplaceAll(shown, ",", "")

	if figure.IsMoney(limit) {
		shown = tty.Amount(limit, n/1000)
	}
	return Cell{Display: shown, Plain: plain}
}

// Decimal returns the cell of a fraction, with two digits in a table.
func Decimal(f float64) Cell {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(f, 'f', 2, 64), ".")
	// The integer part 0 keeps the sign of -0.5, which tty.Number would drop.
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil && n != 0 {
		whole = tty.Number(n)
	}

	return Cell{Display: whole + "." + fraction, Plain: strconv.FormatFloat(f, 'f', -1, 64)}
}

// YesNo returns the cell of a boolean.
func YesNo(b bool) Cell {
	if b {
		return Cell{Display: "yes", Plain: "true"}
	}
	return Cell{Display: "no", Plain: "false"}
}

// Moment returns the cell of a time in UTC.
func Moment(t time.Time) Cell {
	if t.IsZero() {
		return Cell{Display: None}
	}
	return Cell{Display: t.UTC().Format("2006-01-02 15:04:05"), Plain: t.UTC().Format(time.RFC3339)}
}

// Span returns the cell of a duration: its two largest units in a table, seconds
// in a line.
func Span(d time.Duration) Cell {
	if d <= 0 {
		return Cell{Display: None, Plain: "0"}
	}
	return Cell{Display: tty.Wait(d), Plain: strconv.FormatFloat(jsonview.Seconds(d), 'f', -1, 64)}
}

// WithColour returns the cell with a colour.
func (c Cell) WithColour(paint func(string) string) Cell {
	c.paint = paint
	return c
}

// Shown returns the text of a cell in a table, with its colour.
func (c Cell) Shown() string {
	if c.paint == nil {
		return c.Display
	}
	return c.paint(c.Display)
}

// Count returns a number with its noun: "1 limit", "1,200 limits".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return tty.Number(int64(n)) + " " + noun
}

// Column describes a column of a list.
type Column struct {
	Title string
	Right bool // align right, as numbers
	Whole bool // never cut; right columns never are
	Spare bool // leave out if the terminal is too narrow
	Keep  bool // leave out last, if the terminal is too narrow
	// Extra leaves the column out if it is empty. Extra columns are the last ones.
	Extra bool
}

func titles(columns []Column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Title
		if c.Extra {
			names[i] += " if any"
		}
	}
	return names
}

// Listing describes how to print rows of type T.
type Listing[T any] struct {
	Columns []Column
	Row     func(T) []Cell // for tables and tab-separated lines
	Object  func(T) any    // for JSON
	Nothing string         // message on stderr if there are no rows
}

// Print writes the rows in the format of the console, or as JSON. It returns an
// error of the sequence after the rows that precede it.
func (l Listing[T]) Print(c *Console, asJSON bool, rows iter.Seq2[T, error]) error {
	counted, stop := rows, func() {}

	// If stdout is a pipe, it may lead to a pager that owns the terminal, and
	// progress would disturb that.
	if c.Terminal && !asJSON || c.outIsFile {
		counted, stop = Watch(c, rows)
	}
	defer stop()

	var n int
	var err error

	switch {
	case asJSON:
		n, err = buffered(c.Out, counted, l.printJSON)
	case c.Terminal:
		n, err = l.printTable(c, counted)
	default:
		n, err = buffered(c.Out, counted, l.printFields)
	}
	// The line of progress must be gone before the message.
	stop()
	if err == nil && n == 0 && l.Nothing != "" {
		c.Say("%s", l.Nothing)
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

func (l Listing[T]) printTable(c *Console, rows iter.Seq2[T, error]) (int, error) {
	var cells [][]string
	var failed error
	filled := make([]bool, len(l.Columns))

	for v, err := range rows {
		if err != nil {
			failed = err
			break
		}

		row := l.Row(v)
		shown := make([]string, len(row))
		for i := range row {
			shown[i] = row[i].Shown()
			// A column counts as empty by its plain text, since an empty cell
			// shows a dash in a table.
			filled[i] = filled[i] || row[i].Plain != ""
		}
		cells = append(cells, shown)
	}

	if len(cells) == 0 {
		return 0, failed
	}

	var columns []tty.Column
	for i, col := range l.Columns {
		// Columns before this one that were empty are deleted already, so its
		// place is the number of those that were kept.
		if col.Extra && !filled[i] {
			for j := range cells {
				cells[j] = slices.Delete(cells[j], len(columns), len(columns)+1)
			}
			continue
		}

		columns = append(columns, tty.Column{
			Title: strings.ToUpper(col.Title), Right: col.Right, Whole: col.Whole || col.Right,
			Spare: col.Spare, Keep: col.Keep,
		})
	}

	_, err := io.WriteString(c.Out, strings.Join(tty.Table(columns, cells, c.Width, c.Style), "\n")+"\n")
	return len(cells), errors.Join(failed, err)
}

func (l Listing[T]) printFields(out io.Writer, rows iter.Seq2[T, error]) (n int, err error) {
	for v, err := range rows {
		if err != nil {
			return n, err
		}

		var fields []string
		for _, c := range l.Row(v) {
			fields = append(fields, c.Plain)
		}
		// Only fields at the end are left out, so that the numbers of the
		// others stay the same.
		for last := len(fields) - 1; last >= 0 && last < len(l.Columns) && l.Columns[last].Extra &&
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
func (l Listing[T]) printJSON(out io.Writer, rows iter.Seq2[T, error]) (n int, err error) {
	separator := "[\n"
	for v, err := range rows {
		if err != nil {
			return n, err
		}

		object, err := encode(l.Object(v))
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

// Each returns a sequence of values without errors.
func Each[T any](values []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Property is a named value of a single object.
type Property struct {
	Name  string
	Value Cell
}

// PrintProperties writes a single object: a line for each property, or JSON.
func PrintProperties(c *Console, asJSON bool, properties []Property, object any) error {
	if asJSON {
		return c.PrintJSON(object)
	}

	wide := 0
	for _, p := range properties {
		wide = max(wide, tty.Width(p.Name))
	}

	var b strings.Builder
	for _, p := range properties {
		if c.Terminal {
			b.WriteString(tty.Ellipsis(c.Style.Bold(tty.Left(p.Name, wide))+"  "+p.Value.Shown(), c.Width) + "\n")
		} else {
			b.WriteString(p.Name + "\t" + p.Value.Plain + "\n")
		}
	}

	_, err := io.WriteString(c.Out, b.String())
	return err
}

// PrintJSON writes an object as JSON on one line.
func (c *Console) PrintJSON(object any) error {
	text, err := encode(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out, text)
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

// Collect returns the values of a sequence, or its first error.
func Collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
