package server

import (
	"iter"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

var (
	afterEntity       = web.Parameter{Name: "after", Schema: "After", Doc: "only entities after this ID"}
	resourceParameter = web.Parameter{
		Name: "resource", Schema: "ResourceOrAll",
		Doc: "resource of the limits; default: limits for all resources",
	}
	onlyResource = web.Parameter{Name: "resource", Schema: "ResourceOrAll", Doc: "only this resource"}
)

// readRoutes returns the reads of entities, limits and buckets, in the shapes of
// the command line.
func readRoutes() []route {
	return []route{
		get("listEntities", "/v1/entities", "List entities", RoleRead, []web.Parameter{afterEntity, limitParameter},
			listEntities),
		get("getEntity", "/v1/entities/{id}", "Show an entity", RoleRead, nil, showEntity),
		get("listChildren", "/v1/entities/{id}/children", "List the children of an entity", RoleRead,
			[]web.Parameter{afterEntity, limitParameter}, listChildren),
		get("getEntityLimits", "/v1/entities/{id}/limits", "Show the limits stored for exactly this entity",
			RoleRead, []web.Parameter{resourceParameter}, entityLimits),
		get("listBuckets", "/v1/entities/{id}/buckets", "List the tokens in the buckets of an entity", RoleRead,
			[]web.Parameter{onlyResource, limitParameter}, entityBuckets),
		get("getStatus", "/v1/entities/{id}/status", "Show what an entity has used and has left", RoleRead,
			[]web.Parameter{onlyResource}, entityStatus),
		get("listLimitedEntities", "/v1/limited-entities", "List the entities with limits of their own", RoleRead,
			[]web.Parameter{resourceParameter, afterEntity, limitParameter}, limitedEntities),
		get("listLimitedResources", "/v1/limited-resources", "List the resources for which entities have limits",
			RoleRead, nil, limitedResources),
		get("listResources", "/v1/resources", "List the resources with defaults", RoleRead, nil, listResources),
		get("getResourceLimits", "/v1/resources/{id}/limits", "Show the defaults of a resource", RoleRead, nil,
			resourceLimits),
		get("getResourceCapacity", "/v1/resources/{id}/capacity",
			"Show one limit of a resource across all entities", RoleRead, []web.Parameter{
				{Name: "limit_name", Schema: "LimitName", Doc: "name of the limit", Required: true},
				{
					Name: "parents_only", Words: []string{"true", "false"},
					Doc: "whether to omit children and entities without a record",
				},
			}, resourceCapacity),
		get("getSystemLimits", "/v1/system/limits", "Show the defaults of the system", RoleRead, nil, systemLimits),
		get("listNamespaces", "/v1/namespaces", "List the namespaces of the store", RoleAdmin,
			[]web.Parameter{{Name: "after", Schema: "After", Doc: "only namespaces after this name"}, limitParameter},
			listNamespaces),
	}
}

func entityID(e limiter.Entity) string { return e.ID }

func listEntities(c *call) ([]jsonview.Entity, error) { return c.listed(c.lim.Entities(c.ctx)) }

// listed returns a page of entities, each with its own levels that are off.
func (c *call) listed(entities iter.Seq2[limiter.Entity, error]) ([]jsonview.Entity, error) {
	// One read of all switches serves the whole page.
	off := map[string][]limiter.Switch{}
	for s, err := range c.lim.Switches(c.ctx) {
		if err != nil {
			return nil, err
		}
		off[s.Scope.Entity] = append(off[s.Scope.Entity], s)
	}

	shape := func(e limiter.Entity) jsonview.Entity {
		shown := jsonview.NewEntity(e)
		shown.Disabled = jsonview.NewSwitches(off[e.ID])
		return shown
	}

	return collect(c, skipTo(entities, c.param("after"), entityID), shape, "after", entityID)
}

func showEntity(c *call) (jsonview.Entity, error) {
	id, err := c.entity()
	if err != nil {
		return jsonview.Entity{}, err
	}

	e, err := c.lim.Entity(c.ctx, id)
	if err != nil {
		return jsonview.Entity{}, err
	}

	chain, err := c.lim.Chain(c.ctx, id)
	if err != nil {
		return jsonview.Entity{}, err
	}

	off, err := jsonview.ReadSwitches(c.ctx, c.lim, chain)
	shown := jsonview.NewEntity(e)
	shown.Disabled = jsonview.NewSwitches(off)
	return shown, err
}

func listChildren(c *call) ([]jsonview.Entity, error) {
	id, err := c.entity()
	if err != nil {
		return nil, err
	}
	return c.listed(c.lim.Children(c.ctx, id))
}

func entityLimits(c *call) ([]jsonview.Limit, error) {
	id, err := c.entity()
	if err != nil {
		return nil, err
	}
	resource, err := c.resource()
	if err != nil {
		return nil, err
	}

	stored, err := c.lim.Limits(c.ctx, id, resource)
	return jsonview.NewLimits(stored), err
}

func entityBuckets(c *call) ([]jsonview.Tokens, error) {
	id, err := c.entity()
	if err != nil {
		return nil, err
	}
	resource, err := c.resource()
	if err != nil {
		return nil, err
	}

	return collect(c, jsonview.ReadBuckets(c.ctx, c.server.opts.Now(), c.lim, c.repo, id, resource), jsonview.NewTokens,
		"", nil)
}

func entityStatus(c *call) (jsonview.Owner, error) {
	id, err := c.entity()
	if err != nil {
		return jsonview.Owner{}, err
	}
	resource, err := c.resource()
	if err != nil {
		return jsonview.Owner{}, err
	}

	chain, statuses, err := jsonview.ReadStatuses(c.ctx, c.lim, id, resource)
	if err != nil {
		return jsonview.Owner{}, err
	}

	resources := []string{resource}
	for _, s := range statuses {
		resources = append(resources, s.Resource)
	}

	off, err := jsonview.ReadSwitches(c.ctx, c.lim, chain, resources...)
	if err != nil {
		return jsonview.Owner{}, err
	}

	used, err := jsonview.ReadUsed(c.ctx, c.lim, c.server.opts.Now(), statuses)
	return jsonview.NewOwner(id, chain[0], statuses, used, off...), err
}

func limitedEntities(c *call) ([]jsonview.EntityID, error) {
	resource, err := c.resource()
	if err != nil {
		return nil, err
	}
	self := func(id string) string { return id }
	shape := func(id string) jsonview.EntityID { return jsonview.EntityID{ID: id} }
	return collect(c, skipTo(c.lim.EntitiesWithLimits(c.ctx, resource), c.param("after"), self), shape, "after", self)
}

func namedResources(names []string, err error) ([]jsonview.Resource, error) {
	all := make([]jsonview.Resource, len(names))
	for i, name := range names {
		all[i] = jsonview.Resource{Name: jsonview.OrAllResources(name)}
	}

	return all, err
}

func limitedResources(c *call) ([]jsonview.Resource, error) {
	return namedResources(c.lim.ResourcesWithLimits(c.ctx))
}

func listResources(c *call) ([]jsonview.Resource, error) {
	all, err := namedResources(c.lim.ResourcesWithDefaults(c.ctx))
	if err != nil {
		return nil, err
	}

	off := map[limiter.Scope]*jsonview.Switch{}
	for s, err := range c.lim.Switches(c.ctx) {
		if err != nil {
			return nil, err
		}
		// A switch of one entity does not disable the resource for others.
		if s.Scope.Entity == "" {
			off[s.Scope] = jsonview.SwitchOrNull(&s)
		}
	}

	for i := range all {
		all[i].Disabled = off[limiter.Scope{Resource: all[i].Name}]
	}
	return all, nil
}

func resourceLimits(c *call) ([]jsonview.Limit, error) {
	stored, err := c.lim.ResourceDefaults(c.ctx, c.Request.PathValue("id"))
	return jsonview.NewLimits(stored), err
}

func resourceCapacity(c *call) ([]jsonview.Status, error) {
	sum, err := c.lim.Capacity(c.ctx, limiter.CapacityQuery{
		Resource: c.Request.PathValue("id"), Limit: c.param("limit_name"),
		ParentsOnly: c.param("parents_only") == "true",
	})
	return jsonview.NewStatuses(sum.Entities, nil), err
}

func systemLimits(c *call) (jsonview.System, error) {
	stored, mode, err := c.lim.SystemDefaults(c.ctx)
	if err != nil {
		return jsonview.System{}, err
	}

	off, err := jsonview.ReadSwitch(c.ctx, c.lim, limiter.Scope{})
	shown := jsonview.NewSystem(stored, mode)
	shown.Disabled = jsonview.SwitchOrNull(off)
	return shown, err
}

func listNamespaces(c *call) ([]jsonview.Namespace, error) {
	name := func(n limiter.Namespace) string { return n.Name }

	active := func(yield func(limiter.Namespace, error) bool) {
		for n, err := range c.lim.Namespaces(c.ctx) {
			if (err != nil || jsonview.StateOf(n) == "active") && !yield(n, err) {
				return
			}
		}
	}

	return collect(c, skipTo(active, c.param("after"), name), jsonview.NewNamespace, "after", name)
}
