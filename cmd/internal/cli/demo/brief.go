package demo

import (
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

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
