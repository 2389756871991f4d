package server

import (
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// resetBody fills a bucket.
type resetBody struct {
	Resource string   `json:"resource" schema:"ResourceName" doc:"resource of the bucket"`
	Limits   []string `json:"limits,omitempty" schema:"LimitNames" doc:"names of the limits to fill; default: all"`
}

// topUpBody adds tokens to a bucket.
type topUpBody struct {
	Resource string           `json:"resource" schema:"ResourceName" doc:"resource of the bucket"`
	Amounts  map[string]int64 `json:"amounts" schema:"TopUpAmounts" doc:"whole tokens to add, by limit, 1 or more"`
	ID       string           `json:"id" schema:"TopUpID" doc:"ID; a repetition of it within 24 hours adds nothing"`
}

// toppedUp is the response to a top-up.
type toppedUp struct {
	Done bool `json:"done" doc:"whether the ID was new; if not, it was used before and nothing was added"`

	Limits []jsonview.Status `json:"limits" doc:"limits of the bucket after it"`
}

// fillRoutes returns the calls that fill buckets.
func fillRoutes() []route {
	return []route{
		post("resetBucket", "/v1/entities/{id}/reset", "Fill the bucket of an entity and a resource", RoleAdmin,
			true, reset),
		post("topUpBucket", "/v1/entities/{id}/top-up",
			"Add tokens to the bucket of an entity and a resource, up to its capacity", RoleAdmin, true, topUp),
	}
}

func reset(c *call, body resetBody) ([]jsonview.Status, error) {
	id, err := c.entity()
	if err != nil {
		return nil, err
	}
	if err := c.lim.As(c.by.Name).Reset(c.ctx, id, body.Resource, body.Limits...); err != nil {
		return nil, err
	}
	return c.balance(id, body.Resource)
}

func topUp(c *call, body topUpBody) (toppedUp, error) {
	id, err := c.entity()
	if err != nil {
		return toppedUp{}, err
	}

	done, err := c.lim.As(c.by.Name).TopUp(c.ctx, id, body.Resource, amountsOf(body.Amounts), body.ID)
	if err != nil {
		return toppedUp{}, err
	}

	limits, err := c.balance(id, body.Resource)
	return toppedUp{done, limits}, err
}

// balance returns the limits of a bucket after a change. It returns none if there is
// no bucket and no level holds limits.
func (c *call) balance(entity, resource string) ([]jsonview.Status, error) {
	_, statuses, err := jsonview.ReadStatuses(c.ctx, c.lim, entity, resource)
	if errors.Is(err, limiter.ErrNoLimits) {
		err = nil
	}

	// A parent's bucket stays as it was.
	own := slices.DeleteFunc(statuses, func(s limiter.Status) bool { return s.Entity != entity })
	return jsonview.NewStatuses(own, nil), err
}
