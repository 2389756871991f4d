package limits

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// whatIfOptions holds the options of limits what-if.
type whatIfOptions struct {
	options
	replay manifest.WhatIfOptions
}

func newWhatIf(conn *kit.Connection) *cobra.Command {
	o := whatIfOptions{options: options{Connection: conn}}
	cmd := &cobra.Command{
		Use:   "what-if FILE",
		Short: "Replay recent usage against a manifest",
		Long: `Replay the usage of the last days against the limits that would be in force if a
manifest were applied, and show which entities would have been refused how
often, the worst first. The command only reads.

The numbers are a lower bound: refused calls are not in the usage, and hourly
usage does not show bursts. Late corrections, which are never refused, may be
charged as debt in place of refusals. A call counts for each limit that it uses,
and for its parent.

` + manifestHelp,
		Example: `  zae-limiter limits what-if limits.yaml
  zae-limiter limits what-if limits.yaml --days 30 --resource gpt-4 --json`,
		Args:              kit.Arguments(fileArg(&o.file)),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runWhatIf(cmd.Context(), o) },
	}

	flags := cmd.Flags()
	o.replay.Days = defaultWhatIfDays
	kit.AddFlag(cmd, &o.replay.Days, "days", "number", strconv.Itoa(defaultWhatIfDays), "days of usage to replay",
		parseWhatIfDays)
	flags.StringVarP(&o.replay.Entity, "entity-id", "e", "", "only usage of this `entity`")
	flags.StringVarP(&o.replay.Resource, "resource", "r", "", "only usage of this `resource`")
	flags.BoolVar(&o.replay.All, "all", false, "show all limits that would change, also those that nothing exceeds")

	_ = cmd.RegisterFlagCompletionFunc("entity-id", o.CompleteEntities)
	_ = cmd.RegisterFlagCompletionFunc("resource", o.CompleteResources)

	kit.AddJSON[manifest.WhatIfReport](cmd, &o.json, kit.AnObject, whatIfColumns)
	kit.DocumentFields[manifest.WhatIfRow](cmd, "Each of `rows` has")
	return cmd
}

const defaultWhatIfDays = 7

func parseWhatIfDays(text string) (int, error) {
	const maxDays = 366

	days, err := strconv.Atoi(text)
	if err != nil || days < 1 || days > maxDays {
		return 0, fmt.Errorf("must be a whole number from 1 to %d", maxDays)
	}
	return days, nil
}

var whatIfColumns = []kit.Column{
	{Title: "entity"},
	{Title: "resource"},
	{Title: "limit"},
	{Title: "current", Right: true},
	{Title: "proposed", Right: true},
	{Title: "hours over", Right: true},
	{Title: "hours used", Right: true, Spare: true},
	{Title: "tokens over", Right: true},
	{Title: "worst hour", Whole: true, Spare: true},
	{Title: "over now", Right: true, Spare: true},
	{Title: "tokens used", Right: true, Spare: true},
}

func (o *whatIfOptions) cells(r manifest.WhatIfRow) []kit.Cell {
	worst := kit.Cell{Display: kit.None}
	if r.Worst != nil {
		worst = kit.Moment(*r.Worst)
		// Usage is counted by the hour, so the minutes are always zero.
		worst.Display = r.Worst.UTC().Format("2006-01-02 15h")
	}

	over := kit.Amount(r.Limit, r.Over)
	if r.Worse() {
		over = over.WithColour(o.Style.Red)
	}

	return []kit.Cell{
		kit.Text(r.Entity), kit.Text(r.Resource), kit.Text(r.Limit), rateAndBurst(r.Current), rateAndBurst(r.Proposed),
		kit.Number(int64(r.HoursOver)), kit.Number(int64(r.HoursUsed)), over, worst, kit.Amount(r.Limit, r.OverNow),
		kit.Amount(r.Limit, r.Used),
	}
}

// rateAndBurst returns the cell of a limit: "100/min:150", or "100/min" if the
// burst is the rate.
func rateAndBurst(l *limiter.Limit) kit.Cell {
	if l == nil {
		return kit.Cell{Display: kit.None}
	}

	c := kit.Rate(*l)
	// The burst of a quota is its capacity, which its text shows already.
	if !l.IsQuota() && l.Capacity != l.Refill {
		burst := kit.Amount(l.Name, l.Capacity)
		c.Display, c.Plain = c.Display+":"+burst.Display, c.Plain+":"+burst.Plain
	}

	if l.IsShadow {
		c.Display, c.Plain = c.Display+":shadow", c.Plain+":shadow"
	}

	return c
}

func runWhatIf(ctx context.Context, o whatIfOptions) error {
	if err := (limiter.UsageQuery{Entity: o.replay.Entity, Resource: o.replay.Resource}).Validate(); err != nil {
		return kit.Usagef("%v", err)
	}

	m, err := o.loadManifest()
	if err != nil {
		return err
	}

	o.replay.Now = o.Now
	return o.WithStore(ctx, kit.Read, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		stop := o.Progress(func() string { return "reading usage" })
		report, err := manifest.WhatIf(ctx, repo, m, &o.replay)
		stop()
		if err != nil {
			return err
		}

		if o.json {
			err = o.PrintJSON(report)
		} else {
			err = kit.Listing[manifest.WhatIfRow]{
				Columns: whatIfColumns, Row: o.cells,
			}.Print(o.Console, false, kit.Each(report.Rows))
		}

		if err != nil {
			return err
		}

		o.explain(report)
		return nil
	})
}

// explain says what the numbers of a report mean.
func (o *whatIfOptions) explain(r *manifest.WhatIfReport) {
	const bound = "a lower bound, since refused calls are not in the usage"

	days := kit.Count(o.replay.Days, "day")

	switch {
	case r.Levels == 0:
		o.Say("The manifest changes no limits, so there is nothing to replay")
	case r.Snapshots == 0:
		o.Say("%s", o.NoUsage())
	case r.Entities == 0:
		o.Say("No entity with usage in the last %s would have other limits", days)
	case entitiesRemoved(r.Rows) > 0:
		o.explainRemoved(r, days, bound)
	case r.EntitiesOver == 0:
		o.Say("0 of %s with other limits would have been refused more than now in the last %s: %s",
			entityCount(r.Entities), days, bound)
	default:
		o.Say("%s of %s with other limits would have been refused at least this much in the last %s: %s",
			tty.Number(int64(r.EntitiesOver)), entityCount(r.Entities), days, bound)
	}

	if !r.Complete {
		o.Warn("only the latest %s were read, from %s on; give --resource, --entity-id or fewer --days",
			kit.Count(r.Snapshots, "snapshot"), kit.Moment(*r.First).Display)
	}

	if len(r.Unseen) > 0 {
		o.Say("There is no usage of %s yet, so this says nothing about it", strings.Join(r.Unseen, ", "))
	}

	o.explainRows(r.Rows)
}

// entitiesRemoved returns the number of entities that used a limit that would be
// removed.
func entitiesRemoved(rows []manifest.WhatIfRow) int {
	entities := map[string]bool{}
	for _, row := range rows {
		if row.Removed() {
			entities[row.Entity] = true
		}
	}
	return len(entities)
}

// explainRemoved says what a report means if some of its limits would be removed.
func (o *whatIfOptions) explainRemoved(r *manifest.WhatIfReport, days, bound string) {
	others := "usage of the last " + days + " exceeds no other limit more than now"

	if r.EntitiesOver > 0 {
		others = tty.Number(int64(r.EntitiesOver)) + " would have been refused at least this much in the last " + days
	}

	o.Warn("calls of %s of %s with other limits would fail with an error, since they name limits that would "+
		"go (those without a proposed value); %s: %s",
		tty.Number(int64(entitiesRemoved(r.Rows))), entityCount(r.Entities), others, bound)
}

// explainRows points out rows that need more than numbers.
func (o *whatIfOptions) explainRows(rows []manifest.WhatIfRow) {
	if slices.ContainsFunc(rows, func(row manifest.WhatIfRow) bool { return row.OverNow > 0 }) {
		o.Say("Tokens over the current limits were admitted by earlier limits, or were late corrections")
	}
}
