package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// cell is a value to print: for a table, and for a tab-separated line.
type cell struct {
	display, plain string
	paint          func(string) string // colours the text in a table; nil leaves it
}

// none stands for an empty value in a table.
const none = "-"

// text returns the cell of a stored text. It escapes control characters, so that
// they cannot move the cursor or start another field.
func text(s string) cell {
	s = tty.Printable(s)
	if s == "" {
		return cell{display: none}
	}
	return cell{display: s, plain: s}
}

func number(n int64) cell { return cell{display: tty.Number(n), plain: strconv.FormatInt(n, 10)} }

// amount returns the cell of a number of tokens of a limit: dollars in a table for
// a limit of money, millionths in a line.
func amount(limit string, n int64) cell {
	return cell{display: tty.Amount(limit, n), plain: strconv.FormatInt(n, 10)}
}

// tokens returns the cell of a number of thousandths of a token of a limit.
func tokens(limit string, n int64) cell {
	shown := tty.Thousandths(n)
	plain := strings.ReplaceAll(shown, ",", "")

	if figure.IsMoney(limit) {
		shown = tty.Amount(limit, n/1000)
	}
	return cell{display: shown, plain: plain}
}

// decimal returns the cell of a fraction, with two digits in a table.
func decimal(f float64) cell {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(f, 'f', 2, 64), ".")
	// The integer part 0 keeps the sign of -0.5, which tty.Number would drop.
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil && n != 0 {
		whole = tty.Number(n)
	}

	return cell{display: whole + "." + fraction, plain: strconv.FormatFloat(f, 'f', -1, 64)}
}

func yesNo(b bool) cell {
	if b {
		return cell{display: "yes", plain: "true"}
	}
	return cell{display: "no", plain: "false"}
}

// moment returns the cell of a time in UTC.
func moment(t time.Time) cell {
	if t.IsZero() {
		return cell{display: none}
	}
	return cell{display: t.UTC().Format("2006-01-02 15:04:05"), plain: t.UTC().Format(time.RFC3339)}
}

// span returns the cell of a duration: its two largest units in a table, seconds
// in a line.
func span(d time.Duration) cell {
	if d <= 0 {
		return cell{display: none, plain: "0"}
	}
	return cell{display: tty.Wait(d), plain: strconv.FormatFloat(jsonview.Seconds(d), 'f', -1, 64)}
}

// withColour returns the cell with a colour.
func (c cell) withColour(paint func(string) string) cell {
	c.paint = paint
	return c
}

func (c cell) shown() string {
	if c.paint == nil {
		return c.display
	}
	return c.paint(c.display)
}

// count returns a number with its noun: "1 limit", "1,200 limits".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return tty.Number(int64(n)) + " " + noun
}
