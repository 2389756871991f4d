package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// table is a display that draws frames on a screen, with recent events below.
type table struct {
	screen *tty.Screen
	style  tty.Style
	events []event
}

// maxEvents is the maximum number of events shown.
const maxEvents = 12

func (t *table) show(f frame) error {
	t.events = append(t.events, f.Events...)
	t.events = t.events[max(0, len(t.events)-maxEvents):]
	f.Events = t.events

	// Draw leaves the last line of the terminal to the cursor.
	width, height := t.screen.Size()
	return t.screen.Draw(render(f, width, height-1, t.style))
}

func (t *table) close() error { return t.screen.Close() }

// minWidth is the width of the columns. A narrower terminal cuts them.
const minWidth = 80

// fewEvents is the number of events for which empty lines make room.
const fewEvents = 3

// render draws a frame in at most height lines, none wider than width. If it does
// not fit, it drops empty lines, then events, the legend, and the last rows.
func render(f frame, width, height int, style tty.Style) []string {
	wide := max(width, minWidth)
	lines := append([]string{header(f, wide, style), " " + f.Totals.String(), ""}, rows(f.Rows, wide, style)...)

	// There is a line before the legend, and one before the events.
	if len(lines)+len(legend)+fewEvents+len("  ") > height {
		lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	}

	if len(lines)+1+len(legend) <= height {
		lines = append(lines, "")
		for _, line := range legend {
			lines = append(lines, " "+style.Dim(line))
		}
	}

	if room := height - len(lines); room > 0 && len(f.Events) > 0 {
		// If there is room for one line, it goes to an event.
		if room > 1 {
			lines, room = append(lines, ""), room-1
		}
		for _, e := range f.Events[max(0, len(f.Events)-room):] {
			lines = append(lines, " "+e.line(style))
		}
	}

	for i := range lines {
		lines[i] = tty.Clip(strings.TrimRight(lines[i], " "), width)
	}
	return lines[:min(len(lines), max(height, 0))]
}

// legend explains the bars, the numbers and the clock.
var legend = [...]string{
	tty.BarFull + tty.BarFull + " used; 9/12 is left of the capacity   " + tty.BarDebt + tty.BarDebt +
		" debt, which refill pays first",
	"Time is real: limits refill per minute, $ per month. Keys charge their project.",
}

// header returns a line with the title on the left, cut if needed, and the clock
// on the right.
func header(f frame, width int, style tty.Style) string {
	const name = " zae-limiter demo"
	clock := f.clock()
	title := tty.Clip("   "+f.setting(), max(0, width-len(name)-len(clock)-1))
	return style.Bold(name) + style.Dim(tty.Left(title, width-len(name)-len(clock))) + style.Bold(clock)
}

// rows returns the heading and a line for each bucket, with an empty line between
// projects.
func rows(all []row, width int, style tty.Style) []string {
	cells := barCells(width)
	lines := []string{style.Dim(columns(
		"", "model", gaugeTitle(rpm, cells, rpmWidth), gaugeTitle(tpm, cells, tpmWidth), "$ left",
		"admitted", "refused", "retry in"))}

	entity := ""
	for i, r := range all {
		name := ""
		if r.Entity != entity {
			entity, name = r.Entity, label(r.Entity, r.Key, style)
		}

		if name != "" && !r.Key && i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, r.line(name, cells, style))
	}
	return lines
}

// gaugeTitle returns the heading of a bar, which shows what is used, and of its
// number, which is what is left. A short bar has room for the name of the limit only.
func gaugeTitle(limit string, cells, width int) string {
	title := limit + " used"
	if len(title) > cells {
		title = limit
	}
	return tty.Left(title, cells+1) + tty.Right("left", width)
}

// Widths of the columns that do not grow.
const (
	nameWidth     = 9
	modelWidth    = 5
	rpmWidth      = 5
	tpmWidth      = 8
	spendWidth    = 6 // "-$0.04"
	admittedWidth = 8
	refusedWidth  = 7
	retryWidth    = 9 // "tpm 11.9s"
)

// barCells returns the length of each of the two bars of a line.
func barCells(width int) int {
	const margins = 1 + 1 + 2 + 2 + 1 + 2 + 1 + 2 // left of every column
	const barGaps = 2                             // between a bar and its number

	fixed := margins + nameWidth + modelWidth + rpmWidth + tpmWidth + spendWidth + barGaps + admittedWidth +
		refusedWidth + retryWidth
	return min((width-fixed)/2, 24)
}

func columns(name, model, requests, tokens, money, admitted, refused, retry string) string {
	return " " + tty.Left(name, nameWidth) + " " + tty.Left(model, modelWidth) + "  " + requests + "  " + tokens + " " +
		tty.Right(money, spendWidth) + "  " +
		tty.Right(admitted, admittedWidth) + " " + tty.Right(refused, refusedWidth) + "  " + retry
}

func (r row) line(name string, cells int, style tty.Style) string {
	// A row has no gauges before the store is open, but its columns stay where
	// they are.
	gauges := map[string]string{rpm: strings.Repeat(" ", cells+1+rpmWidth), tpm: strings.Repeat(" ", cells+1+tpmWidth)}
	widths := map[string]int{rpm: rpmWidth, tpm: tpmWidth}
	money := ""

	for _, g := range r.Gauges {
		if g.Limit.Name == spend {
			money = g.money(style)
			continue
		}
		gauges[g.Limit.Name] = g.draw(cells, widths[g.Limit.Name], style)
	}

	retry := ""
	if r.Retry > 0 {
		retry = style.Yellow(r.RetryLimit + " " + wait(r.Retry))
	}

	return columns(name, r.Model, gauges[rpm], gauges[tpm], money, strconv.Itoa(r.Admitted),
		strconv.Itoa(r.Refused), retry)
}

// draw returns a bar and its numbers.
func (g gauge) draw(cells, width int, style tty.Style) string {
	text := tty.Right(compact(g.Available)+"/"+compact(g.Limit.Capacity), width)
	if g.Available < 0 {
		text = style.Red(text)
	}
	return tty.Bar(g.Available, g.Limit.Capacity, cells, style) + " " + text
}

// money returns the whole cents that are left or, rounded up, owed.
func (g gauge) money(style tty.Style) string {
	const cent = 10_000
	if g.Available >= 0 {
		return fmt.Sprintf("$%.2f", float64(g.Available/cent)/100)
	}
	return style.Red(tty.Right(fmt.Sprintf("-$%.2f", float64((cent-1-g.Available)/cent)/100), spendWidth))
}

// label returns the name of a project in bold, or of a key with an indent.
func label(entity string, key bool, style tty.Style) string {
	if key {
		return "  " + entity
	}
	return style.Bold(entity)
}

// line returns an event on one line.
func (e event) line(style tty.Style) string {
	what := tty.Left(e.What, 7)
	switch e.What {
	case "refused", "gave up":
		what = style.Yellow(what)
	case "debt":
		what = style.Red(what)
	}
	return fmt.Sprintf("%s  %s %s %s %s", style.Dim(tty.Right(seconds(e.At), 5)), what, tty.Left(e.Key, 6),
		tty.Left(e.Model, modelWidth), e.Text)
}
