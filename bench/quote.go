package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

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
