package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

type entityBucketsOptions struct {
	*connection
	id, resource string
	json         bool
}

func newEntityBuckets(conn *connection) *cobra.Command {
	o := entityBucketsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "buckets ENTITY",
		Short: "List the buckets of an entity",
		Long: `List the tokens in the buckets of an entity to the thousandth, refilled up to
now, a line for each limit. "zae-limiter entity status" shows what was used and
when a bucket will be full. Buckets whose calls a disabled level refuses are
marked so.`,
		Example:           "  zae-limiter entity buckets key-abc\n  zae-limiter entity buckets key-abc -r gpt-4",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityBuckets(cmd.Context(), o) },
	}

	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.completeResources)
	addJSON[jsonview.Tokens](cmd, &o.json, anArray, tokensColumns)
	return cmd
}

func runEntityBuckets(ctx context.Context, o entityBucketsOptions) error {
	if o.resource != "" {
		if err := checkResource(o.resource); err != nil {
			return usagef("%v", err)
		}
	}

	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
		buckets := jsonview.ReadBuckets(ctx, o.now(), lim, repo, o.id, o.resource)
		return tokensListing(o.id+" has no buckets.").print(o.console, o.json, buckets)
	})
}

var tokensColumns = append([]column{
	{title: "resource"},
	{title: "limit"},
	{title: "tokens", right: true},
	{title: "capacity", right: true},
	{title: "refill", right: true},
	{title: "source"},
}, append(kindColumns, offColumn)...)

func tokensListing(nothing string) listing[jsonview.BucketLimit] {
	return listing[jsonview.BucketLimit]{
		tokensColumns,
		func(h jsonview.BucketLimit) []cell {
			row := []cell{
				text(h.Resource), text(h.Limit.Name), tokens(h.Limit.Name, h.Tokens),
				amount(h.Limit.Name, h.Limit.Capacity), rate(h.Limit), source(h.Source),
			}
			return append(append(row, kindCells(h.Status)...), offCell(h.Off))
		},
		func(h jsonview.BucketLimit) any { return jsonview.NewTokens(h) },
		nothing,
	}
}
