package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// report prints tables at once, and the verdicts at the end.
type report struct {
	out     io.Writer
	page    *strings.Builder // the same as Markdown; may be nil
	targets []target
}

func (r *report) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(r.out, text)
	if r.page != nil {
		// Line breaks and indentation are for the terminal only.
		fmt.Fprintf(r.page, "%s\n\n", strings.TrimSpace(text))
	}
}

// table prints rows of cells under a header.
func (r *report) table(header []string, rows [][]string) error {
	if r.page != nil {
		writeMarkdown(r.page, header, rows)
	}

	w := tabwriter.NewWriter(r.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "  "+strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, "  "+strings.Join(row, "\t"))
	}
	return w.Flush()
}

// writeMarkdown writes a table in Markdown.
func writeMarkdown(page *strings.Builder, header []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(page, "| %s |\n", strings.Join(cells, " | ")) }
	line(header)
	fmt.Fprintf(page, "|%s\n", strings.Repeat("---|", len(header)))

	for _, row := range rows {
		line(row)
	}
	page.WriteString("\n")
}

// target is a ratio and its bound.
type target struct {
	what    string
	ratio   series
	bound   float64
	atLeast bool // the bound is a minimum, not a maximum
}

func (r *report) atMost(bound float64, ratio series, format string, args ...any) {
	r.targets = append(r.targets, target{what: fmt.Sprintf(format, args...), ratio: ratio, bound: bound})
}

func (r *report) atLeast(bound float64, ratio series, format string, args ...any) {
	r.targets = append(r.targets, target{what: fmt.Sprintf(format, args...), ratio: ratio, bound: bound, atLeast: true})
}

// verdict compares the median with the bound, and returns by how much it
// misses.
func (t *target) verdict() string {
	off := t.ratio.median()/t.bound - 1
	if t.atLeast {
		off = -off
	}
	if off <= 0 {
		return "PASS"
	}
	return fmt.Sprintf("MISS by %.1f%%", 100*off)
}

func (t *target) wanted() string {
	sign := "<="
	if t.atLeast {
		sign = ">="
	}
	return fmt.Sprintf("%s %g", sign, t.bound)
}

// measured returns the ratio with at least two digits that matter.
func (t *target) measured() string {
	const small = 0.1
	if t.bound < small {
		return t.ratio.show("%.4f")
	}
	return t.ratio.ratio()
}

// verdicts prints the targets of the sections that ran.
func (r *report) verdicts() error {
	if len(r.targets) == 0 {
		return nil
	}
	r.line("\ntargets")
	var rows [][]string
	for _, t := range r.targets {
		rows = append(rows, []string{t.what, t.wanted(), t.measured(), t.verdict()})
	}

	return r.table([]string{"ratio", "target", "measured", "verdict"}, rows)
}

// Lines of a page around the figures that this program writes.
const (
	quoteBegin = "<!-- figures: written by make bench, do not edit -->\n"
	quoteEnd   = "<!-- end of figures -->\n"
)

// quote runs the selected sections and replaces the figures of a page by theirs.
// It refuses a page without a place for them before it measures anything.
func quote(ctx context.Context, cfg config, out io.Writer) error {
	old, err := os.ReadFile(cfg.write)
	if err != nil {
		return err
	}

	// Measuring takes minutes, so a page without a place for the figures fails
	// first.
	if _, err := replaceFigures(string(old), ""); err != nil {
		return fmt.Errorf("%s: %w", cfg.write, err)
	}

	m, err := thisMachine(ctx)
	if err != nil {
		return err
	}

	r := &report{out: out, page: &strings.Builder{}}
	r.line("commit %s, %s, %s", m.commit, m.date, m.processor)
	if err := r.run(ctx, cfg); err != nil {
		return err
	}

	page, err := replaceFigures(string(old), r.page.String())
	if err != nil {
		return err
	}
	return os.WriteFile(cfg.write, []byte(page), 0o600)
}

// replaceFigures returns a page with other figures.
func replaceFigures(page, figures string) (string, error) {
	head, rest, begins := strings.Cut(page, quoteBegin)
	_, tail, ends := strings.Cut(rest, quoteEnd)

	if !begins || !ends {
		return "", errors.New(
			"the page has no lines " + strings.TrimSpace(quoteBegin) + " and " + strings.TrimSpace(quoteEnd),
		)
	}
	return head + quoteBegin + "\n" + figures + quoteEnd + tail, nil
}
