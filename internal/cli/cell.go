package cli

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// cell is a value as people read it, and as programs do.
type cell struct {
	people, program string
	paint           func(string) string // colours what people read; nil: nothing
}

// none is shown where there is nothing; programs get an empty field.
const none = "-"

// text is somebody's words: they must not move the cursor nor begin a field.
func text(s string) cell {
	s = printable(s)
	if s == "" {
		return cell{people: none}
	}
	return cell{people: s, program: s}
}

// printable writes characters that cannot be seen as escapes: \t, \u200b. A
// backslash is escaped, too, so that nothing is lost.
func printable(s string) string {
	return escaped(s, func(r rune) bool { return r == '\\' || isOdd(r) })
}

// visible does so for a sentence, in which what is quoted has been escaped.
func visible(s string) string { return escaped(s, isOdd) }

func isOdd(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }

func escaped(s string, odd func(rune) bool) string {
	if !strings.ContainsFunc(s, odd) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !odd(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

func number(n int64) cell { return cell{people: tty.Number(n), program: strconv.FormatInt(n, 10)} }

// tokens are thousandths.
func tokens(n int64) cell {
	shown := tty.Thousandths(n)
	return cell{people: shown, program: strings.ReplaceAll(shown, ",", "")}
}

// decimal has two digits after the point for people.
func decimal(f float64) cell {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(f, 'f', 2, 64), ".")
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil && n != 0 {
		whole = tty.Number(n)
	}
	return cell{people: whole + "." + fraction, program: strconv.FormatFloat(f, 'f', -1, 64)}
}

func yesNo(b bool) cell {
	if b {
		return cell{people: "yes", program: "true"}
	}
	return cell{people: "no", program: "false"}
}

// moment is a time in UTC.
func moment(t time.Time) cell {
	if t.IsZero() {
		return cell{people: none}
	}
	return cell{people: t.UTC().Format("2006-01-02 15:04:05"), program: t.UTC().Format(time.RFC3339)}
}

// span is how long something takes: people read the two largest units, programs
// seconds.
func span(d time.Duration) cell {
	if d <= 0 {
		return cell{people: none, program: "0"}
	}
	return cell{people: briefly(d), program: strconv.FormatFloat(seconds(d), 'f', -1, 64)}
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// briefly rounds up, since it is about when something will have happened.
func briefly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(float64((d+99*time.Millisecond)/(100*time.Millisecond))/10, 'f', 1, 64) + "s"
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < 48*time.Hour:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, 24*time.Hour, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	n := int64(d / small)
	if d%small > 0 {
		n++
	}
	per := int64(large / small)
	text := strconv.FormatInt(n/per, 10) + largeName
	if rest := n % per; rest > 0 {
		text += strconv.FormatInt(rest, 10) + smallName
	}
	return text
}

// in colours a cell.
func (c cell) in(paint func(string) string) cell {
	c.paint = paint
	return c
}

func (c cell) shown() string {
	if c.paint == nil {
		return c.people
	}
	return c.paint(c.people)
}
