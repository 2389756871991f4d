package dashboard

import (
	"errors"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

type explainRequest struct {
	Entity   string            `json:"entity"`
	Resource string            `json:"resource"`
	Consume  map[string]*int64 `json:"consume"`
}

// explain returns the decision about a request, and why, without charging it. The
// request names at least one amount, which may be 0.
func explain(c *call, body explainRequest) (any, error) {
	if len(body.Consume) == 0 {
		return nil, web.Bad(`body: field consume: must have at least one amount, such as {"rpm": 1}`)
	}

	req := limiter.Request{Entity: body.Entity, Resource: body.Resource}
	// Names in a fixed order give the same request the same error.
	for _, name := range slices.Sorted(maps.Keys(body.Consume)) {
		amount := body.Consume[name]
		// A pointer tells a null from 0.
		if amount == nil || *amount < 0 {
			return nil, web.Bad("body: field consume: %q must be a whole number, 0 or more", web.Clip(name))
		}
		req.Consume = req.Consume.And(name, *amount)
	}

	decision, levels, err := jsonview.Explain(c.ctx, c.lim, c.repo, req)
	if off, disabled := errors.AsType[*limiter.DisabledError](err); disabled {
		return jsonview.NewDisabledExplanation(req, off, levels), nil
	}
	if err != nil {
		return nil, outage(err)
	}

	return jsonview.NewExplanation(req, decision, levels), nil
}
