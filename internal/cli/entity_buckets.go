package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
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
when a bucket will be full.`,
		Example:           "  zae-limiter entity buckets key-abc\n  zae-limiter entity buckets key-abc -r gpt-4",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityBuckets(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.completeResources)
	addJSON[tokensJSON](cmd, &o.json, anArray, tokensColumns)
	return cmd
}

func runEntityBuckets(ctx context.Context, o entityBucketsOptions) error {
	if o.resource != "" {
		if err := checkResource(o.resource); err != nil {
			return usagef("%v", err)
		}
	}
	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
		statuses, err := lim.Status(ctx, o.id) // for the sources of the limits
		if err != nil {
			return err
		}
		sources := map[[2]string]string{}
		for _, s := range statuses {
			sources[[2]string{s.Resource, s.Limit.Name}] = s.Source
		}
		buckets := bucketLimits(repo.Buckets(ctx, o.now(), limiter.Scope{Entity: o.id, Resource: o.resource}), sources)
		return tokensListing(o.id+" has no buckets.").print(o.console, o.json, buckets)
	})
}

// bucketLimit is one limit of a bucket.
type bucketLimit struct {
	resource, source string
	limit            limiter.Limit
	tokens           int64 // thousandths
}

// bucketLimits returns the limits of buckets. Sources maps a resource and the name
// of a limit to the level of the limit.
func bucketLimits(buckets iter.Seq2[limiter.Bucket, error], sources map[[2]string]string) iter.Seq2[bucketLimit, error] {
	return func(yield func(bucketLimit, error) bool) {
		for b, err := range buckets {
			if err != nil {
				yield(bucketLimit{}, err)
				return
			}
			for i, n := range b.Tokens {
				resource, limit := b.Account.Resource, b.Account.Limits[i]
				source := cmp.Or(sources[[2]string{resource, limit.Name}], b.Account.Source.Level())
				if !yield(bucketLimit{resource, source, limit, n}, nil) {
					return
				}
			}
		}
	}
}

// tokensJSON is one limit of a bucket as JSON.
type tokensJSON struct {
	Resource string      `json:"resource" doc:"resource of the bucket"`
	Limit    string      `json:"limit_name" doc:"name of the limit"`
	Tokens   json.Number `json:"tokens" doc:"tokens left, to the thousandth; negative is debt"`
	Capacity int64       `json:"capacity" doc:"maximum number of tokens"`
	Refill   int64       `json:"refill_amount" doc:"tokens refilled every period"`
	Seconds  int64       `json:"refill_period_seconds" doc:"length of the period"`
	Source   string      `json:"source" doc:"level at which the limit is stored: entity, entity_default, resource or system; override if a request carried it"`
}

var tokensColumns = []column{
	{title: "resource"},
	{title: "limit"},
	{title: "tokens", right: true},
	{title: "capacity", right: true},
	{title: "refill", right: true},
	{title: "source"},
}

func tokensListing(nothing string) listing[bucketLimit] {
	return listing[bucketLimit]{
		tokensColumns,
		func(h bucketLimit) []cell {
			return []cell{text(h.resource), text(h.limit.Name), tokens(h.tokens), number(h.limit.Capacity), rate(h.limit), source(h.source)}
		},
		func(h bucketLimit) any {
			l := newLimitJSON(h.limit)
			return tokensJSON{h.resource, l.Name, json.Number(tokens(h.tokens).plain), l.Capacity, l.Refill, l.Seconds, h.source}
		},
		nothing,
	}
}
