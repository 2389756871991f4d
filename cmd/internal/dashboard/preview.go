package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Preview is the effect that a change would have, as JSON.
type Preview struct {
	// Before has the limits stored at the level; null if there are none.
	Before []jsonview.Limit `json:"before"`
	// After is null if the limits are deleted.
	After []jsonview.Limit `json:"after"`
	// Affects counts the buckets whose limits would change.
	Affects int `json:"affects"`
	Scanned int `json:"scanned"`
	// Done reports whether all buckets were scanned.
	Done     bool      `json:"done"`
	Examples []Example `json:"examples"`
	Warnings []string  `json:"warnings"`
	// Notes says in sentences what would happen.
	Notes []string `json:"notes"`
	// ID is for a top-up, so that a repetition adds nothing.
	ID        string  `json:"id,omitempty"`
	Principal *string `json:"principal"`
}

// Example is a bucket whose limits would change, as JSON.
type Example struct {
	Entity   string           `json:"entity"`
	Resource string           `json:"resource"`
	From     []jsonview.Limit `json:"from"`
	// To is empty if no level would provide limits.
	To []jsonview.Limit `json:"to"`
}

// Bounds of a preview.
const (
	maxExamples = 5
	previewTime = 2 * time.Second
)

func preview(c *call, body Change) (any, error) {
	p, err := body.plan()
	if err != nil {
		return nil, err
	}

	v := Preview{
		Examples: []Example{}, Warnings: []string{}, Notes: []string{}, Principal: jsonview.OrNull(c.by.Name),
		Done: true,
	}

	if describe := c.describer(p.action); describe != nil {
		if err := describe(&v, p); err != nil {
			return nil, err
		}
		return v, nil
	}

	stored, err := c.repo.Config(c.ctx, p.scope)
	if err != nil {
		return nil, outage(err)
	}

	// The change itself would fail, and a preview must not promise it.
	if p.action == deleteLimits && len(stored.Limits) == 0 {
		return nil, p.explain(limiter.ErrNotFound)
	}

	v.Before, v.After = orNull(stored.Limits), orNull(p.limits)
	e := &effect{call: c, change: p, preview: &v, levels: map[limiter.Scope][]limiter.Limit{}}
	if err := e.scan(); err != nil {
		return nil, err
	}

	e.warn(stored)
	return v, nil
}

// describer returns the preview of an action that replaces no limits, or nil.
func (c *call) describer(action string) func(*Preview, *plannedChange) error {
	switch action {
	case createEntity:
		return c.previewEntity
	case disable, enable:
		return c.previewSwitch
	case resetBucket, topUpBucket:
		return c.previewFill
	}
	return nil
}

func orNull(limits []limiter.Limit) []jsonview.Limit {
	if len(limits) == 0 {
		return nil
	}
	return jsonview.NewLimits(limits)
}

// previewEntity describes the creation of an entity.
func (c *call) previewEntity(v *Preview, p *plannedChange) error {
	_, err := c.lim.Entity(c.ctx, p.entity.ID)
	if err == nil {
		return p.explain(limiter.ErrExists)
	}

	if !errors.Is(err, limiter.ErrNotFound) {
		return err
	}

	if p.entity.Parent == "" {
		return nil
	}

	if _, err := c.lim.Entity(c.ctx, p.entity.Parent); errors.Is(err, limiter.ErrNotFound) {
		v.Warnings = append(v.Warnings, fmt.Sprintf("The parent %s has no record.", web.Clip(p.entity.Parent)))
	} else if err != nil {
		return err
	}

	if p.entity.Cascade {
		v.Warnings = append(v.Warnings,
			fmt.Sprintf("From the next call on, %s pays for each call of %s too.", web.Clip(p.entity.Parent),
				web.Clip(p.entity.ID)))
	}

	return nil
}

// explain returns the problem of a change that does not fit what is stored.
func (p *plannedChange) explain(err error) error {
	switch {
	case errors.Is(err, limiter.ErrNotFound) && p.action == deleteLimits:
		return missing("no limits are stored at this level")
	case errors.Is(err, limiter.ErrNotFound) && p.action == enable:
		return missing("this level is not disabled")
	case errors.Is(err, limiter.ErrExists):
		return &httplimit.Problem{
			Status: http.StatusConflict,
			Detail: fmt.Sprintf("the entity %q has a record already; records cannot be changed", web.Clip(p.entity.ID)),
		}
	}
	return err
}

// effect finds the buckets whose limits a change replaces.
type effect struct {
	*call
	change  *plannedChange
	preview *Preview
	// levels has stored limits.
	levels map[limiter.Scope][]limiter.Limit
	// lost has the limits that a bucket has and would lose.
	lost map[string]bool
	// bare counts the buckets for which no level would provide limits.
	bare int
}

// scan looks at buckets until its time is over.
func (e *effect) scan() error {
	e.lost = map[string]bool{}
	ctx, cancel := context.WithTimeout(e.ctx, previewTime)
	defer cancel()

	begun := time.Now()
	for b, err := range e.candidates(ctx) {
		if err == nil {
			e.preview.Scanned++
			err = e.judge(b)
		}

		// The time may end during a read, which fails then. If the call itself
		// has ended, its error counts.
		if late := ctx.Err() != nil || time.Since(begun) > previewTime; late && e.ctx.Err() == nil {
			e.preview.Done = false
			return nil
		}
		if err != nil {
			return outage(err)
		}
	}

	return nil
}

// candidates iterates over the buckets that may get their limits from the level.
func (e *effect) candidates(ctx context.Context) iter.Seq2[limiter.Bucket, error] {
	if e.change.scope == (limiter.Scope{}) {
		return e.allBuckets(ctx, func(int) {})
	}
	return e.repo.Buckets(ctx, e.now(), e.change.scope)
}

// judge counts a bucket if its limits would change.
func (e *effect) judge(b limiter.Bucket) error {
	a := b.Account
	to, err := e.after(a)
	// Both lists are sorted by name.
	if err != nil || slices.Equal(a.Limits, to) {
		return err
	}

	e.preview.Affects++
	if len(to) == 0 {
		e.bare++
	}

	for _, l := range a.Limits {
		if !slices.ContainsFunc(to, func(other limiter.Limit) bool { return other.Name == l.Name }) {
			e.lost[l.Name] = true
		}
	}

	if len(e.preview.Examples) < maxExamples {
		e.preview.Examples = append(e.preview.Examples, Example{
			a.Entity, a.Resource, jsonview.NewLimits(a.Limits), jsonview.NewLimits(to),
		})
	}

	return nil
}

// after returns the limits of an account after the change: the first level that
// holds limits then provides all of them.
func (e *effect) after(a *limiter.Account) ([]limiter.Limit, error) {
	for _, scope := range limiter.Precedence(a.Entity, a.Resource) {
		if scope == e.change.scope {
			if e.change.action == setLimits {
				return sorted(e.change.limits), nil
			}
			continue
		}
		limits, err := e.stored(scope, a)
		if err != nil || len(limits) > 0 {
			return limits, err
		}
	}

	// No level would provide limits, so the program brings its own again.
	if a.Default {
		return a.Limits, nil
	}

	return nil, nil
}

// stored returns the limits of a level. It needs no read for the level in force,
// whose limits the account of the bucket has, and for the levels before that one,
// which hold none.
func (e *effect) stored(scope limiter.Scope, a *limiter.Account) ([]limiter.Limit, error) {
	// A program's limits apply only where no level holds any.
	if a.Default {
		return nil, nil
	}

	if scope == a.Source {
		return a.Limits, nil
	}

	// A level before the source would be the source itself if it held limits.
	levels := limiter.Precedence(a.Entity, a.Resource)
	if slices.Index(levels[:], scope) < slices.Index(levels[:], a.Source) {
		return nil, nil
	}

	if known, ok := e.levels[scope]; ok {
		return known, nil
	}

	cfg, err := e.configs.get(e.ctx, scope)
	if err != nil {
		return nil, err
	}
	if len(e.levels) < usualValues {
		e.levels[scope] = cfg.Limits
	}

	return cfg.Limits, nil
}

// centWarnings returns warnings about limits of money below a cent.
func centWarnings(limits []limiter.Limit) []string {
	warnings := []string{}
	for _, l := range limits {
		if w := figure.CentWarning(l.Name, l.String(), "such as $50", l.Capacity, l.Refill); w != "" {
			warnings = append(warnings, w+".")
		}
	}
	return warnings
}

// sorted returns limits by name.
func sorted(limits []limiter.Limit) []limiter.Limit {
	return slices.SortedFunc(slices.Values(limits), func(a, b limiter.Limit) int { return cmp.Compare(a.Name, b.Name) })
}

// warn adds what a viewer should know before the change.
func (e *effect) warn(stored limiter.Config) {
	say := func(format string, args ...any) {
		e.preview.Warnings = append(e.preview.Warnings, fmt.Sprintf(format, args...))
	}

	// The warning after this one says more about buckets that lose all limits.
	if len(e.lost) > 0 && e.bare == 0 {
		names := []string{}
		for name := range e.lost {
			names = append(names, name)
		}
		slices.Sort(names)
		say("Buckets lose the limit %s; calls that name it fail.", strings.Join(names, ", "))
	}

	if e.bare > 0 {
		say("No level would provide limits for some buckets, so that calls without limits of their own fail.")
	}

	if e.change.action == setLimits {
		for _, l := range e.change.limits {
			// A limit that is new has no earlier capacity.
			i := slices.IndexFunc(stored.Limits, func(old limiter.Limit) bool { return old.Name == l.Name })
			if i >= 0 && l.Capacity < stored.Limits[i].Capacity {
				say("The capacity of %s shrinks from %s to %s; buckets that hold more lose the rest.", l.Name,
					figure.Amount(l.Name, stored.Limits[i].Capacity), figure.Amount(l.Name, l.Capacity))
			}
		}
		e.preview.Warnings = append(e.preview.Warnings, centWarnings(e.change.limits)...)
	}

	if e.change.action == deleteLimits && e.change.scope == (limiter.Scope{}) && stored.OnUnavailable != "" {
		say("The mode for outages, %s, is deleted with the limits of the system.", stored.OnUnavailable)
	}

	if !e.preview.Done {
		say("Not all buckets were looked at, so that more may change.")
	}
}
