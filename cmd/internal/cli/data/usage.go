package data

import (
	"context"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/data/plot"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

func newUsage(c *kit.Console) *cobra.Command {
	conn := &kit.Connection{Console: c}
	cmd := kit.NewGroup("usage", "Show usage over time", "Show usage, which is counted by hour, day and month in UTC.")

	conn.AddNamespace(cmd)
	cmd.AddCommand(newUsageList(conn), newUsageSummary(conn))
	return cmd
}

type usageOptions struct {
	*kit.Connection
	query      limiter.UsageQuery
	limit      int
	after      jsonview.Position
	plot, json bool
}

// addQuery adds the flags that select snapshots.
func (o *usageOptions) addQuery(cmd *cobra.Command, windowDefault string) {
	flags := cmd.Flags()
	flags.StringVarP(&o.query.Entity, "entity-id", "e", "", "only usage of this `entity`")
	flags.StringVarP(&o.query.Resource, "resource", "r", "", "only usage of this `resource`")
	kit.AddFlagP(cmd, &o.query.Window, "window", "w", "window", windowDefault, "hourly, daily or monthly",
		kit.OneOf(limiter.Hourly, limiter.Daily, limiter.Monthly))

	const times = "2026-01-31, 2026-01-31T15:00:00Z, or an age such as 24h or 7d"
	parse := func(text string) (time.Time, error) { return jsonview.ParseTime(o.Now(), text) }
	kit.AddFlag(cmd, &o.query.From, "start", "time", "", "windows that start at this time or later:\n"+times, parse)
	kit.AddFlag(cmd, &o.query.To, "end", "time", "", "windows that start at this time or earlier", parse)

	_ = cmd.RegisterFlagCompletionFunc("entity-id", o.CompleteEntities)
	_ = cmd.RegisterFlagCompletionFunc("resource", o.CompleteResources)
	_ = cmd.RegisterFlagCompletionFunc("window", kit.CompleteWords(limiter.Hourly, limiter.Daily, limiter.Monthly))
}

func (o *usageOptions) check() error {
	if err := o.query.Validate(); err != nil {
		return kit.Usagef("%v", err)
	}

	if !o.query.To.IsZero() && o.query.To.Before(o.query.From) {
		return kit.Usagef("--end %s is before --start %s", o.query.To.Format(time.RFC3339),
			o.query.From.Format(time.RFC3339))
	}
	return nil
}

func newUsageList(conn *kit.Connection) *cobra.Command {
	o := usageOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List or plot usage",
		Long: `List the usage in each window, newest first: the tokens of each limit, the
number of changes, and the calls that shadow limits would have refused. Without
a filter, list the latest usage of all entities and resources; a DynamoDB table
with more than 100,000 snapshots needs a filter or --start.

With --plot, draw a chart over time for each limit of each entity, resource and
window, as wide as the terminal, or a bar if there is only one window.`,
		Example: `  zae-limiter usage list
  zae-limiter usage list -e key-abc --window daily
  zae-limiter usage list -r gpt-4 -w hourly --start 24h --plot
  zae-limiter usage list -e key-abc --start 2026-01-01 --end 2026-01-31 --json`,
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A chart needs all windows of its query. Without a filter the
			// query covers the whole store, so the limit stays.
			if o.plot && !cmd.Flags().Changed("limit") && o.query != (limiter.UsageQuery{Window: o.query.Window}) {
				o.limit = 0
			}
			return runUsageList(cmd.Context(), o)
		},
	}

	o.addQuery(cmd, "")
	addRowLimit(cmd, &o.limit, "l", 100)
	kit.AddFlag(cmd, &o.after, "after", "position", "", "continue after this position, as printed by an earlier list",
		jsonview.ParsePosition)

	cmd.Flags().BoolVarP(&o.plot, "plot", "p", false, "draw charts")
	kit.AddJSON[jsonview.Usage](cmd, &o.json, kit.AnArray, usageColumns)

	exclusiveFlags(cmd, "plot", "json", kit.OutputFlag)
	return cmd
}

var usageColumns = []kit.Column{
	{Title: "window start", Whole: true},
	{Title: "window", Whole: true},
	{Title: "resource"},
	{Title: "entity"},
	{Title: "events", Right: true},
	{Title: "counters"},
	{Title: "would refuse", Extra: true},
}

func usageRow(s limiter.UsageSnapshot) []kit.Cell {
	return []kit.Cell{
		kit.Moment(s.Start), kit.Text(string(s.Window)), kit.Text(s.Resource), kit.Text(s.Entity), kit.Number(s.Events),
		counters(s.Counters, kit.Amount),
		counters(s.WouldRefuse, func(_ string, n int64) kit.Cell { return kit.Number(n) }),
	}
}

// counters returns the cell of the counters: "rpm=1,200, tpm=5", sorted by name.
func counters(of map[string]int64, value func(limit string, n int64) kit.Cell) kit.Cell {
	var people, program []string
	for _, limit := range slices.Sorted(maps.Keys(of)) {
		n := value(limit, of[limit])
		people = append(people, tty.Printable(limit)+"="+n.Display)
		program = append(program, tty.Printable(limit)+"="+n.Plain)
	}

	if people == nil {
		return kit.Cell{Display: kit.None}
	}
	return kit.Cell{Display: strings.Join(people, ", "), Plain: strings.Join(program, ",")}
}

func runUsageList(ctx context.Context, o usageOptions) error {
	if err := o.check(); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		var more *jsonview.Position
		rows := jsonview.First(o.after.Skip(lim.Usage(ctx, o.after.Until(o.query))), o.limit,
			func(last limiter.UsageSnapshot) {
				p := jsonview.PositionOf(last)
				more = &p
			})
		if err := o.show(rows); err != nil || more == nil {
			return err
		}

		o.Say("There are more; continue with --after %s", more)
		return nil
	})
}

func (o usageOptions) show(rows iter.Seq2[limiter.UsageSnapshot, error]) error {
	if o.plot {
		return o.draw(rows, o.NoUsage())
	}

	l := kit.Listing[limiter.UsageSnapshot]{
		Columns: usageColumns, Row: usageRow, Nothing: o.NoUsage(),
		Object: func(s limiter.UsageSnapshot) any { return jsonview.NewUsage(s) },
	}
	return l.Print(o.Console, o.json, rows)
}

// draw prints the rows as charts.
func (o usageOptions) draw(rows iter.Seq2[limiter.UsageSnapshot, error], nothing string) error {
	counted, stop := kit.Watch(o.Console, rows)
	all, err := kit.Collect(counted)
	stop()
	if err != nil {
		return err
	}

	if len(all) == 0 {
		o.Say("%s", nothing)
		return nil
	}

	_, err = io.WriteString(o.Out, plot.Usage(all, o.Width, o.Style))
	return err
}

// average returns the cell of an average, in dollars for a limit of money.
func average(limit string, f float64) kit.Cell {
	c := kit.Decimal(f)
	if figure.IsMoney(limit) {
		c.Display = tty.Amount(limit, int64(f))
	}
	return c
}

var totalColumns = []kit.Column{
	{Title: "limit"},
	{Title: "total", Right: true},
	{Title: "average", Right: true},
	{Title: "cascaded", Right: true},
	{Title: "would refuse", Right: true, Extra: true},
}

func newUsageSummary(conn *kit.Connection) *cobra.Command {
	o := usageOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "summary",
		Short: "Summarize usage",
		Long: `Summarize usage: for each limit the total, and the average over the windows that
have it. Windows of different lengths overlap, so only one length is summed.

The summary of an entity includes its charges for its children. In the summary
of a resource, or of everything if no filter is given, a cascading call counts
once: charges of parents for their children are shown as cascaded and are not
part of the total.`,
		Example: "  zae-limiter usage summary -e key-abc --start 7d\n  zae-limiter usage summary -r gpt-4 -w " +
			"monthly --json",
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUsageSummary(cmd.Context(), o) },
	}

	// The default of a flag is only shown in the help.
	o.query.Window = limiter.Hourly
	o.addQuery(cmd, string(limiter.Hourly))
	kit.AddJSON[jsonview.Total](cmd, &o.json, kit.AnObject, totalColumns)
	return cmd
}

func runUsageSummary(ctx context.Context, o usageOptions) error {
	if err := o.check(); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		sum, err := lim.UsageSummary(ctx, o.query)
		if err != nil {
			return err
		}

		if o.json {
			return o.PrintJSON(jsonview.NewTotal(o.query, sum))
		}

		nothing := o.NoUsage()
		if sum.Snapshots > 0 {
			o.Say("%s, from %s to %s", kit.Count(sum.Windows, string(o.query.Window)+" window"),
				kit.Moment(sum.First).Display, kit.Moment(sum.Last).Display)
			nothing = "All tokens taken were given back."
		}

		// A shadow limit may be in one of the two maps alone.
		names := slices.AppendSeq(slices.Collect(maps.Keys(sum.Total)), maps.Keys(sum.WouldRefuse))
		slices.Sort(names)

		return kit.Listing[string]{
			Columns: totalColumns,
			Row: func(limit string) []kit.Cell {
				refused := kit.Text("")
				if n := sum.WouldRefuse[limit]; n > 0 {
					refused = kit.Number(n)
				}
				return []kit.Cell{
					kit.Text(limit), kit.Amount(limit, sum.Total[limit]), average(limit, sum.Average[limit]),
					kit.Amount(limit, sum.Cascaded[limit]), refused,
				}
			},
			Object: nil, Nothing: nothing,
		}.Print(o.Console, false, kit.Each(slices.Compact(names)))
	})
}
