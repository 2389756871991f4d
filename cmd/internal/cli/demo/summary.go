package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/llm"
)

// summary returns the summary of the demo with all numbers, for a file or a pipe.
func summary(f frame, all []line, v verdict, style tty.Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s   %s\n%s\n\n", style.Bold("zae-limiter demo"), style.Dim(ended(f)), f.Totals)
	b.WriteString(
		style.Dim(summaryLine("", "", "", "allowed", "admitted", "later", "used", "as debt", "refused")) + "\n",
	)

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

const explanation = `All numbers are tokens, or dollars. Allowed: capacity plus refill during the
run. Admitted: estimates, less what was given back. Later: use beyond the
estimates. Used: admitted plus later. As debt: the part of used that the bucket
did not hold. Refused: requested but not admitted.`

// outside states what the checks do not cover, and escrowOutside with escrow.
const (
	outside = `Later corrections are outside this promise: they are never refused, so used may
exceed allowed. The excess is debt, and nothing is admitted until it is paid.`
	escrowOutside = `Later corrections are outside this promise: they are never refused, so used may
exceed allowed. The excess is debt. Until it is paid, calls are admitted only
with tokens that escrow holds already.`
)

// heldSummary returns what escrow saved.
func heldSummary(s escrow.Stats) string {
	return fmt.Sprintf("\nEscrow sent %s charges and admitted %s calls without one.\nIt returned %s units "+
		"that it had held, and dropped %s.\n",
		tty.Number(s.Requests), tty.Number(s.AdmittedLocally), tty.Number(s.Returned), tty.Number(s.Dropped))
}

func ended(f frame) string {
	how := "done"
	if f.Elapsed < f.Duration {
		how = "stopped"
	}
	return fmt.Sprintf("%s after %s on %s", how, seconds(f.Elapsed), f.setting())
}

func (l line) line(name string) string {
	limit, some := l.Limit, func(n int64) string {
		if n == 0 {
			return "-"
		}
		return amount(l.Limit, n)
	}

	// The name of the limit is wider than its column.
	if limit == spend {
		limit = "$"
	}

	return summaryLine(name, l.Model, limit, amount(l.Limit, l.Allowed), amount(l.Limit, l.Admitted), some(l.Later),
		amount(l.Limit, l.used()), some(l.Debt), some(l.Refused))
}

// summaryLine returns a line with the limit on the left and its numbers on the
// right.
func summaryLine(name, model, limit string, numbers ...string) string {
	line := tty.Left(name, nameWidth) + " " + tty.Left(model, modelWidth) + "  " + tty.Left(limit, len(rpm))
	for _, n := range numbers {
		line += tty.Right(n, 10)
	}
	return line
}

func (v verdict) outside() string {
	if v.escrow {
		return escrowOutside
	}
	return outside
}

// thousandths formats thousandths of a token, or of a millionth of a dollar.
func (v verdict) thousandths(n int64) string {
	if v.limit == spend {
		return llm.Dollars(n / 1000)
	}
	return tty.Thousandths(n) + " tokens"
}

func admissions(n int) string { return tty.Number(int64(n)) + " admissions" }

// sentence returns the result of the checks, and what they do not cover.
func (v verdict) sentence(style tty.Style) string {
	where := fmt.Sprintf("%s of %s on %s, %s into the run", v.limit, v.entity, v.model,
		seconds(v.at.Truncate(time.Millisecond)))

	switch {
	case v.checks == 0:
		return "Nothing was admitted, so there was nothing to check."
	case v.broken > 0:
		return style.Red(
			"MORE WAS ADMITTED THAN ALLOWED",
		) + fmt.Sprintf(" in windows that end with %s of %s.\nThe worst is %s over: %s.",
			tty.Number(int64(v.broken)), admissions(v.checks), v.thousandths(v.worst.excess), where)
	}
	return style.Green(
		"Nothing was admitted beyond the limits",
	) + fmt.Sprintf(": the check covered all windows that end\nwith one of %s on %d limits.\nThe tightest "+
		"had %s to spare:\n%s.\n\n%s",
		admissions(v.checks), v.limits, v.thousandths(-v.worst.excess), where, v.outside())
}

// next says what to try after the demo.
const next = `
Next: zae-limiter demo --web                               this in a browser
      zae-limiter resource set-defaults gpt-4 -l rpm:100   a limit of your own
`

// brief returns the summary of the demo on one screen of 24 lines, with what
// follows it: a line for each bucket with what was used of what was allowed.
func brief(f frame, all []line, v verdict, width int, style tty.Style) string {
	title := style.Bold("zae-limiter demo") + "   " + style.Dim(ended(f))
	// The name of a store may be longer than the line.
	if tty.Width(title) > width {
		title = style.Bold("zae-limiter demo") + " " + tty.Ellipsis(ended(f), max(width-len("zae-limiter demo "), 0))
	}
	lines := []string{
		title, f.Totals.String(), style.Dim(briefLine("", "", "rpm used", "tpm used", "$ used", "refused")),
	}

	entity, indebted := "", false
	for _, r := range f.Rows {
		name, cells := "", map[string]string{}
		if r.Entity != entity {
			entity, name = r.Entity, label(r.Entity, r.Key, style)
		}

		for _, l := range all {
			if l.Entity == r.Entity && l.Model == r.Model {
				cells[l.Limit] = l.share(style)
				indebted = indebted || l.Debt > 0
			}
		}

		lines = append(lines,
			briefLine(name, r.Model, cells[rpm], cells[tpm], cells[spend], tty.Number(int64(r.Refused))))
	}

	lines = append(lines, v.brief(style))
	if indebted {
		lines = append(lines,
			style.Red("Debt")+": what calls used beyond their estimate is never refused, and paid first.")
	}
	for i := range lines {
		lines[i] = tty.Clip(strings.TrimRight(lines[i], " "), max(width, minWidth))
	}
	return strings.Join(lines, "\n") + "\n"
}

// share returns what was used of a limit, and what was allowed. It is red if a part
// was debt.
func (l line) share(style tty.Style) string {
	text := amount(l.Limit, l.used()) + " of " + amount(l.Limit, l.Allowed)
	if l.Debt > 0 {
		return style.Red(text)
	}
	return text
}

func briefLine(name, model, requests, tokens, money, refused string) string {
	return tty.Left(name, nameWidth) + " " + tty.Left(model, modelWidth) + tty.Right(requests, 11) +
		tty.Right(tokens, 19) + tty.Right(money, 20) + tty.Right(refused, 9)
}

// brief returns the result of the checks on one line, or on more if they failed.
func (v verdict) brief(style tty.Style) string {
	if v.checks == 0 || v.broken > 0 {
		return v.sentence(style)
	}
	return style.Green("Nothing was admitted beyond the limits") + fmt.Sprintf(": %s on %d limits checked.",
		admissions(v.checks), v.limits)
}
