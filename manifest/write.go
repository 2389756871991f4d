package manifest

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go"
)

// write makes a change through the limiter, so that it is audited, listed, and
// rules live buckets.
func (t *target) write(ctx context.Context, c Change) error {
	s, limits := c.Scope, c.After.Limits
	switch level := Level(s); {
	case level == "system":
		return t.writeSystem(ctx, c)
	case level == "resource" && len(limits) == 0:
		return t.lim.DeleteResourceDefaults(ctx, s.Resource)
	case level == "resource":
		return t.lim.SetResourceDefaults(ctx, s.Resource, limits...)
	case len(limits) == 0:
		return t.lim.DeleteLimits(ctx, s.Entity, s.Resource)
	}
	return t.lim.SetLimits(ctx, s.Entity, s.Resource, limits...)
}

// writeSystem replaces limits and mode of the system. Setting leaves what is not
// given as it is, so that a part that is to go takes the other one with it for a
// moment.
func (t *target) writeSystem(ctx context.Context, c Change) error {
	before, after := c.Before, c.After
	limitsGo := len(before.Limits) > 0 && len(after.Limits) == 0
	modeGoes := before.OnUnavailable != "" && after.OnUnavailable == ""
	if limitsGo || modeGoes || c.Damaged {
		if err := t.lim.DeleteSystemDefaults(ctx); err != nil && !errors.Is(err, limiter.ErrNotFound) {
			return err
		}
	}
	if empty(after) {
		return nil
	}
	return t.lim.SetSystem(ctx, after.OnUnavailable, after.Limits...)
}
