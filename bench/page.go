package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// pageCommand is the first argument that makes this program write the page of
// figures instead of comparing ratios.
const pageCommand = "report"

// pageOptions configures the page.
type pageOptions struct {
	folder  string // of the page and its charts
	program string // zae-limiter, which runs the load tests
	// only selects tables by name. The page is written with all of them or not
	// at all.
	only  *regexp.Regexp
	quick bool
}

// parsePage reads the command line of the page. It prints its errors.
func parsePage(args []string, errs io.Writer) (pageOptions, error) {
	o := pageOptions{}
	flags := flag.NewFlagSet("bench "+pageCommand, flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.folder, "folder", "../docs", "`folder` of benchmarks.md and its charts")
	flags.StringVar(&o.program, "program", "../bin/zae-limiter", "`path` of zae-limiter, which runs the load tests")
	flags.BoolVar(&o.quick, "quick", false, "short samples, to try the command out")
	only := flags.String("only", "",
		"print the tables whose name matches this `regexp` and leave the page alone: "+strings.Join(pageTables(), ", "))

	if err := flags.Parse(args); err != nil {
		return o, err
	}

	var err error
	if o.only, err = regexp.Compile(*only); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q is not expected", flags.Arg(0))
	}

	if err != nil {
		fmt.Fprintln(errs, "bench:", err)
	}
	return o, err
}

// writePage measures every table and writes the page, or prints some tables.
func writePage(ctx context.Context, o pageOptions, out io.Writer) error {
	// The number of free CPUs has to be measured while nothing else runs.
	m, err := thisMachine(ctx)
	if err != nil {
		return err
	}

	var measured []pageTable
	for _, source := range pageSources {
		if !o.only.MatchString(source.name) {
			continue
		}

		fmt.Fprintf(out, "measuring %s\n", source.name)
		table := pageTable{source: source}
		if table.rows, err = source.measure(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", source.name, err)
		}

		fmt.Fprint(out, table.markdown(), "\n")
		measured = append(measured, table)
	}

	// The page names one commit, so new tables do not go beside older ones.
	if len(measured) < len(pageSources) {
		return nil
	}
	return savePage(o.folder, m, measured)
}

// savePage writes the charts, then the page that shows them.
func savePage(folder string, m machine, tables []pageTable) error {
	charts := filepath.Join(folder, "images")
	if err := os.MkdirAll(charts, 0o750); err != nil {
		return err
	}

	var errs []error
	for _, table := range tables {
		errs = append(errs, os.WriteFile(filepath.Join(charts, table.chartFile()), []byte(table.chart()), 0o600))
	}

	errs = append(errs, os.WriteFile(filepath.Join(folder, "benchmarks.md"), []byte(pageMarkdown(m, tables)), 0o600))
	return errors.Join(errs...)
}
