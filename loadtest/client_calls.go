package loadtest

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

// measure makes a call that returns only an error and reports it.
func (c *Client) measure(kind, name string, call func() error) error {
	start := c.begin()
	err := call()
	c.end(kind, name, start, err)
	return err
}

// measured makes a call that returns a value and reports it.
func measured[T any](c *Client, kind, name string, call func() (T, error)) (T, error) {
	start := c.begin()
	value, err := call()
	c.end(kind, name, start, err)
	return value, err
}

// SetLimits replaces the limits of an entity for a resource.
func (c *Client) SetLimits(ctx context.Context, entity, resource string, limits ...limiter.Limit) error {
	return c.measure(SetLimits, resource, func() error { return c.limiter.SetLimits(ctx, entity, resource, limits...) })
}

// Limits returns the limits stored for exactly this entity and resource.
func (c *Client) Limits(ctx context.Context, entity, resource string) ([]limiter.Limit, error) {
	return measured(c, GetLimits, resource, func() ([]limiter.Limit, error) {
		return c.limiter.Limits(ctx, entity, resource)
	})
}

// DeleteLimits deletes the limits stored for exactly this entity and resource.
func (c *Client) DeleteLimits(ctx context.Context, entity, resource string) error {
	return c.measure(DeleteLimits, resource, func() error { return c.limiter.DeleteLimits(ctx, entity, resource) })
}

// SetResourceDefaults replaces the limits of a resource.
func (c *Client) SetResourceDefaults(ctx context.Context, resource string, limits ...limiter.Limit) error {
	return c.measure(SetResourceDefaults, resource, func() error {
		return c.limiter.SetResourceDefaults(ctx, resource, limits...)
	})
}

// ResourceDefaults returns the limits of a resource.
func (c *Client) ResourceDefaults(ctx context.Context, resource string) ([]limiter.Limit, error) {
	return measured(c, GetResourceDefaults, resource, func() ([]limiter.Limit, error) {
		return c.limiter.ResourceDefaults(ctx, resource)
	})
}

// DeleteResourceDefaults deletes the limits of a resource.
func (c *Client) DeleteResourceDefaults(ctx context.Context, resource string) error {
	return c.measure(DeleteResourceDefaults, resource, func() error {
		return c.limiter.DeleteResourceDefaults(ctx, resource)
	})
}

// SetSystemDefaults replaces the limits of the system.
func (c *Client) SetSystemDefaults(ctx context.Context, limits ...limiter.Limit) error {
	return c.measure(SetSystemDefaults, SystemName, func() error { return c.limiter.SetSystemDefaults(ctx, limits...) })
}

// SystemDefaults returns the limits of the system.
func (c *Client) SystemDefaults(ctx context.Context) ([]limiter.Limit, error) {
	return measured(c, GetSystemDefaults, SystemName, func() ([]limiter.Limit, error) {
		limits, _, err := c.limiter.SystemDefaults(ctx)
		return limits, err
	})
}

// DeleteSystemDefaults deletes the limits of the system.
func (c *Client) DeleteSystemDefaults(ctx context.Context) error {
	return c.measure(DeleteSystemDefaults, SystemName, func() error { return c.limiter.DeleteSystemDefaults(ctx) })
}

// ResourcesWithDefaults returns the resources that have limits, sorted.
func (c *Client) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return measured(c, ListResources, SystemName, func() ([]string, error) {
		return c.limiter.ResourcesWithDefaults(ctx)
	})
}

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
