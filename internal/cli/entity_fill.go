package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/answer"
)

// fillOptions holds the options of reset and top-up.
type fillOptions struct {
	*connection
	entity, resource string
	names            []string
	words            []string // LIMIT=TOKENS
	id               string
	json             bool
}

// addBucket adds the argument and the flag that name a bucket.
func (o *fillOptions) addBucket(cmd *cobra.Command) {
	cmd.Args, cmd.ValidArgsFunction = arguments(entityArg(&o.entity)), o.completeEntity
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "`resource` of the bucket; required")
	_ = cmd.RegisterFlagCompletionFunc("resource", o.completeResources)
	o.addPrincipal(cmd)
	addJSON[answer.Status](cmd, &o.json, anArray, statusColumns)
}

func (o *fillOptions) check() error {
	if o.resource == "" {
		return usagef("--resource is missing; name the resource whose bucket to fill")
	}
	if err := checkResource(o.resource); err != nil {
		return usagef("%v", err)
	}
	return nil
}

func newEntityReset(conn *connection) *cobra.Command {
	o := &fillOptions{connection: conn}
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
			return usagef("invalid --limit %q: %v", clip(name), err)
		}
		if slices.Contains(o.names[:i], name) {
			return usagef("--limit %s is given twice; give each limit once", name)
		}
	}
	return o.withStore(ctx, accessChange, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.Reset(ctx, o.entity, o.resource, o.names...); err != nil {
			return o.fillError(err)
		}
		o.done("Filled %s of %s %s", cmp.Or(strings.Join(o.names, ", "), "all limits"), ofResource(o.entity, o.resource), o.location())
		return o.show(ctx, lim)
	})
}

func newEntityTopUp(conn *connection) *cobra.Command {
	o := &fillOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "top-up ENTITY",
		Short: "Add tokens to the bucket of an entity",
		Long: `Add tokens to limits of an entity's bucket, up to their capacities, and show the
result. The usage and the bucket of the parent stay as they are.

The ID makes a repetition safe: a top-up with an ID that was used for the bucket
in the last 24 hours adds nothing. Without --id, a random one is used and shown,
so that an attempt whose outcome is unknown can be repeated.`,
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
		return usagef("--limit is missing; say what to add as LIMIT=TOKENS, such as --limit tpm=500")
	}
	amounts, err := parseAmounts(o.words)
	if err != nil {
		return err
	}
	if o.id == "" {
		o.id = strings.ToLower(rand.Text())
		o.say("The ID of this top-up is %s", o.id)
	}
	return o.withStore(ctx, accessChange, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.TopUp(ctx, o.entity, o.resource, amounts, o.id); err != nil {
			return o.fillError(err)
		}
		o.done("Topped up %s for %s %s; ID %s counts once", requestText(limiter.Request{Resource: o.resource, Consume: amounts}), o.entity, o.location(), o.id)
		return o.show(ctx, lim)
	})
}

// fillError returns wrong amounts and IDs as usage errors. A limit that the bucket
// lacks depends on the store.
func (o fillOptions) fillError(err error) error {
	if errors.Is(err, limiter.ErrNoLimits) {
		return o.suggestLimits(err, limiter.Request{Entity: o.entity, Resource: o.resource})
	}
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok && (bad.Field == "id" || bad.Field == "amounts") {
		return usagef("%v", err)
	}
	return err
}

// show prints what is left in the bucket now.
func (o fillOptions) show(ctx context.Context, lim *limiter.RateLimiter) error {
	_, statuses, err := answer.ReadStatuses(ctx, lim, o.entity, o.resource)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(statuses, func(s limiter.Status) bool { return s.Entity != o.entity })
	return statusListing(o.console, "").print(o.console, o.json, each(own))
}
