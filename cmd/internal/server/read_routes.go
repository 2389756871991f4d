package server

import (
	"iter"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/answer"
)

var (
	afterEntity       = parameter{name: "after", schema: "After", doc: "only entities after this ID"}
	resourceParameter = parameter{
		name: "resource", schema: "ResourceOrAll",
		doc: "resource of the limits; default: limits for all resources",
	}
	onlyResource = parameter{name: "resource", schema: "ResourceOrAll", doc: "only this resource"}
)

// readRoutes returns the reads of entities, limits and buckets, in the shapes of
// the command line.
func readRoutes() []route {
	return []route{
		get("listEntities", "/v1/entities", "List entities", RoleRead, []parameter{afterEntity, limitParameter},
			listEntities),
		get("getEntity", "/v1/entities/{id}", "Show an entity", RoleRead, nil, showEntity),
		get("listChildren", "/v1/entities/{id}/children", "List the children of an entity", RoleRead,
			[]parameter{afterEntity, limitParameter}, listChildren),
		get("getEntityLimits", "/v1/entities/{id}/limits", "Show the limits stored for exactly this entity",
			RoleRead, []parameter{resourceParameter}, entityLimits),
		get("listBuckets", "/v1/entities/{id}/buckets", "List the tokens in the buckets of an entity", RoleRead,
			[]parameter{onlyResource, limitParameter}, entityBuckets),
		get("getStatus", "/v1/entities/{id}/status", "Show what an entity has used and has left", RoleRead,
			[]parameter{onlyResource}, entityStatus),
		get("listLimitedEntities", "/v1/limited-entities", "List the entities with limits of their own", RoleRead,
			[]parameter{resourceParameter, afterEntity, limitParameter}, limitedEntities),
		get("listLimitedResources", "/v1/limited-resources", "List the resources for which entities have limits",
			RoleRead, nil, limitedResources),
		get("listResources", "/v1/resources", "List the resources with defaults", RoleRead, nil, listResources),
		get("getResourceLimits", "/v1/resources/{id}/limits", "Show the defaults of a resource", RoleRead, nil,
			resourceLimits),
		get("getResourceCapacity", "/v1/resources/{id}/capacity",
			"Show one limit of a resource across all entities", RoleRead, []parameter{
				{name: "limit_name", schema: "LimitName", doc: "name of the limit", required: true},
				{
					name: "parents_only", words: []string{"true", "false"},
					doc: "whether to omit children and entities without a record",
				},
			}, resourceCapacity),
		get("getSystemLimits", "/v1/system/limits", "Show the defaults of the system", RoleRead, nil, systemLimits),
		get("listNamespaces", "/v1/namespaces", "List the namespaces of the store", RoleAdmin,
			[]parameter{{name: "after", schema: "After", doc: "only namespaces after this name"}, limitParameter},
			listNamespaces),
	}
}

func entityID(e limiter.Entity) string { return e.ID }

func listEntities(c *call) ([]answer.Entity, error) { return c.listed(c.lim.Entities(c.ctx)) }

// listed returns a page of entities, each with its own levels that are off.
func (c *call) listed(entities iter.Seq2[limiter.Entity, error]) ([]answer.Entity, error) {
	// One read of all switches serves the whole page.
	off := map[string][]limiter.Switch{}
	for s, err := range c.lim.Switches(c.ctx) {
		if err != nil {
			return nil, err
		}
		off[s.Scope.Entity] = append(off[s.Scope.Entity], s)
	}

	shape := func(e limiter.Entity) answer.Entity {
		shown := answer.NewEntity(e)
		shown.Disabled = answer.NewSwitches(off[e.ID])
		return shown
	}

	return collect(c, skipTo(entities, c.param("after"), entityID), shape, "after", entityID)
}

func showEntity(c *call) (answer.Entity, error) {
	id, err := c.entity()
	if err != nil {
		return answer.Entity{}, err
	}

	e, err := c.lim.Entity(c.ctx, id)
	if err != nil {
		return answer.Entity{}, err
	}

	off, err := answer.ReadSwitches(c.ctx, c.lim, e)
	shown := answer.NewEntity(e)
	shown.Disabled = answer.NewSwitches(off)
	return shown, err
}

func listChildren(c *call) ([]answer.Entity, error) {
	id, err := c.entity()
	if err != nil {
		return nil, err
	}
	return c.listed(c.lim.Children(c.ctx, id))
}

func entityLimits(c *call) ([]answer.Limit, error) {
	id, err := c.entity()
	if err != nil {
		return nil, err
	}
	resource, err := c.resource()
	if err != nil {
		return nil, err
	}

	stored, err := c.lim.Limits(c.ctx, id, resource)
	return answer.NewLimits(stored), err
}

func entityBuckets(c *call) ([]answer.Tokens, error) {
	id, err := c.entity()
	if err != nil {
		return nil, err
	}
	resource, err := c.resource()
	if err != nil {
		return nil, err
	}

	return collect(c, answer.ReadBuckets(c.ctx, c.server.opts.Now(), c.lim, c.repo, id, resource), answer.NewTokens,
		"", nil)
}

func entityStatus(c *call) (answer.Owner, error) {
	id, err := c.entity()
	if err != nil {
		return answer.Owner{}, err
	}
	resource, err := c.resource()
	if err != nil {
		return answer.Owner{}, err
	}

	e, statuses, err := answer.ReadStatuses(c.ctx, c.lim, id, resource)
	if err != nil {
		return answer.Owner{}, err
	}

	resources := []string{resource}
	for _, s := range statuses {
		resources = append(resources, s.Resource)
	}
	// Switches may refuse an entity without a record.
	e.ID = id

	off, err := answer.ReadSwitches(c.ctx, c.lim, e, resources...)
	if err != nil {
		return answer.Owner{}, err
	}

	used, err := answer.ReadUsed(c.ctx, c.lim, c.server.opts.Now(), statuses)
	return answer.NewOwner(id, e, statuses, used, off...), err
}

func limitedEntities(c *call) ([]answer.EntityID, error) {
	resource, err := c.resource()
	if err != nil {
		return nil, err
	}
	self := func(id string) string { return id }
	shape := func(id string) answer.EntityID { return answer.EntityID{ID: id} }
	return collect(c, skipTo(c.lim.EntitiesWithLimits(c.ctx, resource), c.param("after"), self), shape, "after", self)
}

func namedResources(names []string, err error) ([]answer.Resource, error) {
	all := make([]answer.Resource, len(names))
	for i, name := range names {
		all[i] = answer.Resource{Name: answer.OrAllResources(name)}
	}

	return all, err
}

func limitedResources(c *call) ([]answer.Resource, error) {
	return namedResources(c.lim.ResourcesWithLimits(c.ctx))
}

func listResources(c *call) ([]answer.Resource, error) {
	all, err := namedResources(c.lim.ResourcesWithDefaults(c.ctx))
	if err != nil {
		return nil, err
	}

	off := map[limiter.Scope]*answer.Switch{}
	for s, err := range c.lim.Switches(c.ctx) {
		if err != nil {
			return nil, err
		}
		// A switch of one entity does not disable the resource for others.
		if s.Scope.Entity == "" {
			off[s.Scope] = answer.SwitchOrNull(&s)
		}
	}

	for i := range all {
		all[i].Disabled = off[limiter.Scope{Resource: all[i].Name}]
	}
	return all, nil
}

func resourceLimits(c *call) ([]answer.Limit, error) {
	stored, err := c.lim.ResourceDefaults(c.ctx, c.r.PathValue("id"))
	return answer.NewLimits(stored), err
}

func resourceCapacity(c *call) ([]answer.Status, error) {
	sum, err := c.lim.Capacity(c.ctx, limiter.CapacityQuery{
		Resource: c.r.PathValue("id"), Limit: c.param("limit_name"),
		ParentsOnly: c.param("parents_only") == "true",
	})
	return answer.NewStatuses(sum.Entities, nil), err
}

func systemLimits(c *call) (answer.System, error) {
	stored, mode, err := c.lim.SystemDefaults(c.ctx)
	if err != nil {
		return answer.System{}, err
	}

	off, err := answer.ReadSwitch(c.ctx, c.lim, limiter.Scope{})
	shown := answer.NewSystem(stored, mode)
	shown.Disabled = answer.SwitchOrNull(off)
	return shown, err
}

func listNamespaces(c *call) ([]answer.Namespace, error) {
	name := func(n limiter.Namespace) string { return n.Name }

	active := func(yield func(limiter.Namespace, error) bool) {
		for n, err := range c.lim.Namespaces(c.ctx) {
			if (err != nil || answer.StateOf(n) == "active") && !yield(n, err) {
				return
			}
		}
	}

	return collect(c, skipTo(active, c.param("after"), name), answer.NewNamespace, "after", name)
}
