package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/s3files"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

type aggregateOptions struct {
	*kit.Connection
	follow, noRefill bool
	windows          []limiter.Window
	retention        time.Duration
	archive          string
}

func newAggregate(c *kit.Console) *cobra.Command {
	o := aggregateOptions{Connection: &kit.Connection{Console: c}, retention: dynamo.DefaultUsageRetention}
	cmd := &cobra.Command{
		Use:   "aggregate",
		Short: "Count usage from the stream of a DynamoDB table",
		Long: `Count usage from the stream of a DynamoDB table, for all its namespaces, and
refill buckets that are running low. The command starts where the last run
stopped and ends at the end of the stream; with --follow it waits for more.
Records that are read twice count once, so it can be killed at any time.
Embedded stores count usage themselves. Do not run it on a table with a function
that counts usage, such as a table of Python's stack, since both would count.

With --archive, store audit events that expire from the table as gzipped JSON
lines, a file for each hour under year=, month= and day=. An event that is read
twice is stored once.

` + kit.StoreHelp,
		Example: "  zae-limiter aggregate --name my-app\n  zae-limiter aggregate --name my-app --follow",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runAggregate(cmd.Context(), o) },
	}

	o.AddStore(cmd)

	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "wait for more records until interrupted")
	cmd.Flags().BoolVar(&o.noRefill, "no-refill", false, "count without refilling buckets")
	kit.AddFlag(cmd, &o.windows, "windows", "list", "hourly,daily,monthly", "windows in which usage is counted",
		aggregator.ParseWindows)
	kit.AddFlag(cmd, &o.retention, "usage-retention-days", "number", "90", "days to keep usage", parseDays)
	kit.AddFlag(cmd, &o.archive, "archive", "place", "", "folder or s3://bucket/prefix for expired audit events",
		parseArchive)

	return cmd
}

// parseArchive accepts a folder or a URL of S3, but no other URL.
func parseArchive(place string) (string, error) {
	// A URL of S3 needs a bucket: s3:// and s3:///logs are errors.
	if bucket, isURL := strings.CutPrefix(place, s3files.Scheme); isURL && bucket != "" && bucket[0] != '/' ||
		!strings.Contains(place, "://") {
		return place, nil
	}
	return "", errors.New("must be a folder or a URL such as s3://my-bucket/limits")
}

// openArchive opens the archive. It returns nil if there is none.
func (o *aggregateOptions) openArchive(ctx context.Context) (aggregator.Files, error) {
	switch {
	case o.archive == "":
		return nil, nil
	case strings.HasPrefix(o.archive, s3files.Scheme):
		return s3files.Open(ctx, o.archive, o.Region)
	}

	folder, err := aggregator.OpenFolder(o.archive)
	if err != nil {
		return nil, fmt.Errorf("the archive must be a writable folder: %w", err)
	}
	return folder, nil
}

func parseDays(text string) (time.Duration, error) {
	const maxDays = 3650

	days, err := strconv.Atoi(text)
	if err != nil || days < 1 || days > maxDays {
		return 0, fmt.Errorf("must be a whole number from 1 to %d", maxDays)
	}
	return time.Duration(days) * 24 * time.Hour, nil
}

func runAggregate(ctx context.Context, o aggregateOptions) (err error) {
	s, err := o.SelectStore()
	if err != nil {
		return err
	}
	if !s.Dynamo {
		return kit.Usagef("%s counts usage itself; aggregate is for a DynamoDB table, name one with --name", s.Name)
	}

	opened, err := o.OpenStore(ctx, s, kit.OpenOptions{Access: kit.Change})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()

	repo, ok := opened.(*dynamo.Repository)
	if !ok {
		return fmt.Errorf("%s has no stream", s.Name)
	}

	files, err := o.openArchive(ctx)
	if err != nil {
		return err
	}

	a, err := aggregator.New(repo.UsageStore(o.retention), &aggregator.Options{
		Windows: o.windows, NoRefill: o.noRefill, Archive: files,
	})
	if err != nil {
		return kit.Usagef("%v", err)
	}

	counted := &aggregation{Connection: o.Connection, aggregator: a, skipped: map[string]int{}}

	stop := o.Progress(counted.String)
	err = repo.Follow(ctx, &dynamo.FollowOptions{UntilEmpty: !o.follow, OnError: counted.failed}, counted.take)
	stop()

	if o.follow && errors.Is(err, context.Canceled) {
		// An interrupt is the normal end of --follow.
		err = nil
	}

	counted.report(err)
	return err
}

// aggregation sums up the batches of an aggregate command.
type aggregation struct {
	*kit.Connection
	aggregator                 *aggregator.Aggregator
	records, changes           atomic.Int64
	snapshots, refills, damage int
	events, files              int
	skipped                    map[string]int
	lastWarning                string
	warnedAt                   time.Time
}

// String returns the progress.
func (g *aggregation) String() string {
	return "counting: " + tty.Number(g.records.Load()) + " records, " + tty.Number(g.changes.Load()) +
		" changes of buckets"
}

func (g *aggregation) take(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
	t := dynamo.Aggregate(ctx, g.aggregator, records)
	g.records.Add(int64(t.Done))
	g.changes.Add(int64(t.Changes))
	g.snapshots += t.Snapshots
	g.refills += t.Refills
	g.damage += t.Lost
	g.events += t.Events
	g.files += t.Files

	for _, skip := range t.Skipped {
		g.skipped[skip.Reason]++
	}

	// Follow passes the remaining records again, and reports the error itself.
	if t.Done < len(records) {
		return t.Done, t.Err
	}
	// An error that needs no retry, such as that of a refill, never reaches Follow.
	if t.Err != nil {
		g.failed(t.Err)
	}

	return t.Done, nil
}

// failed warns about an error that Follow retries, but not repeatedly: during an
// outage every retry fails, often with another message.
func (g *aggregation) failed(err error) {
	const lately = 10 * time.Second
	if now := g.Now(); err.Error() != g.lastWarning && now.Sub(g.warnedAt) > lately {
		g.lastWarning, g.warnedAt = err.Error(), now
		g.Warn("%v", err)
	}
}

// report reports the totals.
func (g *aggregation) report(err error) {
	for _, reason := range slices.Sorted(maps.Keys(g.skipped)) {
		g.Warn("%s not counted: %s", kit.Count(g.skipped[reason], "record"), reason)
	}

	if g.damage > 0 {
		g.Warn("%s lost to damaged snapshots", kit.Count(g.damage, "change"))
	}
	// After an error the totals would read as if the whole stream had been
	// counted.
	if err == nil {
		g.Done("Counted %s of %s %s: %s written, %s", kit.Count(int(g.changes.Load()), "change"),
			kit.Count(int(g.records.Load()), "record"), g.Location(),
			kit.Count(g.snapshots, "snapshot"), kit.Count(g.refills, "refill"))
	}
	// Files that were stored stay stored, whatever happened after them.
	if g.events > 0 {
		g.Done("Archived %s in %s", kit.Count(g.events, "audit event"), kit.Count(g.files, "file"))
	}
}
