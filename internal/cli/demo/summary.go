package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// summary is what the demo ends with.
func summary(f frame, all []line, v verdict, style tty.Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s   %s\n%s\n\n", style.Bold("zae-limiter demo"), style.Dim(ended(f)), f.Totals)
	b.WriteString(style.Dim("In tokens of each limit        allowed  admitted  adjusted  given back   refused") + "\n")
	entity, model := "", ""
	for _, l := range all {
		name := ""
		if l.Entity != entity {
			entity, model, name = l.Entity, "", label(l.Entity, l.Key, style)
		}
		if l.Model == model {
			l.Model = ""
		} else {
			model = l.Model
		}
		fmt.Fprintln(&b, l.line(name))
	}
	b.WriteString("\n" + style.Dim(explanation) + "\n\n" + v.sentence(style) + "\n")
	return b.String()
}

const explanation = `Allowed: capacity and refill of the run. Admitted: by estimate, less what failed
calls and high estimates gave back. Adjusted: used beyond the estimate, which is
never refused, but paid off before more is admitted. Refused: asked for in vain.`

func ended(f frame) string {
	how := "done"
	if f.Elapsed < f.Duration {
		how = "stopped"
	}
	return fmt.Sprintf("%s after %s on %s", how, seconds(f.Elapsed), f.setting())
}

func (l line) line(name string) string {
	return fmt.Sprintf("%s %s  %s  %s  %s  %s  %s  %s", tty.Left(name, nameWidth), tty.Left(l.Model, modelWidth), tty.Left(l.Limit, 5),
		tty.Right(tty.Number(l.Allowed), 13), tty.Right(tty.Number(l.Admitted), 8), tty.Right(some(l.Taken), 8),
		tty.Right(some(l.Given), 10), tty.Right(some(l.Refused), 8))
}

// some is a number that is seen only if there is any.
func some(n int64) string {
	if n == 0 {
		return "-"
	}
	return tty.Number(n)
}

// sentence says what the checks found.
func (v verdict) sentence(style tty.Style) string {
	where := fmt.Sprintf("%s of %s on %s, %s into the run", v.limit, v.entity, v.model, seconds(v.at.Truncate(time.Millisecond)))
	switch {
	case v.checks == 0:
		return "Nothing was admitted, so there was nothing to check."
	case v.broken > 0:
		return style.Red("ADMITTED EXCEEDED ALLOWED") + fmt.Sprintf(" in windows that end with %s of %s debits.\nThe worst is %s tokens over: %s.",
			tty.Number(int64(v.broken)), tty.Number(int64(v.checks)), tty.Thousandths(v.worst.excess), where)
	}
	return style.Green("Admitted never exceeded allowed in any window") + fmt.Sprintf(": %s debits on %d limits checked.\nThe tightest window had %s tokens to spare: %s.",
		tty.Number(int64(v.checks)), v.limits, tty.Thousandths(-v.worst.excess), where)
}
