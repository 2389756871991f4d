package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// The actions of a Change that concern switches and balances.
const (
	disable     = "disable"
	enable      = "enable"
	resetBucket = "reset"
	topUpBucket = "top_up"
)

// readSwitch reads a change of a switch. Only all: true means the whole namespace,
// since a request that names no entity and no resource may be a mistake.
func (p *plannedChange) readSwitch(body Change) error {
	if body.All != (p.scope == limiter.Scope{}) {
		return web.Bad("body: give entity, resource or both, or all: true for everything in the namespace")
	}
	p.reason = body.Reason
	return checkScope(p.scope)
}

// readFill reads a reset or a top-up.
func (p *plannedChange) readFill(body Change) error {
	// An amount of 0 fits every bucket, so that Validate judges the names
	// alone.
	req := limiter.Request{Entity: body.Entity, Resource: body.Resource, Consume: limiter.Tokens("any", 0)}
	if err := req.Validate(); err != nil {
		return err
	}

	if p.action == resetBucket {
		return nil
	}

	p.id = body.ID
	for name, n := range body.Amounts {
		if n < 1 {
			return web.Bad("body: field amounts: %q must be a whole number, 1 or more", web.Clip(name))
		}
		p.amounts = p.amounts.And(name, n)
	}

	if p.amounts.Len() == 0 {
		return web.Bad(`body: field amounts: must have at least one amount, such as {"rpm": 1}`)
	}

	return nil
}

// previewSwitch describes a change of a switch.
func (c *call) previewSwitch(v *Preview, p *plannedChange) error {
	found, err := jsonview.ReadSwitch(c.ctx, c.lim, p.scope)
	if err != nil {
		return outage(err)
	}

	if found != nil {
		v.Notes = append(v.Notes, found.Refuse(p.scope.Entity, p.scope.Resource).Error()+".")
	}

	switch {
	case p.action == enable && found == nil:
		return p.explain(limiter.ErrNotFound)
	case p.action == enable:
		v.Notes = append(v.Notes, "Its calls meet limits again, unless another level is disabled.")
	case p.scope == limiter.Scope{}:
		v.Warnings = append(v.Warnings, "Every call in this namespace would be refused.")
	default:
		v.Notes = append(v.Notes,
			fmt.Sprintf("Every call of %s would be refused, and every call that charges it as a parent.", p.scope))
	}

	return nil
}

// previewFill describes what a reset or a top-up does to each limit.
func (c *call) previewFill(v *Preview, p *plannedChange) error {
	// The ID of the preview comes back with the change, so that a second click
	// on the button adds nothing.
	if p.action == topUpBucket {
		v.ID = rand.Text()
	}

	_, statuses, err := jsonview.ReadStatuses(c.ctx, c.lim, p.scope.Entity, p.scope.Resource)
	if err != nil {
		return err
	}

	// The statuses include the limits of a parent, whose bucket stays as it is.
	own := slices.DeleteFunc(statuses, func(s limiter.Status) bool { return s.Entity != p.scope.Entity })
	for name := range p.amounts.All() {
		if !slices.ContainsFunc(own, func(s limiter.Status) bool { return s.Limit.Name == name }) {
			return web.Bad("body: field amounts: %q is not a limit of this bucket", web.Clip(name))
		}
	}

	for _, s := range own {
		after := s.Limit.Capacity
		// The amount comes from the viewer, and its sum with the balance may overflow.
		if n := p.amounts.Get(s.Limit.Name); p.action == topUpBucket && n < after-s.Available {
			after = s.Available + n
		}

		v.Notes = append(v.Notes,
			fmt.Sprintf("%s: %s of %s available, %s after it.", s.Limit.Name,
				figure.Amount(s.Limit.Name, s.Available), figure.Amount(s.Limit.Name, s.Limit.Capacity),
				figure.Amount(s.Limit.Name, after)))
	}

	return nil
}

// applyBucket makes a change of a switch or of a balance.
func (p *plannedChange) applyBucket(ctx context.Context, lim *limiter.RateLimiter) error {
	switch p.action {
	case disable:
		return lim.Disable(ctx, p.scope, p.reason)
	case enable:
		return lim.Enable(ctx, p.scope)
	case resetBucket:
		return lim.Reset(ctx, p.scope.Entity, p.scope.Resource)
	case topUpBucket:
		done, err := lim.TopUp(ctx, p.scope.Entity, p.scope.Resource, p.amounts, p.id)
		p.repeated = !done && err == nil
		return err
	}

	return errors.ErrUnsupported
}
