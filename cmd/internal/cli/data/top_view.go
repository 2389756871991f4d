package data

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// topOrder is an order of limits.
type topOrder struct {
	name, words string
	compare     func(a, b gauge) int
}

// topOrders returns the orders of limits. The first is the default.
func topOrders() []topOrder {
	return []topOrder{
		{"left", "tightest first", func(a, b gauge) int { return cmp.Compare(a.share(), b.share()) }},
		{"full", "longest to fill first", func(a, b gauge) int {
			return cmp.Compare(b.status.FullAfter, a.status.FullAfter)
		}},
		{"entity", "by entity", func(a, b gauge) int { return cmp.Compare(a.entity, b.entity) }},
		{"resource", "by resource", func(a, b gauge) int { return cmp.Compare(a.resource, b.resource) }},
		{"limit", "by limit", func(a, b gauge) int { return cmp.Compare(a.limit.Name, b.limit.Name) }},
	}
}

// parseOrder returns the index of an order.
func parseOrder(name string) (int, error) {
	all := topOrders()
	i := slices.IndexFunc(all, func(o topOrder) bool { return o.name == name })
	if i < 0 {
		return 0, errors.New("must be left, full, entity, resource or limit")
	}
	return i, nil
}

// topView is what the user chose to see of the buckets.
type topView struct {
	order    int // of topOrders
	reverse  bool
	filter   string // limits whose entity, resource or name contains it
	typing   bool   // keys belong to the filter
	help     bool   // the keys are shown in place of the limits
	skip     int    // limits above the screen
	page     int    // limits on the screen
	sequence int    // bytes of an escape sequence so far
}

// choose returns the limits that the filter selects, in the chosen order.
func (v *topView) choose(all []gauge) []gauge {
	// The snapshot stays as it was read, since the next key chooses from it again.
	// Equal limits keep its order, by resource and entity.
	chosen := slices.DeleteFunc(slices.Clone(all), func(g gauge) bool { return !v.matches(g) })
	slices.SortStableFunc(chosen, func(a, b gauge) int {
		order := topOrders()[v.order].compare(a, b)
		if v.reverse {
			order = -order
		}
		return order
	})
	return chosen
}

func (v *topView) matches(g gauge) bool {
	wanted := strings.ToLower(v.filter)
	return slices.ContainsFunc([]string{g.entity, g.resource, g.limit.Name}, func(name string) bool {
		return strings.Contains(strings.ToLower(name), wanted)
	})
}

// words describes the order.
func (v *topView) words() string {
	words := topOrders()[v.order].words
	if v.reverse {
		words += ", reversed"
	}
	return words
}

// scroll keeps the view inside n limits. The screen has room for some of them.
func (v *topView) scroll(n, room int) {
	v.page = max(room, 1)
	v.skip = max(0, min(v.skip, n-v.page))
}

// Keys that have no character.
const (
	keyInterrupt = 3 // Ctrl-C
	keyEnd       = 4 // Ctrl-D
	keyBackspace = 8
	keyEnter     = 13
	keyEscape    = 27
	keyDelete    = 127
)

// press changes the view by a key, and reports whether the user quits.
func (v *topView) press(key byte) (quit bool) {
	switch {
	case key == keyInterrupt || key == keyEnd:
		return true
	// An escape that no sequence follows was the key Esc.
	case v.mayBeEscape() && key != '[' && key != 'O':
		v.escape()
		return v.press(key)
	// The bytes of an arrow key come one by one, and none of them is a command.
	case v.sequence > 0:
		v.continueSequence(key)
	case v.help:
		v.help = false
	case v.typing:
		v.typed(key)
	case key == 'q' || key == 'Q':
		return true
	default:
		v.command(key)
	}
	return false
}

// escapeDelay is the time in which the rest of an arrow key follows its escape, also
// over a slow connection.
const escapeDelay = 100 * time.Millisecond

// mayBeEscape reports whether the last key was Esc, or the beginning of an arrow key.
func (v *topView) mayBeEscape() bool { return v.sequence == 1 }

// escape executes the key Esc, which clears the filter.
func (v *topView) escape() { v.sequence, v.filter, v.skip = 0, "", 0 }

// command executes the key of a command.
func (v *topView) command(key byte) {
	switch key {
	case '?', 'h':
		v.help = true
	case '/':
		v.typing, v.filter, v.skip = true, "", 0
	case 's':
		v.order, v.skip = (v.order+1)%len(topOrders()), 0
	case 'r':
		v.reverse, v.skip = !v.reverse, 0
	case 'j':
		v.skip++
	case 'k':
		v.skip--
	case ' ':
		v.skip += v.page
	case 'b':
		v.skip -= v.page
	case 'g':
		v.skip = 0
	case keyEscape:
		v.sequence = 1
	}
}

// typed adds a key to the filter.
func (v *topView) typed(key byte) {
	v.skip = 0

	switch {
	case key == keyEnter:
		v.typing = false
	case key == keyEscape:
		v.typing, v.filter = false, ""
	case key == keyBackspace || key == keyDelete:
		_, size := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-size]
	case key >= ' ':
		// A character of several bytes arrives byte by byte.
		v.filter += string([]byte{key})
	}
}

// continueSequence reads the bytes after an escape: arrows and pages.
func (v *topView) continueSequence(key byte) {
	// The arrow up sends ESC [ A, or ESC O A in the application mode of a
	// terminal.
	if v.sequence == 1 {
		v.sequence = 2
		return
	}

	pages := map[byte]byte{'A': 'k', 'B': 'j', '5': 'b', '6': ' ', 'H': 'g'}
	if v.sequence == 2 && pages[key] != 0 {
		v.command(pages[key])
	}

	// A page key ends in a tilde: page up sends ESC [ 5 ~.
	if v.sequence = 0; key == '5' || key == '6' {
		v.sequence = 3
	}
}

// topHelp lists the keys.
var topHelp = [...][2]string{
	{"/", "show only limits whose entity, resource or name contains a text; Enter keeps it, Esc clears it"},
	{"s", "next order: tightest, longest to fill, by entity, by resource, by limit"},
	{"r", "reverse the order"},
	{"j k, arrows", "down and up; space and b by a page, g to the top"},
	{"?", "this help; any key leaves it"},
	{"q, Ctrl-C", "quit"},
}

// about describes what is shown, in one line.
func (v *topView) about(buckets, all, shown int) string {
	if v.typing {
		return "filter: " + kit.Text(v.filter+" ").Display + "_   Enter keeps it, Esc clears it"
	}

	about := kit.Count(buckets, "bucket") + ", " + kit.Count(all, "limit")
	if v.filter != "" {
		about += ", " + strconv.Itoa(shown) + " with " + strconv.Quote(v.filter)
	}

	return about + ", " + v.words() + "; ? helps, q quits"
}

// frame draws a snapshot in at most height lines, none wider than width.
func (o *topOptions) frame(v snapshot, trouble error, width, height int) []string {
	name, clock := "zae-limiter top", v.at.UTC().Format(time.TimeOnly)+" UTC, every "+o.interval.String()
	title := tty.Ellipsis("   "+strings.TrimPrefix(o.Location(), "in "), max(0, width-len(name)-len(clock)-1))
	lines := []string{
		o.Style.Bold(name) + o.Style.Dim(tty.Left(title, width-len(name)-len(clock))) + o.Style.Bold(clock),
	}

	chosen := o.view.choose(v.gauges)
	about := o.view.about(v.buckets, len(v.gauges), len(chosen))

	switch {
	case trouble != nil:
		about = o.Style.Red("not read: ") + tty.Visible(kit.Shorten(trouble.Error()))
	// The line belongs to the filter while the user types it.
	case v.cut && !o.view.typing:
		about = o.Style.Yellow(o.cutText())
	}

	lines = append(lines, about, "")

	switch {
	case o.view.help:
		lines = append(lines, o.keyTable(width)...)
	case len(v.gauges) == 0:
		lines = append(lines, "There are no buckets: nothing was used lately.")
	case len(chosen) == 0:
		lines = append(lines, "No limit contains "+kit.Text(o.view.filter).Display+
			"; / chooses another filter, Esc clears it.")
	default:
		// One line is the heading of the table.
		room := height - len(lines) - 1
		o.view.scroll(len(chosen), room)
		lines = append(lines, o.gaugeTable(chosen[o.view.skip:], width, room)...)
	}

	for i := range lines {
		lines[i] = tty.Ellipsis(lines[i], width)
	}

	return lines[:min(len(lines), max(height, 0))]
}

// keyTable draws what the keys do.
func (o *topOptions) keyTable(width int) []string {
	const indent = 15
	var lines []string
	for _, key := range topHelp {
		for i, line := range strings.Split(tty.Wrap(key[1], max(width-indent, 1)), "\n") {
			name := ""
			if i == 0 {
				name = key[0]
			}
			lines = append(lines, "  "+o.Style.Bold(tty.Left(name, indent-2))+line)
		}
	}
	return lines
}

// gaugeTable draws a heading and as many gauges as fit.
func (o *topOptions) gaugeTable(gauges []gauge, width, room int) []string {
	cells := 12
	if width >= 100 {
		cells = 24
	}

	columns := []tty.Column{
		{Title: "ENTITY"},
		{Title: "RESOURCE"},
		{Title: "LIMIT"},
		{Title: "MISSING", Whole: true},
		{Title: "AVAILABLE", Right: true, Whole: true},
		{Title: "REFILL", Right: true, Whole: true, Spare: true},
		{Title: "FULL IN", Right: true, Whole: true},
	}

	shadow := slices.ContainsFunc(gauges, func(g gauge) bool { return g.limit.IsShadow })
	if shadow {
		// The mark of a shadow limit is at the end of its name, where a text is
		// cut.
		columns[2].Whole = true
		columns = append(columns, tty.Column{Title: "WOULD REFUSE", Right: true, Whole: true, Keep: true})
	}

	var rows [][]string
	for _, g := range gauges[:min(len(gauges), max(room, 0))] {
		available := tty.Amount(g.limit.Name, g.available()) + "/" + tty.Amount(g.limit.Name, g.limit.Capacity)
		if g.tokens < 0 {
			available = o.Style.Red(available)
		}

		name := kit.Text(g.limit.Name).Display
		if g.limit.IsShadow {
			name += " (shadow)"
		}

		row := []string{
			kit.Text(g.entity).Display, kit.Text(g.resource).Display, name,
			o.barOf(g, cells), available, kit.Rate(g.limit).Display, fullIn(g.status).Display,
		}

		if shadow {
			row = append(row, g.refusedCell().Display)
		}
		rows = append(rows, row)
	}
	return tty.Table(columns, rows, width, o.Style)
}

// barOf draws what is missing from the capacity, or says that calls are refused
// anyway.
func (o *topOptions) barOf(g gauge, cells int) string {
	if g.off != nil {
		return o.Style.Red("disabled")
	}
	return tty.Bar(g.available(), g.limit.Capacity, cells, o.Style)
}
