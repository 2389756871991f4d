package dashboard

import (
	"github.com/zeroae/zae-limiter-go"
)

// Children is a part of the children of an entity with their buckets, as JSON.
type Children struct {
	Children []EntityRecord `json:"children"`
	Rows     []Row          `json:"rows"`
	Next     string         `json:"next"`
}

// Bounds of a part of the children.
const usualChildren, mostChildren = 50, 100

func children(c *call) (any, error) {
	id := c.param("id")
	limit, err := c.limit(usualChildren, mostChildren)
	if err != nil {
		return nil, err
	}

	after := c.param("after")
	answer := Children{Children: []EntityRecord{}, Rows: []Row{}}

	// The store lists children from the first one on, so a later part passes
	// the earlier ones again.
	for e, err := range c.lim.Children(c.ctx, id) {
		if err != nil {
			return nil, err
		}
		if after != "" && e.ID <= after {
			continue
		}

		if len(answer.Children) == limit {
			answer.Next = answer.Children[limit-1].Entity
			break
		}

		answer.Children = append(answer.Children, newRecord(e))
		c.learn(e)
	}

	var buckets []limiter.Bucket
	for _, child := range answer.Children {
		for b, err := range c.repo.Buckets(c.ctx, c.now(), limiter.Scope{Entity: child.Entity}) {
			if err != nil {
				return nil, outage(err)
			}
			buckets = append(buckets, b)
		}

		// The check comes between two children, so that a child is shown with
		// all of its buckets.
		if len(buckets) > mostRows {
			break
		}
	}

	answer.Rows = c.rows(c.ctx, buckets, c.pace.patience)
	return answer, nil
}
