package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/answer"
)

type capacityOptions struct {
	*connection
	query limiter.CapacityQuery
	json  bool
}

func newResourceCapacity(conn *connection) *cobra.Command {
	o := capacityOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "capacity RESOURCE LIMIT",
		Short: "Show one limit of a resource across all entities",
		Long: `Show what each entity with a bucket has used and has left of one limit of a
resource, and on stderr the totals.`,
		Example:           "  zae-limiter resource capacity gpt-4 tpm\n  zae-limiter resource capacity gpt-4 tpm --parents-only",
		Args:              arguments(resourceArg(&o.query.Resource), limitArg(&o.query.Limit)),
		ValidArgsFunction: conn.completeResource,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runResourceCapacity(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.query.ParentsOnly, "parents-only", false, "omit children and entities without a record")
	addJSON[answer.Status](cmd, &o.json, anArray, statusColumns)
	return cmd
}

func limitArg(target *string) argument {
	return argument{"LIMIT", func(s string) error {
		*target = s
		return limiter.PerMinute(s, 1).Validate()
	}}
}

func runResourceCapacity(ctx context.Context, o capacityOptions) error {
	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		sum, err := lim.Capacity(ctx, o.query)
		if err != nil {
			return err
		}
		nothing := fmt.Sprintf("No entity has a bucket of %s with a limit %s.", o.query.Resource, o.query.Limit)
		if err := statusListing(o.console, nothing).print(o.console, o.json, each(sum.Entities)); err != nil {
			return err
		}
		if len(sum.Entities) > 0 {
			o.say("%s: %s of %s available, %.1f %% used", count(len(sum.Entities), "bucket"), number(sum.Available).display, number(sum.Total).display, sum.Utilization())
		}
		return nil
	})
}
