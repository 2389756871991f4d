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
		Short: "List the buckets of an entity, to the thousandth of a token",
		Long: `Lists what is in the buckets of an entity, a line for each limit, refilled to
now and to the thousandth of a token. "zae-limiter entity status" says what
that means.`,
		Example:           "  zae-limiter entity buckets key-abc\n  zae-limiter entity buckets key-abc -r gpt-4",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityBuckets(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.completeResources)
	addJSON[tokensShape](cmd, &o.json, anArray, tokensColumns)
	return cmd
}

func runEntityBuckets(ctx context.Context, o entityBucketsOptions) error {
	if o.resource != "" {
		if err := checkResource(o.resource); err != nil {
			return usagef("%v", err)
		}
	}
	return o.with(ctx, reads, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
		statuses, err := lim.Status(ctx, o.id) // which knows where limits come from
		if err != nil {
			return err
		}
		sources := map[[2]string]string{}
		for _, s := range statuses {
			sources[[2]string{s.Resource, s.Limit.Name}] = s.Source
		}
		buckets := held(repo.Buckets(ctx, o.now(), limiter.Scope{Entity: o.id, Resource: o.resource}), sources)
		return tokensListing(o.id+" has no buckets.").print(o.console, o.json, buckets)
	})
}

// holding is one limit of a bucket.
type holding struct {
	resource, source string
	limit            limiter.Limit
	tokens           int64 // thousandths
}

// held are the limits of buckets, with their sources by resource and name.
func held(buckets iter.Seq2[limiter.Bucket, error], sources map[[2]string]string) iter.Seq2[holding, error] {
	return func(yield func(holding, error) bool) {
		for b, err := range buckets {
			if err != nil {
				yield(holding{}, err)
				return
			}
			for i, n := range b.Tokens {
				resource, limit := b.Account.Resource, b.Account.Limits[i]
				source := cmp.Or(sources[[2]string{resource, limit.Name}], b.Account.Source.Level())
				if !yield(holding{resource, source, limit, n}, nil) {
					return
				}
			}
		}
	}
}

// tokensShape is one limit of a bucket as JSON.
type tokensShape struct {
	Resource string      `json:"resource" doc:"what the bucket limits the use of"`
	Limit    string      `json:"limit_name" doc:"which limit"`
	Tokens   json.Number `json:"tokens" doc:"that are left, to the thousandth; negative is debt"`
	Capacity int64       `json:"capacity" doc:"tokens that can be taken at once"`
	Refill   int64       `json:"refill_amount" doc:"tokens that come back every period"`
	Seconds  int64       `json:"refill_period_seconds" doc:"length of the period"`
	Source   string      `json:"source" doc:"where the limit is stored: entity, entity_default, resource or system; override if a request or a program brought it"`
}

var tokensColumns = []column{
	{title: "resource"},
	{title: "limit"},
	{title: "tokens", right: true},
	{title: "capacity", right: true},
	{title: "refill", right: true},
	{title: "source"},
}

func tokensListing(nothing string) listing[holding] {
	return listing[holding]{
		tokensColumns,
		func(h holding) []cell {
			return []cell{text(h.resource), text(h.limit.Name), tokens(h.tokens), number(h.limit.Capacity), rate(h.limit), source(h.source)}
		},
		func(h holding) any {
			l := limitObject(h.limit)
			return tokensShape{h.resource, l.Name, json.Number(tokens(h.tokens).program), l.Capacity, l.Refill, l.Seconds, h.source}
		},
		nothing,
	}
}
