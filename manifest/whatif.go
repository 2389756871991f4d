package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// WhatIfOptions configures [WhatIf]. The zero value of a field means its
// default.
type WhatIfOptions struct {
	// Now returns the time up to which usage counts; default time.Now.
	Now func() time.Time
	// Days is how far back the replay begins; default 7, at most 366.
	Days int
	// Entity and Resource restrict the report; default all.
	Entity, Resource string
	// MaxSnapshots is the number of snapshots at which reading stops; default
	// 100,000. It bounds time and memory.
	MaxSnapshots int
	// All includes the rows of limits that nothing exceeded.
	All bool
}

// Defaults and bounds of WhatIfOptions.
const (
	defaultDays, maxDays = 7, 366
	defaultMaxSnapshots  = 100_000
)

func (o *WhatIfOptions) withDefaults() (WhatIfOptions, error) {
	var all WhatIfOptions
	if o != nil {
		all = *o
	}

	if all.Now == nil {
		all.Now = time.Now
	}
	if all.Days == 0 {
		all.Days = defaultDays
	}
	if all.MaxSnapshots <= 0 {
		all.MaxSnapshots = defaultMaxSnapshots
	}

	if all.Days < 0 || all.Days > maxDays {
		return all, &limiter.InvalidError{
			Field: "days", Value: strconv.Itoa(all.Days),
			Reason: fmt.Sprintf("must be between 1 and %d", maxDays),
		}
	}
	return all, limiter.UsageQuery{Entity: all.Entity, Resource: all.Resource}.Validate()
}

// WhatIfReport compares recorded usage with proposed limits.
type WhatIfReport struct {
	From         time.Time   `json:"from" doc:"first hour of the replay"`
	To           time.Time   `json:"to" doc:"end of the replay: the time of the report"`
	First        *time.Time  `json:"first" doc:"earliest hour with usage"`
	Last         *time.Time  `json:"last" doc:"latest hour with usage"`
	Levels       int         `json:"levels" doc:"levels whose limits would change"`
	Snapshots    int         `json:"snapshots" doc:"hourly snapshots that were read"`
	Complete     bool        `json:"complete" doc:"false if there were too many snapshots; the oldest are missing"`
	Entities     int         `json:"entities" doc:"entities with usage whose limits would change"`
	EntitiesOver int         `json:"entities_over" doc:"those over the proposed limits by more than the current ones"`
	Unseen       []string    `json:"unseen" doc:"proposed limits without recorded usage; the report cannot judge them"`
	Rows         []WhatIfRow `json:"rows" doc:"limits that usage exceeded, the worst first; see below"`
}

// WhatIfRow compares the usage of one limit by one entity and resource with the
// limit that would be in force. [WhatIf] defines what is over a limit.
type WhatIfRow struct {
	Entity    string         `json:"entity_id" doc:"entity that used the tokens"`
	Resource  string         `json:"resource" doc:"resource that was used"`
	Limit     string         `json:"limit" doc:"name of the limit"`
	Current   *limiter.Limit `json:"current" doc:"limit in force now; null if there is none"`
	Proposed  *limiter.Limit `json:"proposed" doc:"limit that would be in force; null if none: calls that name it fail"`
	HoursOver int            `json:"hours_over" doc:"hours with refusals, at least"`
	HoursUsed int            `json:"hours_used" doc:"hours with usage"`
	Used      int64          `json:"tokens_used" doc:"tokens used, less those given back"`
	Over      int64          `json:"tokens_over" doc:"tokens that would have been refused, at least"`
	OverNow   int64          `json:"tokens_over_now" doc:"over the current limit by late corrections or earlier limits"`
	CallsOver *int64         `json:"calls_over" doc:"refused calls, at least; null unless the limit counts calls"`
	First     *time.Time     `json:"first" doc:"hour by which the first call would have been refused"`
	Last      *time.Time     `json:"last" doc:"last hour that was over"`
	Worst     *time.Time     `json:"worst" doc:"hour that was over most"`
	WorstUsed int64          `json:"worst_used" doc:"tokens used in that hour"`
	WorstOver int64          `json:"worst_over" doc:"tokens over in that hour"`
}

// Worse reports whether usage exceeded the proposed limit by more than the
// current one.
func (r WhatIfRow) Worse() bool { return r.Over > r.OverNow }

// Removed reports whether the entity used a limit that would go.
func (r WhatIfRow) Removed() bool { return r.Proposed == nil && r.Used > 0 }

// WhatIf replays the usage of the last days against the limits that would be in
// force if m were applied. It reads hourly snapshots and the levels of limits,
// and writes nothing. Levels that m does not change stay as they are stored, and
// the most specific level that holds limits provides all of them. The report
// leaves out limits that would not change. The errors are the same as for
// [NewPlan].
//
// Over is a lower bound. Suppose that the same calls are made at the same times
// under the proposed limits. Then calls that took at least Over tokens in all are
// refused, by this limit or another one; or late corrections, which are never
// refused, are charged as debt in their place. Refused calls are not in the usage
// at all, so that the true number is higher.
//
// The argument: let b be a balance that starts at the capacity. In each hour, b
// gains the whole refill, loses the usage of the hour, and is then at most the
// capacity. Where it would fall below zero, the missing tokens are over, and b is
// zero. Compare that with any real bucket whose balance is r, and let R be what
// calls took that the bucket refused so far. Each step keeps R - Over >= r - b:
// a refill moves both balances and the capacity stops the higher one first; a
// charge that the bucket admits lowers r by all of it and b by all but what is
// over; a refused one raises R by what b and Over account for; what a refused
// call gave back raises only b. The order within an hour does not matter, since
// tokens that a full bucket loses only lower r. As r is never negative without
// debt, and b is zero whenever Over grows, R >= Over. A debt adds its tokens to R.
//
// The argument holds for quotas as well, since it uses nothing about a refill but
// that both balances get the same one, at the same time. If a boundary falls into
// an hour, as in zones that are half an hour off, the hour gains the whole step. A
// shadow limit refuses nothing, so that nothing is over it: its own counter, or a
// replay of the enforced limit, shows what it would refuse.
//
// HoursOver is a lower bound by the same argument: after an hour that is over, the
// count begins anew with a full bucket, so that each hour counted stands for hours
// of its own. The late corrections of a refused call count in their own hour. The
// worst hour need not have refusals itself, if earlier ones left tokens.
//
// The bound cannot be summed over limits, or over a parent and its children,
// because one refused call may count for each. Limits that requests bring along
// are unknown to it. On DynamoDB, limits may admit a little more than they promise,
// see docs/limits.md.
func WhatIf(ctx context.Context, repo limiter.Repository, m *Manifest, opts *WhatIfOptions) (*WhatIfReport, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}

	p, err := NewPlan(ctx, repo, m, &Options{Now: o.Now})
	if err != nil {
		return nil, err
	}

	return newReplay(p.target, p.Changes, o).report(ctx)
}

// WhatIfLimits replays usage against other limits of one level, as WhatIf does for
// a manifest. Without limits, the level is deleted. For an invalid level, the error
// is a *limiter.InvalidError.
func WhatIfLimits(
	ctx context.Context, repo limiter.Repository, level limiter.Config, opts *WhatIfOptions,
) (*WhatIfReport, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}

	// Some errors of a level have no field of their own.
	if err := validateLevel(level); err != nil {
		if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
			err = &limiter.InvalidError{Field: "limits", Reason: err.Error()}
		}
		return nil, err
	}

	t, err := newTarget(ctx, repo, "", &Options{Now: o.Now})
	if err != nil {
		return nil, err
	}

	stored, err := t.readConfig(ctx, level.Scope)
	if err != nil {
		return nil, err
	}

	level.Limits = sortLimits(level.Limits)
	return newReplay(t, []Change{{Scope: level.Scope, Before: stored.Config, After: level}}, o).report(ctx)
}

// replay holds the state of WhatIf.
type replay struct {
	*target
	opts   WhatIfOptions
	now    time.Time
	levels map[limiter.Scope]level
	usage  map[limiter.Scope]*series // by entity and resource
	result WhatIfReport
}

// level holds the limits of a level now and after the change.
type level struct{ current, proposed []limiter.Limit }

func newReplay(t *target, changes []Change, opts WhatIfOptions) *replay {
	now := opts.Now().UTC()
	r := &replay{target: t, opts: opts, now: now, levels: map[limiter.Scope]level{}, usage: map[limiter.Scope]*series{}}

	r.result = WhatIfReport{
		From: now.AddDate(0, 0, -opts.Days).Truncate(time.Hour), To: now, Complete: true,
		Unseen: []string{}, Rows: []WhatIfRow{},
	}
	// A change of the mode for outages alone refuses nothing.
	for _, c := range changes {
		if !slices.Equal(c.Before.Limits, c.After.Limits) {
			r.levels[c.Scope] = level{c.Before.Limits, c.After.Limits}
		}
	}

	r.result.Levels = len(r.levels)
	return r
}

func (r *replay) report(ctx context.Context) (*WhatIfReport, error) {
	if err := r.readUsage(ctx); err != nil {
		return nil, err
	}
	if err := r.readLevels(ctx); err != nil {
		return nil, err
	}
	r.judge()
	return &r.result, nil
}
