package loadtest

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

// CreateEntity stores a new entity and returns it as stored.
func (c *Client) CreateEntity(ctx context.Context, e limiter.Entity) (limiter.Entity, error) {
	return measured(c, CreateEntity, EntityName, func() (limiter.Entity, error) {
		return c.limiter.CreateEntity(ctx, e)
	})
}

// Entity returns the record of an entity.
func (c *Client) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	return measured(c, GetEntity, EntityName, func() (limiter.Entity, error) { return c.limiter.Entity(ctx, id) })
}

// DeleteEntity deletes an entity with its limits, buckets and usage.
func (c *Client) DeleteEntity(ctx context.Context, id string) error {
	return c.measure(DeleteEntity, EntityName, func() error { return c.limiter.DeleteEntity(ctx, id) })
}

// Children returns the entities with the given parent, in ID order.
func (c *Client) Children(ctx context.Context, parent string) ([]limiter.Entity, error) {
	return measured(c, GetChildren, EntityName, func() ([]limiter.Entity, error) {
		var all []limiter.Entity
		for e, err := range c.limiter.Children(ctx, parent) {
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		return all, nil
	})
}
