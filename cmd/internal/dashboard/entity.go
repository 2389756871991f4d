package dashboard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// EntityView is everything about one entity, as JSON.
type EntityView struct {
	Entity    *EntityRecord `json:"entity"` // null without a record
	Levels    []Level       `json:"levels"`
	InForce   []InForce     `json:"in_force"`
	Rows      []Row         `json:"rows"`
	Resources []string      `json:"resources"`
	Ancestors []ancestor    `json:"ancestors"`
	// Disabled holds the levels that are off and refuse calls of the entity.
	Disabled []jsonview.Switch `json:"disabled"`
}

// EntityRecord is the record of an entity, as JSON.
type EntityRecord struct {
	Entity    string            `json:"entity"`
	Name      string            `json:"name"`
	Parent    string            `json:"parent"`
	Cascade   bool              `json:"cascade"`
	Metadata  map[string]string `json:"metadata"`
	CreatedAt *time.Time        `json:"created_at"`
}

// Level is a level that stores limits, as JSON.
type Level struct {
	Source
	Limits []jsonview.Limit `json:"limits"`
}

// InForce is the level that provides the limits of a resource, as JSON.
type InForce struct {
	Resource string           `json:"resource"`
	Level    string           `json:"level"`  // "" if no level has limits
	Source   *Source          `json:"source"` // null if no level has limits
	Limits   []jsonview.Limit `json:"limits"`
}

// Bounds of the resources whose levels an entity shows. Each costs two reads.
const maxEntityResources, maxBilledResources = 100, 25

func newRecord(e limiter.Entity) EntityRecord {
	metadata := e.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return EntityRecord{e.ID, e.Name, e.Parent, e.Cascade, metadata, jsonview.TimeOrNull(e.CreatedAt)}
}

func entity(c *call) (any, error) {
	id := c.param("id")
	if err := (limiter.Entity{ID: id}).Validate(); err != nil {
		return nil, err
	}

	var v EntityView
	e, err := c.lim.Entity(c.ctx, id)
	switch {
	case err == nil:
		record := newRecord(e)
		v.Entity = &record
		c.learn(e)
	case !errors.Is(err, limiter.ErrNotFound):
		return nil, err
	}

	if v.Rows, err = c.entityRows(c.ctx, id); err != nil {
		return nil, err
	}

	if err := c.addLevels(&v, id); err != nil {
		return nil, err
	}

	// Levels of an ancestor refuse calls of the entity only if the ancestor is
	// charged with them.
	var above []limiter.Entity
	if off := c.off(c.ctx); len(off) > 0 && e.Cascade {
		chain, err := c.lim.Chain(c.ctx, id)
		if err != nil {
			return nil, outage(err)
		}
		above = chain[1:]
	}

	v.Disabled = c.off(c.ctx).of(id, above, v.Resources...)

	// An ID without a record may still be in use. Looking for usage and
	// children costs reads, so it comes last.
	if v.Entity == nil && len(v.Rows) == 0 && len(v.Disabled) == 0 && !slices.ContainsFunc(v.Levels,
		func(l Level) bool {
			return l.Entity == id
		}) {
		if err := c.checkTraces(id); err != nil {
			return nil, err
		}
	}

	related := []Row{{Parent: e.Parent}}
	v.Ancestors = c.ancestors(c.ctx, related, c.pace.patience)
	return v, nil
}

// entityRows returns the buckets of an entity.
func (s *space) entityRows(ctx context.Context, id string) ([]Row, error) {
	var buckets []limiter.Bucket
	for b, err := range s.repo.Buckets(ctx, s.now(), limiter.Scope{Entity: id}) {
		if err != nil {
			return nil, outage(err)
		}
		if buckets = append(buckets, b); len(buckets) == mostRows {
			break
		}
	}
	return s.rows(ctx, buckets, s.pace.patience), nil
}

// addLevels adds the levels that concern an entity, and for each resource the level
// that is in force.
func (c *call) addLevels(v *EntityView, id string) error {
	own, err := c.lim.ResourcesWithLimits(c.ctx)
	if err != nil {
		return err
	}

	shared, err := c.lim.ResourcesWithDefaults(c.ctx)
	if err != nil {
		return err
	}

	var used []string
	for _, r := range v.Rows {
		used = append(used, r.Resource)
	}

	most := maxEntityResources
	if c.billed() {
		most = maxBilledResources
	}

	v.Resources = firstNames(most, used, own, shared)
	v.Levels, v.InForce = []Level{}, []InForce{}

	listed := map[limiter.Scope]bool{}
	for _, resource := range v.Resources {
		force := InForce{Resource: resource, Limits: []jsonview.Limit{}}
		for _, scope := range limiter.Precedence(id, resource) {
			cfg, err := c.configs.get(c.ctx, scope)
			if err != nil {
				return err
			}
			if len(cfg.Limits) == 0 {
				continue
			}
			level := Level{newSource(scope), jsonview.NewLimits(cfg.Limits)}

			// Resources share the levels of the entity and of the system.
			if !listed[scope] {
				listed[scope] = true
				v.Levels = append(v.Levels, level)
			}

			// The first level that holds limits provides all of them.
			if force.Source == nil {
				force.Level, force.Source, force.Limits = level.Level, &level.Source, level.Limits
			}
		}

		v.InForce = append(v.InForce, force)
	}

	// Without resources, no turn of the loop has looked at the levels that hold
	// for all of them.
	if len(v.Resources) == 0 {
		return c.addGeneralLevels(v, id)
	}

	slices.SortStableFunc(v.Levels, func(a, b Level) int {
		return cmp.Or(cmp.Compare(rank(a.Source), rank(b.Source)), cmp.Compare(a.Resource, b.Resource))
	})
	return nil
}

// rank returns the place of a level in the order of precedence.
func rank(s Source) int {
	return slices.Index([]string{"entity", "entity_default", "resource", "system"}, s.Level)
}

// addGeneralLevels adds the levels that hold for all resources.
func (c *call) addGeneralLevels(v *EntityView, id string) error {
	// The other two levels name a resource.
	for _, scope := range []limiter.Scope{{Entity: id}, {}} {
		cfg, err := c.configs.get(c.ctx, scope)
		if err != nil {
			return err
		}
		if len(cfg.Limits) > 0 {
			v.Levels = append(v.Levels, Level{newSource(scope), jsonview.NewLimits(cfg.Limits)})
		}
	}

	return nil
}

// firstNames returns the first names of lists, each once, sorted, without "".
func firstNames(most int, lists ...[]string) []string {
	names := []string{}
	found := map[string]bool{"": true}
	for _, list := range lists {
		for _, name := range list {
			if !found[name] && len(names) < most {
				found[name] = true
				names = append(names, name)
			}
		}
	}

	slices.Sort(names)
	return names
}

// checkTraces returns a problem unless an entity has usage or children.
func (c *call) checkTraces(id string) error {
	// The first child, or an error, decides; all children would cost more
	// reads.
	for _, err := range c.lim.Children(c.ctx, id) {
		return err
	}

	for _, err := range c.lim.Usage(c.ctx, limiter.UsageQuery{Entity: id}) {
		return err
	}

	return missing("there is no record, bucket, limit or usage of the entity %q", web.Clip(id))
}
