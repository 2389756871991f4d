package cli

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
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/plot"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

func newUsage(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := newGroup("usage", "Show usage over time", "Show usage, which is counted by hour, day and month in UTC.")

	conn.addNamespace(cmd)
	cmd.AddCommand(newUsageList(conn), newUsageSummary(conn))
	return cmd
}

type usageOptions struct {
	*connection
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
	addFlagP(cmd, &o.query.Window, "window", "w", "window", windowDefault, "hourly, daily or monthly",
		oneOf(limiter.Hourly, limiter.Daily, limiter.Monthly))

	const times = "2026-01-31, 2026-01-31T15:00:00Z, or an age such as 24h or 7d"
	parse := func(text string) (time.Time, error) { return jsonview.ParseTime(o.now(), text) }
	addFlag(cmd, &o.query.From, "start", "time", "", "windows that start at this time or later:\n"+times, parse)
	addFlag(cmd, &o.query.To, "end", "time", "", "windows that start at this time or earlier", parse)

	_ = cmd.RegisterFlagCompletionFunc("entity-id", o.completeEntities)
	_ = cmd.RegisterFlagCompletionFunc("resource", o.completeResources)
	_ = cmd.RegisterFlagCompletionFunc("window", completeWords(limiter.Hourly, limiter.Daily, limiter.Monthly))
}

func (o *usageOptions) check() error {
	if err := o.query.Validate(); err != nil {
		return usagef("%v", err)
	}

	if !o.query.To.IsZero() && o.query.To.Before(o.query.From) {
		return usagef("--end %s is before --start %s", o.query.To.Format(time.RFC3339),
			o.query.From.Format(time.RFC3339))
	}
	return nil
}

func newUsageList(conn *connection) *cobra.Command {
	o := usageOptions{connection: conn}
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
		Args: noArgs,
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
	addFlag(cmd, &o.after, "after", "position", "", "continue after this position, as printed by an earlier list",
		jsonview.ParsePosition)

	cmd.Flags().BoolVarP(&o.plot, "plot", "p", false, "draw charts")
	addJSON[jsonview.Usage](cmd, &o.json, anArray, usageColumns)

	exclusiveFlags(cmd, "plot", "json", outputFlag)
	return cmd
}

var usageColumns = []column{
	{title: "window start", whole: true},
	{title: "window", whole: true},
	{title: "resource"},
	{title: "entity"},
	{title: "events", right: true},
	{title: "counters"},
	{title: "would refuse", extra: true},
}

func usageRow(s limiter.UsageSnapshot) []cell {
	return []cell{
		moment(s.Start), text(string(s.Window)), text(s.Resource), text(s.Entity), number(s.Events),
		counters(s.Counters, amount),
		counters(s.WouldRefuse, func(_ string, n int64) cell { return number(n) }),
	}
}

// counters returns the cell of the counters: "rpm=1,200, tpm=5", sorted by name.
func counters(of map[string]int64, value func(limit string, n int64) cell) cell {
	var people, program []string
	for _, limit := range slices.Sorted(maps.Keys(of)) {
		n := value(limit, of[limit])
		people = append(people, tty.Printable(limit)+"="+n.display)
		program = append(program, tty.Printable(limit)+"="+n.plain)
	}

	if people == nil {
		return cell{display: none}
	}
	return cell{display: strings.Join(people, ", "), plain: strings.Join(program, ",")}
}

func runUsageList(ctx context.Context, o usageOptions) error {
	if err := o.check(); err != nil {
		return err
	}

	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		var more *jsonview.Position
		rows := jsonview.First(o.after.Skip(lim.Usage(ctx, o.after.Until(o.query))), o.limit,
			func(last limiter.UsageSnapshot) {
				p := jsonview.PositionOf(last)
				more = &p
			})
		if err := o.show(rows); err != nil || more == nil {
			return err
		}

		o.say("There are more; continue with --after %s", more)
		return nil
	})
}

func (o usageOptions) show(rows iter.Seq2[limiter.UsageSnapshot, error]) error {
	if o.plot {
		return o.draw(rows, o.noUsage())
	}
	return listing[limiter.UsageSnapshot]{usageColumns, usageRow, func(s limiter.UsageSnapshot) any {
		return jsonview.NewUsage(s)
	}, o.noUsage()}.print(o.console, o.json, rows)
}

// noUsage returns the message for an empty list. The usage of a table must be
// counted first.
func (conn *connection) noUsage() string {
	const nothing = "There is no such usage."
	if s, err := conn.selectStore(); err == nil && s.dynamo {
		return nothing + " The usage of a table is counted by " + conn.storeSuggestion("aggregate") +
			", or by the stack's function."
	}
	return nothing
}

// draw prints the rows as charts.
func (o usageOptions) draw(rows iter.Seq2[limiter.UsageSnapshot, error], nothing string) error {
	counted, stop := watch(o.console, rows)
	all, err := collect(counted)
	stop()
	if err != nil {
		return err
	}

	if len(all) == 0 {
		o.say("%s", nothing)
		return nil
	}

	_, err = io.WriteString(o.out, plot.Usage(all, o.width, o.style))
	return err
}

// average returns the cell of an average, in dollars for a limit of money.
func average(limit string, f float64) cell {
	c := decimal(f)
	if figure.IsMoney(limit) {
		c.display = tty.Amount(limit, int64(f))
	}
	return c
}

var totalColumns = []column{
	{title: "limit"},
	{title: "total", right: true},
	{title: "average", right: true},
	{title: "cascaded", right: true},
	{title: "would refuse", right: true, extra: true},
}

func newUsageSummary(conn *connection) *cobra.Command {
	o := usageOptions{connection: conn}
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUsageSummary(cmd.Context(), o) },
	}

	// The default of a flag is only shown in the help.
	o.query.Window = limiter.Hourly
	o.addQuery(cmd, string(limiter.Hourly))
	addJSON[jsonview.Total](cmd, &o.json, anObject, totalColumns)
	return cmd
}

func runUsageSummary(ctx context.Context, o usageOptions) error {
	if err := o.check(); err != nil {
		return err
	}

	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		sum, err := lim.UsageSummary(ctx, o.query)
		if err != nil {
			return err
		}

		if o.json {
			return o.printJSON(jsonview.NewTotal(o.query, sum))
		}

		nothing := o.noUsage()
		if sum.Snapshots > 0 {
			o.say("%s, from %s to %s", count(sum.Windows, string(o.query.Window)+" window"),
				moment(sum.First).display, moment(sum.Last).display)
			nothing = "All tokens taken were given back."
		}

		// A shadow limit may be in one of the two maps alone.
		names := slices.AppendSeq(slices.Collect(maps.Keys(sum.Total)), maps.Keys(sum.WouldRefuse))
		slices.Sort(names)

		return listing[string]{
			totalColumns,
			func(limit string) []cell {
				refused := text("")
				if n := sum.WouldRefuse[limit]; n > 0 {
					refused = number(n)
				}
				return []cell{
					text(limit), amount(limit, sum.Total[limit]), average(limit, sum.Average[limit]),
					amount(limit, sum.Cascaded[limit]), refused,
				}
			},
			nil, nothing,
		}.print(o.console, false, each(slices.Compact(names)))
	})
}
