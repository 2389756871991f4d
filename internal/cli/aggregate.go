package cli

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
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
	"github.com/zeroae/zae-limiter-go/internal/s3files"
)

type aggregateOptions struct {
	*connection
	follow, noRefill bool
	windows          []limiter.Window
	retention        time.Duration
	archive          string
}

func newAggregate(c *console) *cobra.Command {
	o := aggregateOptions{connection: &connection{console: c}, retention: dynamo.DefaultUsageRetention}
	cmd := &cobra.Command{
		Use:   "aggregate",
		Short: "Count usage from the stream of a DynamoDB table",
		Long: `Counts usage from the stream of a DynamoDB table, for all its namespaces, and
refills buckets that are running low. It begins where the last one stopped,
ends when nothing is left to read, and with --follow waits for more. Whatever
is read twice counts once, so it may be killed at any time. The embedded stores
need none of this: they count with every charge. Nor does a table that has a
function for it, such as that of Python's stack: both would count everything.

With --archive, audit events that the table drops are kept as gzipped JSON
lines, a file for each hour under year=, month= and day=; events that are read
again are there once.

` + storeHelp,
		Example: "  zae-limiter aggregate --name my-app\n  zae-limiter aggregate --name my-app --follow",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runAggregate(cmd.Context(), o) },
	}
	o.addStore(cmd)
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "wait for more until interrupted")
	cmd.Flags().BoolVar(&o.noRefill, "no-refill", false, "only count")
	addFlag(cmd, &o.windows, "windows", "list", "hourly,daily,monthly", "windows to count in", aggregator.ParseWindows)
	addFlag(cmd, &o.retention, "usage-retention-days", "number", "90", "how long usage is kept", parseDays)
	addFlag(cmd, &o.archive, "archive", "place", "", "folder or s3://bucket/prefix for audit events", parseArchive)
	return cmd
}

// parseArchive knows what would be taken for a folder and is none.
func parseArchive(place string) (string, error) {
	if bucket, isURL := strings.CutPrefix(place, s3files.Scheme); isURL && bucket != "" && bucket[0] != '/' || !strings.Contains(place, "://") {
		return place, nil
	}
	return "", errors.New("it has to be a folder or an address such as s3://my-bucket/limits")
}

// files are those of the archive, nil if there is none.
func (o *aggregateOptions) files(ctx context.Context) (aggregator.Files, error) {
	switch {
	case o.archive == "":
		return nil, nil
	case strings.HasPrefix(o.archive, s3files.Scheme):
		return s3files.Open(ctx, o.archive, o.region)
	}
	folder, err := aggregator.OpenFolder(o.archive)
	if err != nil {
		return nil, fmt.Errorf("the archive has to be a folder that can be written to: %w", err)
	}
	return folder, nil
}

func parseDays(text string) (time.Duration, error) {
	const most = 3650
	days, err := strconv.Atoi(text)
	if err != nil || days < 1 || days > most {
		return 0, fmt.Errorf("it has to be a whole number from 1 to %d", most)
	}
	return time.Duration(days) * 24 * time.Hour, nil
}

func runAggregate(ctx context.Context, o aggregateOptions) (err error) {
	s, err := o.chosen()
	if err != nil {
		return err
	}
	if !s.dynamo {
		return usagef("%s counts usage by itself; aggregate is for a DynamoDB table, which --name names", s.name)
	}
	opened, err := o.openStore(ctx, s, opening{access: changes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	repo, ok := opened.(*dynamo.Repository)
	if !ok {
		return fmt.Errorf("%s has no stream", s.name)
	}
	files, err := o.files(ctx)
	if err != nil {
		return err
	}
	a, err := aggregator.New(repo.UsageStore(o.retention), &aggregator.Options{Windows: o.windows, NoRefill: o.noRefill, Archive: files})
	if err != nil {
		return usagef("%v", err)
	}
	counted := &aggregation{connection: o.connection, aggregator: a, skipped: map[string]int{}}
	stop := o.progress(counted.String)
	err = repo.Follow(ctx, &dynamo.FollowOptions{UntilEmpty: !o.follow, OnError: counted.failed}, counted.take)
	stop()
	if o.follow && errors.Is(err, context.Canceled) {
		err = nil // as it was asked to
	}
	counted.report(err)
	return err
}

// aggregation adds up what was counted.
type aggregation struct {
	*connection
	aggregator                 *aggregator.Aggregator
	records, changes           atomic.Int64
	snapshots, refills, damage int
	events, files              int
	skipped                    map[string]int
	failure                    string // told last
	told                       time.Time
}

// String is how far it is.
func (g *aggregation) String() string {
	return "counting: " + tty.Number(g.records.Load()) + " records, " + tty.Number(g.changes.Load()) + " changes of buckets"
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
	if t.Done < len(records) {
		return t.Done, t.Err
	}
	if t.Err != nil {
		g.failed(t.Err)
	}
	return t.Done, nil
}

// failed tells what goes wrong, unless that was told just before, if in other
// words: of an outage every try has its own.
func (g *aggregation) failed(err error) {
	const lately = 10 * time.Second
	if now := g.now(); err.Error() != g.failure && now.Sub(g.told) > lately {
		g.failure, g.told = err.Error(), now
		g.warn("%v", err)
	}
}

// report says what was done.
func (g *aggregation) report(err error) {
	for _, reason := range slices.Sorted(maps.Keys(g.skipped)) {
		g.warn("%s not counted: %s", count(g.skipped[reason], "record"), reason)
	}
	if g.damage > 0 {
		g.warn("%s lost to damaged snapshots", count(g.damage, "change"))
	}
	if err == nil {
		g.done("Counted %s of %s %s: %s written, %s", count(int(g.changes.Load()), "change"), count(int(g.records.Load()), "record"), g.where(),
			count(g.snapshots, "snapshot"), count(g.refills, "refill"))
	}
	if g.events > 0 {
		g.done("Archived %s in %s", count(g.events, "audit event"), count(g.files, "file"))
	}
}
