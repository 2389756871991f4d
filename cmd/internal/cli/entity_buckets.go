package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

type entityBucketsOptions struct {
	*kit.Connection
	id, resource string
	json         bool
}

func newEntityBuckets(conn *kit.Connection) *cobra.Command {
	o := entityBucketsOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "buckets ENTITY",
		Short: "List the buckets of an entity",
		Long: `List the tokens in the buckets of an entity to the thousandth, refilled up to
now, a line for each limit. "zae-limiter entity status" shows what was used and
when a bucket will be full. Buckets whose calls a disabled level refuses are
marked so.`,
		Example:           "  zae-limiter entity buckets key-abc\n  zae-limiter entity buckets key-abc -r gpt-4",
		Args:              kit.Arguments(kit.EntityArg(&o.id)),
		ValidArgsFunction: conn.CompleteEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityBuckets(cmd.Context(), o) },
	}

	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.CompleteResources)
	kit.AddJSON[jsonview.Tokens](cmd, &o.json, kit.AnArray, tokensColumns)
	return cmd
}

func runEntityBuckets(ctx context.Context, o entityBucketsOptions) error {
	if o.resource != "" {
		if err := kit.CheckResource(o.resource); err != nil {
			return kit.Usagef("%v", err)
		}
	}

	return o.WithStore(ctx, kit.AccessRead, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
		buckets := jsonview.ReadBuckets(ctx, o.Now(), lim, repo, o.id, o.resource)
		return tokensListing(o.id+" has no buckets.").Print(o.Console, o.json, buckets)
	})
}

var tokensColumns = append([]kit.Column{
	{Title: "resource"},
	{Title: "limit"},
	{Title: "tokens", Right: true},
	{Title: "capacity", Right: true},
	{Title: "refill", Right: true},
	{Title: "source"},
}, append(kindColumns, offColumn)...)

func tokensListing(nothing string) kit.Listing[jsonview.BucketLimit] {
	return kit.Listing[jsonview.BucketLimit]{
		Columns: tokensColumns,
		Row: func(h jsonview.BucketLimit) []kit.Cell {
			row := []kit.Cell{
				kit.Text(h.Resource), kit.Text(h.Limit.Name), kit.Tokens(h.Limit.Name, h.Tokens),
				kit.Amount(h.Limit.Name, h.Limit.Capacity), kit.Rate(h.Limit), source(h.Source),
			}
			return append(append(row, kindCells(h.Status)...), offCell(h.Off))
		},
		Object:  func(h jsonview.BucketLimit) any { return jsonview.NewTokens(h) },
		Nothing: nothing,
	}
}
