package dashboard

import (
	"encoding/json"
	"errors"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// Change is what a viewer wants to change.
type Change struct {
	Action   string            `json:"action"`
	Entity   string            `json:"entity"`
	Resource string            `json:"resource"`
	Limits   []jsonview.Limit  `json:"limits"`
	Name     string            `json:"name"`
	Parent   string            `json:"parent"`
	Cascade  bool              `json:"cascade"`
	Metadata map[string]string `json:"metadata"`
	// All stands for everything in the namespace, in disable and enable.
	All bool `json:"all"`
	// Reason belongs to disable.
	Reason string `json:"reason"`
	// Amounts and ID belong to top_up.
	Amounts map[string]int64 `json:"amounts"`
	ID      string           `json:"id"`
}

// The actions of a Change.
const (
	setLimits    = "set_limits"
	deleteLimits = "delete_limits"
	createEntity = "create_entity"
)

// maxLimits bounds the limits of a level.
const maxLimits = 50

// plannedChange is a Change that is valid.
type plannedChange struct {
	action  string
	scope   limiter.Scope
	limits  []limiter.Limit
	entity  limiter.Entity
	reason  string
	amounts limiter.Amounts
	id      string

	// repeated reports that the id of a top-up was used before.
	repeated bool
}

// plan returns the change in the body of a call.
func (c Change) plan() (*plannedChange, error) {
	if err := c.checkFields(); err != nil {
		return nil, err
	}

	p := &plannedChange{action: c.Action, scope: limiter.Scope{Entity: c.Entity, Resource: c.Resource}}
	if err := p.read(c); err != nil {
		return nil, err
	}

	return p, nil
}

// read checks the fields of an action.
func (p *plannedChange) read(body Change) error {
	switch p.action {
	case setLimits, deleteLimits:
		return p.readLimits(body)
	case disable, enable:
		return p.readSwitch(body)
	case resetBucket, topUpBucket:
		return p.readFill(body)
	case createEntity:
		if body.Resource != "" || body.Limits != nil {
			return web.Bad("body: an entity is created without a resource and limits")
		}

		p.entity = limiter.Entity{
			ID: body.Entity, Name: body.Name, Parent: body.Parent, Cascade: body.Cascade,
			Metadata: body.Metadata,
		}
		return p.entity.Validate()
	}

	return web.Bad("body: field action: must be %s, %s, %s, %s, %s, %s or %s", setLimits, deleteLimits,
		createEntity, disable, enable, resetBucket, topUpBucket)
}

// checkFields rejects fields that belong to other actions.
func (c Change) checkFields() error {
	switch {
	case c.Action != createEntity && (c.Name != "" || c.Parent != "" || c.Cascade || c.Metadata != nil):
		return web.Bad("body: name, parent, cascade and metadata belong to %s", createEntity)
	case c.All && c.Action != disable && c.Action != enable:
		return web.Bad("body: field all: belongs to %s and %s", disable, enable)
	case c.Reason != "" && c.Action != disable:
		return web.Bad("body: field reason: belongs to %s", disable)
	case (c.Amounts != nil || c.ID != "") && c.Action != topUpBucket:
		return web.Bad("body: amounts and id belong to %s", topUpBucket)
	// A created entity with limits gets a message of its own.
	case c.Limits != nil && c.Action != setLimits && c.Action != createEntity:
		return web.Bad("body: field limits: belongs to %s", setLimits)
	}

	return nil
}

func (p *plannedChange) readLimits(body Change) (err error) {
	if err := checkScope(p.scope); err != nil {
		return err
	}

	switch {
	case p.action == deleteLimits:
		return nil
	case len(body.Limits) == 0 || len(body.Limits) > maxLimits:
		return web.Bad("body: field limits: must have 1 to %d limits", maxLimits)
	}

	if p.limits, err = limitsOf(body.Limits); err != nil {
		return err
	}

	names := map[string]bool{}
	for _, l := range p.limits {
		if names[l.Name] {
			return web.Bad("body: field limits: %q is listed twice; give each limit once", web.Clip(l.Name))
		}
		names[l.Name] = true
	}

	return nil
}

// checkScope rejects names that no level can have.
func checkScope(s limiter.Scope) error {
	if s.Entity != "" {
		if err := (limiter.Entity{ID: s.Entity}).Validate(); err != nil {
			return err
		}
	}
	if s.Resource != "" {
		return checkResource(s.Resource)
	}
	return nil
}

// limitOf returns a valid limit.
func limitOf(l jsonview.Limit) (limiter.Limit, error) {
	// The JSON of both types has the same fields, and only UnmarshalJSON of
	// limiter.Limit validates them.
	text, err := json.Marshal(l)
	if err != nil {
		return limiter.Limit{}, err
	}

	var limit limiter.Limit
	err = json.Unmarshal(text, &limit)
	return limit, err
}

// change makes a change. The audit trail names the session as its author.
func change(c *call, body Change) (any, error) {
	p, err := body.plan()
	if err != nil {
		return nil, err
	}

	lim := c.lim.As(c.by.Name)
	switch p.action {
	case setLimits:
		err = c.setLimits(lim, p)
	case deleteLimits:
		err = c.deleteLimits(lim, p.scope)
	case createEntity:
		_, err = lim.CreateEntity(c.ctx, p.entity)
	default:
		err = p.applyBucket(c.ctx, lim)
	}

	// A switch that is delayed is stored and in force, so the caches must
	// forget the old state all the same.
	if delayed := errors.As(err, new(*limiter.SwitchDelayedError)); err != nil && !delayed {
		return nil, p.explain(err)
	}

	// The viewer looks at the result at once, and an answer from a cache would
	// not have it.
	c.configs.forget()
	c.switches.forget()
	c.pages.forget()
	c.names.forget(p.scope.Entity)
	c.tallies.expire()

	return changed{p.repeated}, err
}

// changed is the answer to a change.
type changed struct {
	// Repeated reports that the id of a top-up was used before, so that nothing was
	// added.
	Repeated bool `json:"repeated,omitempty"`
}

func (c *call) setLimits(lim *limiter.RateLimiter, p *plannedChange) error {
	switch {
	case p.scope.Entity != "":
		return lim.SetLimits(c.ctx, p.scope.Entity, p.scope.Resource, p.limits...)
	case p.scope.Resource != "":
		return lim.SetResourceDefaults(c.ctx, p.scope.Resource, p.limits...)
	}

	return lim.SetSystemDefaults(c.ctx, p.limits...)
}

func (c *call) deleteLimits(lim *limiter.RateLimiter, s limiter.Scope) error {
	switch {
	case s.Entity != "":
		return lim.DeleteLimits(c.ctx, s.Entity, s.Resource)
	case s.Resource != "":
		return lim.DeleteResourceDefaults(c.ctx, s.Resource)
	}

	return lim.DeleteSystemDefaults(c.ctx)
}
