package data

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/memory"
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
		Args:              kit.Arguments(entityArg(&o.id)),
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
		if err := checkResource(o.resource); err != nil {
			return kit.Usagef("%v", err)
		}
	}

	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
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

// fillOptions holds the options of reset and top-up.
type fillOptions struct {
	*kit.Connection
	entity, resource string
	names            []string
	words            []string // LIMIT=TOKENS
	id               string
	json             bool
}

// addBucket adds the argument and the flag that name a bucket.
func (o *fillOptions) addBucket(cmd *cobra.Command) {
	cmd.Args, cmd.ValidArgsFunction = kit.Arguments(entityArg(&o.entity)), o.CompleteEntity
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "`resource` of the bucket; required")
	_ = cmd.RegisterFlagCompletionFunc("resource", o.CompleteResources)
	o.AddPrincipal(cmd)
	kit.AddJSON[jsonview.Status](cmd, &o.json, kit.AnArray, statusColumns)
}

func (o *fillOptions) check() error {
	if o.resource == "" {
		return kit.Usagef("--resource is missing; name the resource whose bucket to fill")
	}

	if err := checkResource(o.resource); err != nil {
		return kit.Usagef("%v", err)
	}
	return nil
}

func newEntityReset(conn *kit.Connection) *cobra.Command {
	o := &fillOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "reset ENTITY",
		Short: "Fill the bucket of an entity",
		Long: `Fill the limits of an entity's bucket, all or the given ones, and show the
result. Debt is forgiven, and a quota belongs to the current window. The usage
and the bucket of the parent stay as they are.`,
		Example: `  zae-limiter entity reset key-abc -r gpt-4
  zae-limiter entity reset key-abc -r gpt-4 -l tpm`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntityReset(cmd.Context(), *o) },
	}

	o.addBucket(cmd)
	cmd.Flags().StringArrayVarP(&o.names, "limit", "l", nil, "only the limit of this `name`; repeatable")

	return cmd
}

func runEntityReset(ctx context.Context, o fillOptions) error {
	if err := o.check(); err != nil {
		return err
	}

	for i, name := range o.names {
		if err := limiter.PerMinute(name, 1).Validate(); err != nil {
			return kit.Usagef("invalid --limit %q: %v", kit.Clip(name), err)
		}
		if slices.Contains(o.names[:i], name) {
			return kit.Usagef("--limit %s is given twice; give each limit once", name)
		}
	}

	return o.WithStore(ctx, kit.Change, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		before, err := o.bucket(ctx, lim)
		if err != nil {
			return err
		}

		if err := lim.Reset(ctx, o.entity, o.resource, o.names...); err != nil {
			return o.fillError(err)
		}

		// A missing bucket is full, so the reset succeeds without an effect.
		if len(before) == 0 {
			o.Say("Nothing to fill: %s", o.missing())
			return o.show(ctx, lim)
		}

		o.Done("Filled %s of %s %s", cmp.Or(strings.Join(o.names, ", "), "all limits"),
			ofResource(o.entity, o.resource), o.Location())
		return o.show(ctx, lim)
	})
}

func newEntityTopUp(conn *kit.Connection) *cobra.Command {
	o := &fillOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "top-up ENTITY",
		Short: "Add tokens to the bucket of an entity",
		Long: `Add tokens to limits of an entity's bucket, up to their capacities, and show the
result. The usage and the bucket of the parent stay as they are.

The ID makes a repetition safe: a top-up with an ID that was used for the bucket
in the last 24 hours adds nothing. Without --id, a random one is used and shown,
so that an attempt whose outcome is unknown can be repeated. A message says if
nothing was added: the ID was used before, the limit was full, or the entity has
no bucket for the resource, which is full then.`,
		Example: `  zae-limiter entity top-up key-abc -r gpt-4 -l tokens=500 --id invoice-17
  zae-limiter entity top-up key-abc -r gpt-4 -l rpm=10 -l tpm=5000`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntityTopUp(cmd.Context(), *o) },
	}

	o.addBucket(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.words, "limit", "l", nil, "tokens to add, as `LIMIT=TOKENS`; repeatable")
	flags.StringVar(&o.id, "id", "", "`ID` of the top-up (default: a random one)")

	return cmd
}

func runEntityTopUp(ctx context.Context, o fillOptions) error {
	if err := o.check(); err != nil {
		return err
	}

	if len(o.words) == 0 {
		return kit.Usagef("--limit is missing; say what to add as LIMIT=TOKENS, such as --limit tpm=500")
	}

	amounts, err := parseAmounts(o.words, 1)
	if err != nil {
		return err
	}

	random := o.id == ""
	if random {
		o.id = strings.ToLower(rand.Text())
	}
	// A wrong amount is a usage error, which must come before the store is
	// opened.
	if err := o.checkTopUp(ctx, amounts); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Change, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		before, err := o.bucket(ctx, lim)
		if err != nil {
			return err
		}

		// The outcome of the top-up may stay unknown, so its ID is shown
		// before. Without a bucket that has all limits, there is nothing to
		// repeat.
		if random && hasLimits(before, amounts) {
			o.Say("The ID of this top-up is %s", o.id)
		}

		done, err := lim.TopUp(ctx, o.entity, o.resource, amounts, o.id)
		if err != nil {
			return o.fillError(err)
		}

		o.reportTopUp(done, before, amounts)
		return o.show(ctx, lim)
	})
}

// checkTopUp checks a top-up as the limiter does.
func (o fillOptions) checkTopUp(ctx context.Context, amounts limiter.Amounts) error {
	// A limiter on an empty memory makes the same checks of its arguments and
	// changes nothing.
	lim, err := limiter.New(memory.New(nil), nil)
	if err == nil {
		_, err = lim.TopUp(ctx, o.entity, o.resource, amounts, o.id)
	}

	bad, ok := errors.AsType[*limiter.InvalidError](err)
	switch {
	// Every valid top-up gets ErrNoLimits here, since the memory has none.
	case !ok, errors.Is(err, limiter.ErrNoLimits):
		return nil
	case bad.Field == "amounts":
		return kit.Usagef("invalid amount %q: %s", kit.Clip(bad.Value), bad.Reason)
	}
	return kit.Usagef("%v", err)
}

// reportTopUp says what a top-up has done. The bucket is empty if there was none
// before.
func (o fillOptions) reportTopUp(done bool, before []limiter.Status, amounts limiter.Amounts) {
	var full []string
	// TopUp also reports success where the capacity left no room.
	for _, s := range before {
		if s.Available == s.Limit.Capacity && amounts.Get(s.Limit.Name) > 0 {
			full = append(full, s.Limit.Name)
		}
	}

	switch {
	case !done:
		o.Say("ID %s was used before; nothing was added", o.id)
	case len(before) == 0:
		o.Say("Nothing to add: %s", o.missing())
	case len(full) == amounts.Len():
		o.Say("Nothing to add: %s of %s was full before", strings.Join(full, ", "), ofResource(o.entity, o.resource))
	default:
		o.Done("Topped up %s for %s %s; ID %s counts once",
			requestText(limiter.Request{Resource: o.resource, Consume: amounts}), o.entity, o.Location(), o.id)
	}
}

// missing describes a bucket that does not exist.
func (o fillOptions) missing() string {
	return fmt.Sprintf("%s has no bucket for %s, so all limits are full", o.entity, o.resource)
}

// bucket returns the limits of the bucket, none if it does not exist.
func (o fillOptions) bucket(ctx context.Context, lim *limiter.RateLimiter) ([]limiter.Status, error) {
	all, err := lim.Status(ctx, o.entity)
	return slices.DeleteFunc(all, func(s limiter.Status) bool { return s.Resource != o.resource }), err
}

// hasLimits reports whether the bucket has all limits of the amounts.
func hasLimits(bucket []limiter.Status, amounts limiter.Amounts) bool {
	for name := range amounts.All() {
		if !slices.ContainsFunc(bucket, func(s limiter.Status) bool { return s.Limit.Name == name }) {
			return false
		}
	}
	return true
}

// fillError suggests how to set limits if there are none.
func (o fillOptions) fillError(err error) error {
	if errors.Is(err, limiter.ErrNoLimits) {
		return o.NoLimits(o.entity, o.resource)
	}
	return err
}

// show prints what is left in the bucket after the fill.
func (o fillOptions) show(ctx context.Context, lim *limiter.RateLimiter) error {
	_, statuses, err := jsonview.ReadStatuses(ctx, lim, o.entity, o.resource)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(statuses, func(s limiter.Status) bool { return s.Entity != o.entity })
	used, err := jsonview.ReadUsed(ctx, lim, o.Now(), own)
	if err != nil {
		return err
	}
	return statusListing(o.Console, "").Print(o.Console, o.json, kit.Each(statusRows(own, used)))
}
