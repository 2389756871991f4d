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
	"github.com/zeroae/zae-limiter-go/internal/cli/plot"
)

func newUsage(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := group("usage", "Look at who used how much, and when", "Usage is counted by the hour, the day and the month, all in UTC.")
	conn.addNamespace(cmd)
	cmd.AddCommand(newUsageList(conn), newUsageSummary(conn))
	return cmd
}

type usageOptions struct {
	*connection
	query      limiter.UsageQuery
	limit      int
	after      position
	plot, json bool
}

// addQuery gives a command the flags that select snapshots.
func (o *usageOptions) addQuery(cmd *cobra.Command, windowDefault string) {
	flags := cmd.Flags()
	flags.StringVarP(&o.query.Entity, "entity-id", "e", "", "usage of this `entity`")
	flags.StringVarP(&o.query.Resource, "resource", "r", "", "usage of this `resource`")
	addFlagP(cmd, &o.query.Window, "window", "w", "window", windowDefault, "hourly, daily or monthly", choice(limiter.Hourly, limiter.Daily, limiter.Monthly))
	const times = "2026-01-31, 2026-01-31T15:00:00Z, or 24h or 7d for so long ago"
	parse := func(text string) (time.Time, error) { return parseTime(o.now(), text) }
	addFlag(cmd, &o.query.From, "start", "time", "", "windows that begin at this time or later:\n"+times, parse)
	addFlag(cmd, &o.query.To, "end", "time", "", "windows that begin at this time or earlier", parse)
	_ = cmd.RegisterFlagCompletionFunc("entity-id", o.completeEntities)
	_ = cmd.RegisterFlagCompletionFunc("resource", o.completeResources)
	_ = cmd.RegisterFlagCompletionFunc("window", complete(limiter.Hourly, limiter.Daily, limiter.Monthly))
}

func (o *usageOptions) check() error {
	if err := o.query.Validate(); err != nil {
		return usagef("%v", err)
	}
	if !o.query.To.IsZero() && o.query.To.Before(o.query.From) {
		return usagef("--end %s is before --start %s", o.query.To.Format(time.RFC3339), o.query.From.Format(time.RFC3339))
	}
	return nil
}

func newUsageList(conn *connection) *cobra.Command {
	o := usageOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List usage, or draw it",
		Long: `Lists what was used in each window, newest first: how many tokens of each limit,
in how many changes. Without a filter it is the latest of everything; a DynamoDB
table with more than 100,000 snapshots needs a filter, or a --start.

With --plot it is drawn over time: a chart for each limit of each entity,
resource and window, as wide as the terminal; where there is one window only, a
bar.`,
		Example: `  zae-limiter usage list
  zae-limiter usage list -e key-abc --window daily
  zae-limiter usage list -r gpt-4 -w hourly --start 24h --plot
  zae-limiter usage list -e key-abc --start 2026-01-01 --end 2026-01-31 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.plot && !cmd.Flags().Changed("limit") && o.query != (limiter.UsageQuery{Window: o.query.Window}) {
				o.limit = 0 // a part of a curve says nothing, but everything is too much
			}
			return runUsageList(cmd.Context(), o)
		},
	}
	o.addQuery(cmd, "")
	addCount(cmd, &o.limit, "l", 100)
	addFlag(cmd, &o.after, "after", "position", "", "go on after this position, which an earlier list named", parsePosition)
	cmd.Flags().BoolVarP(&o.plot, "plot", "p", false, "draw the usage over time")
	addJSON[usageShape](cmd, &o.json, anArray, usageColumns)
	exclude(cmd, "plot", "json", formFlag)
	return cmd
}

// usageShape is a snapshot as JSON.
type usageShape struct {
	Entity   string           `json:"entity_id" doc:"who used it"`
	Resource string           `json:"resource" doc:"what was used"`
	Window   string           `json:"window" doc:"hourly, daily or monthly"`
	Start    time.Time        `json:"window_start" doc:"first second of the window"`
	End      time.Time        `json:"window_end" doc:"last second of the window"`
	Counters map[string]int64 `json:"counters" doc:"tokens by limit, less what was given back"`
	Events   int64            `json:"total_events" doc:"changes of the bucket"`
}

func usageObject(s limiter.UsageSnapshot) any {
	counters := s.Counters
	if counters == nil {
		counters = map[string]int64{}
	}
	return usageShape{s.Entity, s.Resource, string(s.Window), s.Start.UTC(), s.End.UTC(), counters, s.Events}
}

var usageColumns = []column{
	{title: "window start", whole: true},
	{title: "window", whole: true},
	{title: "resource"},
	{title: "entity"},
	{title: "events", right: true},
	{title: "counters"},
}

func usageRow(s limiter.UsageSnapshot) []cell {
	return []cell{moment(s.Start), text(string(s.Window)), text(s.Resource), text(s.Entity), number(s.Events), counters(s.Counters)}
}

// counters are "rpm=1,200, tpm=5" by name.
func counters(of map[string]int64) cell {
	var people, program []string
	for _, limit := range slices.Sorted(maps.Keys(of)) {
		n := number(of[limit])
		people = append(people, printable(limit)+"="+n.people)
		program = append(program, printable(limit)+"="+n.program)
	}
	if people == nil {
		return cell{people: none}
	}
	return cell{people: strings.Join(people, ", "), program: strings.Join(program, ",")}
}

func runUsageList(ctx context.Context, o usageOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	return o.with(ctx, reads, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		var more *position
		rows := first(o.after.skip(lim.Usage(ctx, o.after.until(o.query))), o.limit, func(last limiter.UsageSnapshot) {
			p := positionOf(last)
			more = &p
		})
		if err := o.show(rows); err != nil || more == nil {
			return err
		}
		o.say("There are more; go on with --after %s", more)
		return nil
	})
}

func (o usageOptions) show(rows iter.Seq2[limiter.UsageSnapshot, error]) error {
	if o.plot {
		return o.draw(rows, o.noUsage())
	}
	return listing[limiter.UsageSnapshot]{usageColumns, usageRow, usageObject, o.noUsage()}.print(o.console, o.json, rows)
}

// noUsage is said where there is none. A table has usage only once something
// counted it.
func (o usageOptions) noUsage() string {
	const nothing = "There is no such usage."
	if s, err := o.chosen(); err == nil && s.dynamo {
		return nothing + " The usage of a table is counted by " + o.inStore("aggregate") + ", or by the stack's function."
	}
	return nothing
}

// draw plots the rows.
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

// totalShape is a sum as JSON.
type totalShape struct {
	Entity    *string            `json:"entity_id" doc:"as asked"`
	Resource  *string            `json:"resource" doc:"as asked"`
	Window    string             `json:"window" doc:"whose snapshots were added up"`
	Windows   int                `json:"window_count" doc:"how many distinct windows"`
	Snapshots int                `json:"snapshot_count" doc:"how many snapshots: one for each window, entity and resource"`
	Total     map[string]int64   `json:"total" doc:"tokens by limit; a call that cascades counts once"`
	Cascaded  map[string]int64   `json:"cascaded" doc:"tokens by limit that parents were charged for their children, beside the total; empty where an entity is asked for"`
	Average   map[string]float64 `json:"average" doc:"total by limit, over the windows that have the limit"`
	First     *time.Time         `json:"min_window_start" doc:"start of the earliest window"`
	Last      *time.Time         `json:"max_window_start" doc:"start of the latest window"`
}

var totalColumns = []column{{title: "limit"}, {title: "total", right: true}, {title: "average", right: true}, {title: "cascaded", right: true}}

func newUsageSummary(conn *connection) *cobra.Command {
	o := usageOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "summary",
		Short: "Add usage up",
		Long: `Adds up what was used: for each limit the total, and the average over the
windows that have it. Windows overlap, so those of one length are added up.

Of an entity it is all that the entity was charged, for its children too. Of a
resource, or of everything if no filter is given, a call that cascades counts
once: what parents were charged for their children is shown as cascaded, and not
added to the total.`,
		Example: "  zae-limiter usage summary -e key-abc --start 7d\n  zae-limiter usage summary -r gpt-4 -w monthly --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runUsageSummary(cmd.Context(), o) },
	}
	o.query.Window = limiter.Hourly
	o.addQuery(cmd, string(limiter.Hourly))
	addJSON[totalShape](cmd, &o.json, anObject, totalColumns)
	return cmd
}

func runUsageSummary(ctx context.Context, o usageOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	return o.with(ctx, reads, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		sum, err := lim.UsageSummary(ctx, o.query)
		if err != nil {
			return err
		}
		if o.json {
			return o.printJSON(totalShape{
				orNull(o.query.Entity), orNull(o.query.Resource), string(o.query.Window),
				sum.Windows, sum.Snapshots, sum.Total, sum.Cascaded, sum.Average, timeOrNull(sum.First), timeOrNull(sum.Last),
			})
		}
		nothing := o.noUsage()
		if sum.Snapshots > 0 {
			o.say("%s, from %s to %s", count(sum.Windows, string(o.query.Window)+" window"), moment(sum.First).people, moment(sum.Last).people)
			nothing = "All that was taken has been given back."
		}
		return listing[string]{
			totalColumns,
			func(limit string) []cell {
				return []cell{text(limit), number(sum.Total[limit]), decimal(sum.Average[limit]), number(sum.Cascaded[limit])}
			},
			nil, nothing,
		}.print(o.console, false, each(slices.Sorted(maps.Keys(sum.Total))))
	})
}
