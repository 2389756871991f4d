package dashboard

import (
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/answer"
)

type explainRequest struct {
	Entity   string           `json:"entity"`
	Resource string           `json:"resource"`
	Consume  map[string]int64 `json:"consume"`
}

// explain returns the decision about a request, and why, without charging it.
func explain(c *call) (any, error) {
	var body explainRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	req := limiter.Request{Entity: body.Entity, Resource: body.Resource}
	for _, name := range slices.Sorted(maps.Keys(body.Consume)) {
		if body.Consume[name] < 0 {
			return nil, badInput("body: field consume: %q must be 0 or more", clip(name))
		}
		req.Consume = req.Consume.And(name, body.Consume[name])
	}
	decision, levels, err := answer.Explain(c.ctx, c.lim, c.reads, req)
	if err != nil {
		return nil, outage(err)
	}
	return answer.NewExplanation(req, decision, levels), nil
}
