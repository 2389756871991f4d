package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

type capacityOptions struct {
	*kit.Connection
	query limiter.CapacityQuery
	json  bool
}

func newResourceCapacity(conn *kit.Connection) *cobra.Command {
	o := capacityOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "capacity RESOURCE LIMIT",
		Short: "Show one limit of a resource across all entities",
		Long: `Show what each entity with a bucket has used and has left of one limit of a
resource, and on stderr the totals.`,
		Example: "  zae-limiter resource capacity gpt-4 tpm\n  zae-limiter resource capacity gpt-4 " +
			"tpm --parents-only",
		Args:              kit.Arguments(kit.ResourceArg(&o.query.Resource), limitArg(&o.query.Limit)),
		ValidArgsFunction: conn.CompleteResource,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runResourceCapacity(cmd.Context(), o) },
	}

	cmd.Flags().BoolVar(&o.query.ParentsOnly, "parents-only", false, "omit children and entities without a record")
	kit.AddJSON[jsonview.Status](cmd, &o.json, kit.AnArray, capacityColumns)
	return cmd
}

func limitArg(target *string) kit.Argument {
	return kit.Argument{Name: "LIMIT", Set: func(s string) error {
		*target = s
		// Only a whole limit can be validated, so its capacity is a
		// placeholder.
		return limiter.PerMinute(s, 1).Validate()
	}}
}

func runResourceCapacity(ctx context.Context, o capacityOptions) error {
	return o.WithStore(ctx, kit.AccessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		sum, err := lim.Capacity(ctx, o.query)
		if err != nil {
			return err
		}

		nothing := fmt.Sprintf("No entity has a bucket of %s with a limit %s.", o.query.Resource, o.query.Limit)
		if err := capacityListing(o.Console, nothing).Print(
			o.Console, o.json, kit.Each(statusRows(sum.Entities, nil)),
		); err != nil {
			return err
		}

		if len(sum.Entities) > 0 {
			o.Say("%s: %s of %s available, %.1f %% missing", kit.Count(len(sum.Entities), "bucket"),
				tty.Amount(sum.Limit, sum.Available), tty.Amount(sum.Limit, sum.Total), sum.Utilization())
		}
		return nil
	})
}

// capacityColumns are the columns of a capacity. What each entity used is left out,
// since it takes a read for each.
var capacityColumns = withoutUsed(statusColumns)

func capacityListing(c *kit.Console, nothing string) kit.Listing[statusRow] {
	list := statusListing(c, nothing)
	row := list.Row
	list.Columns, list.Row = capacityColumns, func(r statusRow) []kit.Cell { return withoutUsed(row(r)) }
	return list
}

// withoutUsed returns a copy of the columns or cells of a status without what was
// used.
func withoutUsed[T any](all []T) []T {
	// Cells have the order of the columns.
	at := slices.IndexFunc(statusColumns, func(c kit.Column) bool { return c.Title == "used" })
	return slices.Delete(slices.Clone(all), at, at+1)
}
