package jsonview

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Status is one limit of one bucket as JSON.
type Status struct {
	Entity     string  `json:"entity_id" doc:"entity of the bucket"`
	Resource   string  `json:"resource" doc:"resource of the bucket"`
	Limit      string  `json:"limit_name" doc:"name of the limit"`
	Source     string  `json:"source"`
	Capacity   int64   `json:"capacity" doc:"maximum number of tokens"`
	Refill     int64   `json:"refill_amount" doc:"tokens refilled every period; 0 for a quota"`
	Seconds    int64   `json:"refill_period_seconds" doc:"length of the period; 0 for a quota"`
	Available  int64   `json:"available" doc:"whole tokens left; negative is debt"`
	Missing    int64   `json:"missing" doc:"tokens that the bucket lacks until it is full, debt included"`
	Debt       int64   `json:"debt" doc:"tokens taken beyond the capacity"`
	Requested  int64   `json:"requested" doc:"requested tokens"`
	Exceeded   bool    `json:"exceeded" doc:"whether the limit does not cover the request"`
	NeverFits  bool    `json:"never_fits" doc:"whether the request is above the capacity"`
	RetryAfter float64 `json:"retry_after_seconds" doc:"wait until the request is covered; 0 if it is, or never fits"`
	FullAfter  float64 `json:"full_after_seconds" doc:"time until the bucket is full, if nothing more is taken"`
	Kind
	Bounds
	WouldRefuse bool           `json:"would_refuse,omitempty" doc:"whether a shadow limit would refuse; absent if not"`
	Used        *int64         `json:"used,omitempty"`
	UsedSince   *time.Time     `json:"used_since,omitempty"`
	Dollars     *StatusDollars `json:"dollars,omitempty"`
}

// FieldDocs returns the texts that are too long for tags.
func (Status) FieldDocs() map[string]string {
	return map[string]string{
		"source": sourceDoc,
		"used": "tokens used since used_since, less those given back, as the usage counters say; in a status, and " +
			"absent if none were counted",
		"used_since": "start of the quota's window, for a rate start of the hour, day or month in UTC that is at " +
			"least its period; absent without used",
		"dollars": "the tokens of a limit of money in dollars: capacity, refill_amount, available, missing, debt, " +
			"requested and used; absent for other limits",
	}
}

// Bounds holds the bounds of a quota's window.
type Bounds struct {
	Start *time.Time `json:"window_start,omitempty" doc:"start of the quota's window; absent for a rate"`
	End   *time.Time `json:"window_end,omitempty" doc:"window's end: the quota gains its capacity; absent for a rate"`
}

// NewBounds returns the bounds of a quota's window, both nil for a rate.
func NewBounds(s limiter.Status) Bounds {
	return Bounds{TimeOrNull(s.WindowStart), TimeOrNull(s.WindowEnd)}
}

// NewStatus returns a status as JSON, without what was used.
func NewStatus(s limiter.Status) Status { return NewUsedStatus(s, Used{}) }

// NewUsedStatus returns a status as JSON.
func NewUsedStatus(s limiter.Status, used Used) Status {
	limit := NewLimit(s.Limit)
	tokens, since := usedOrNull(used)
	return Status{
		s.Entity, s.Resource, limit.Name, s.Source, limit.Capacity, limit.Refill, limit.Seconds,
		s.Available, Missing(s), Debt(s), s.Requested, s.Exceeded, s.NeverFits,
		retryAfter(s.RetryAfter, s.NeverFits), Seconds(s.FullAfter),
		newKind(s.Limit), NewBounds(s), s.WouldRefuse, tokens, since, newStatusDollars(s, used),
	}
}

// NewStatuses returns statuses as JSON. What was used may be nil.
func NewStatuses(all []limiter.Status, used []Used) []Status {
	objects := make([]Status, len(all))
	for i, s := range all {
		if objects[i] = NewStatus(s); used != nil {
			objects[i] = NewUsedStatus(s, used[i])
		}
	}
	return objects
}

// Debt returns the tokens taken beyond the capacity.
func Debt(s limiter.Status) int64 { return max(0, -s.Available) }

// Missing returns the tokens that a bucket lacks until it is full, debt included.
func Missing(s limiter.Status) int64 { return max(0, bucket.Sub(s.Limit.Capacity, s.Available)) }

// retryAfter returns the wait before a retry in seconds, 0 if the request never
// fits.
func retryAfter(wait time.Duration, neverFits bool) float64 {
	if neverFits {
		return 0
	}
	return Seconds(wait)
}

// Owner is the status of an entity as JSON.
type Owner struct {
	Entity   string   `json:"entity_id" doc:"ID of the entity"`
	Parent   *string  `json:"parent_id" doc:"ID of the parent"`
	Cascade  bool     `json:"cascade" doc:"whether the parent is charged too"`
	Limits   []Status `json:"limits" doc:"limits of the entity, then of its ancestors; see below"`
	Disabled []Switch `json:"disabled,omitempty"`
}

// FieldDocs returns the texts that are too long for tags.
func (Owner) FieldDocs() map[string]string { return map[string]string{"disabled": switchesDoc} }

// NewOwner returns the status of an entity as JSON. The record e is empty if the
// entity has none, and off holds the levels that refuse its calls. What was used
// may be nil.
func NewOwner(id string, e limiter.Entity, statuses []limiter.Status, used []Used, off ...limiter.Switch) Owner {
	return Owner{id, OrNull(e.Parent), e.Cascade, NewStatuses(statuses, used), NewSwitches(off)}
}

// ReadStatuses returns an entity and the ancestors that its charges reach, and the
// statuses of their limits, in the same order. The record of an entity that has none
// holds the ID alone. If resource is not "", only limits for that resource are returned,
// also unused ones.
func ReadStatuses(
	ctx context.Context, lim *limiter.RateLimiter, id, resource string,
) ([]limiter.Entity, []limiter.Status, error) {
	chain, err := lim.Chain(ctx, id)
	if err != nil {
		return nil, nil, err
	}

	if resource != "" {
		d, err := lim.Explain(ctx, limiter.Request{Entity: id, Resource: resource})
		// Explain has no limits for a level that is off, nor those that an earlier
		// request brought. Their buckets may exist all the same.
		if !errors.Is(err, limiter.ErrNoLimits) && SwitchOf(err) == nil {
			return chain, d.Statuses, err
		}
	}

	all, err := lim.Status(ctx, id)
	if err != nil {
		return chain, nil, err
	}

	if all, err = addUnused(ctx, lim, id, all); err != nil {
		return chain, nil, err
	}

	for level, e := range chain[1:] {
		above, err := lim.Status(ctx, e.ID)
		if err != nil {
			return chain, nil, err
		}
		all = append(all, slices.DeleteFunc(above, func(s limiter.Status) bool {
			// From the grandparent up, only limits of the entity itself pay.
			return level > 0 && s.Source != limiter.Scope{Entity: e.ID}.Level() &&
				s.Source != limiter.Scope{Entity: e.ID, Resource: s.Resource}.Level()
		})...)
	}

	return chain, slices.DeleteFunc(all, func(s limiter.Status) bool {
		return resource != "" && s.Resource != resource
	}), nil
}

// addUnused adds statuses for resources that have limits of the entity but no
// bucket yet.
func addUnused(
	ctx context.Context, lim *limiter.RateLimiter, id string, all []limiter.Status,
) ([]limiter.Status, error) {
	names, err := lim.ResourcesWithLimits(ctx)
	for _, resource := range names {
		// The name "" stands for limits for all resources, which have no bucket
		// of their own.
		if resource == "" || slices.ContainsFunc(all, func(s limiter.Status) bool { return s.Resource == resource }) {
			continue
		}

		stored, err := lim.Limits(ctx, id, resource)
		if err != nil {
			return nil, err
		}
		// A bucket that does not exist is full.
		for _, l := range stored {
			all = append(all, limiter.Status{
				Entity: id, Resource: resource, Source: "entity", Limit: l, Available: l.Capacity,
			})
		}
	}

	return all, err
}
