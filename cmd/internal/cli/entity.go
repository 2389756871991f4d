package cli

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newEntity(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := newGroup("entity", "Manage entities and their limits",
		`Manage entities, such as API keys, users and projects. An entity needs a record
only for a parent, a name or metadata; limits and buckets work without one. An
entity created with --cascade is charged together with its parent.`)

	conn.addNamespace(cmd)
	cmd.AddCommand(
		newEntityCreate(conn), newEntityShow(conn), newEntityList(conn), newEntityChildren(conn), newEntityDelete(conn),
		newEntitySetLimits(conn), newEntityGetLimits(conn), newEntityDeleteLimits(conn), newEntityListResources(conn),
		newEntityBuckets(conn), newEntityStatus(conn),
		newEntityDisable(conn), newEntityEnable(conn), newEntityReset(conn), newEntityTopUp(conn),
	)

	return cmd
}

// entityListing describes how to print entities. It finds their switches in off,
// which may hold the switches of others, too.
func entityListing(nothing string, off []limiter.Switch) listing[limiter.Entity] {
	switches := map[string][]limiter.Switch{}
	for _, s := range off {
		switches[s.Scope.Entity] = append(switches[s.Scope.Entity], s)
	}

	return listing[limiter.Entity]{
		entityColumns,
		func(e limiter.Entity) []cell {
			return []cell{
				text(e.ID), text(e.Name), text(e.Parent), yesNo(e.Cascade), moment(e.CreatedAt),
				disabledSince(switches[e.ID]),
			}
		},
		func(e limiter.Entity) any {
			object := jsonview.NewEntity(e)
			object.Disabled = jsonview.NewSwitches(switches[e.ID])
			return object
		},
		nothing,
	}
}

var entityColumns = []column{
	{title: "entity"},
	{title: "name"},
	{title: "parent"},
	{title: "cascade", whole: true},
	{title: "created", whole: true},
	disabledColumn,
}

// disabledColumn is the column of disabledSince.
var disabledColumn = column{title: "disabled since", whole: true, extra: true}

// disabledSince returns the cell with the time since when an entity is off, if it
// is off for all resources.
func disabledSince(off []limiter.Switch) cell {
	for _, s := range off {
		if s.Scope.Resource == "" {
			return moment(s.Since)
		}
	}
	return text("")
}

type entityCreateOptions struct {
	*connection
	entity limiter.Entity
}

func newEntityCreate(conn *connection) *cobra.Command {
	o := entityCreateOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "create ENTITY",
		Short: "Create an entity",
		Long: `Create the record of an entity. The parent and --cascade cannot be changed
later; delete and create the entity for that.

The parent need not exist yet; a missing one causes a warning. With --cascade
the parent is charged by its own limits, else by the defaults of the resource,
else by the defaults of the system. To limit all children together, set limits
with "entity set-limits PARENT". "zae-limiter explain" shows the level at which
each limit is stored.`,
		Example: `  zae-limiter entity create project-1 --display-name "Project One"
  zae-limiter entity create key-abc --parent project-1 --cascade --metadata a=b`,
		Args: arguments(entityArg(&o.entity.ID)),
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntityCreate(cmd.Context(), o) },
	}

	flags := cmd.Flags()
	flags.StringVar(&o.entity.Name, "display-name", "", "display `name` (default: the ID)")
	flags.StringVar(&o.entity.Parent, "parent", "", "parent `entity`")
	_ = cmd.RegisterFlagCompletionFunc("parent", conn.completeEntities)

	flags.BoolVar(&o.entity.Cascade, "cascade", false, "charge the parent together with this entity")
	no := flags.VarPF(&negatedFlag{&o.entity.Cascade}, "no-cascade", "", "charge this entity alone (default)")
	no.NoOptDefVal = "true"
	flags.Var(&pairs{"metadata", &o.entity.Metadata}, "metadata", "metadata `KEY=VALUE`; repeatable")

	conn.addPrincipal(cmd)
	return cmd
}

func runEntityCreate(ctx context.Context, o entityCreateOptions) error {
	if o.entity.Cascade && o.entity.Parent == "" {
		return usagef("--cascade needs --parent, the entity to charge too")
	}

	if err := o.entity.Validate(); err != nil {
		return usagef("%v", err)
	}

	return o.withStore(ctx, accessCreate, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		// The parent is read first, so that an error of the store creates nothing.
		orphan, err := o.lacksParent(ctx, lim)
		if err != nil {
			return err
		}

		e, err := lim.CreateEntity(ctx, o.entity)
		if err != nil {
			return err
		}

		switch {
		case e.Cascade:
			o.done("Created entity %s %s, charged together with its parent %s", e.ID, o.location(), e.Parent)
		case e.Parent != "":
			o.done("Created entity %s %s, whose parent is %s", e.ID, o.location(), e.Parent)
		default:
			o.done("Created entity %s %s", e.ID, o.location())
		}

		switch {
		case orphan && e.Cascade:
			o.warn("entity %s has no record, but is charged, by its own limits or by defaults; %s creates the record",
				e.Parent, o.suggestion("entity", "create", e.Parent))
		case orphan:
			o.warn("entity %s has no record; %s creates it", e.Parent, o.suggestion("entity", "create", e.Parent))
		}
		return nil
	})
}

// lacksParent reports whether the parent of the entity has no record. The name may
// be a typo.
func (o entityCreateOptions) lacksParent(ctx context.Context, lim *limiter.RateLimiter) (bool, error) {
	if o.entity.Parent == "" {
		return false, nil
	}
	_, err := lim.Entity(ctx, o.entity.Parent)
	// The parent may be created later, so a missing one causes only a warning.
	if errors.Is(err, limiter.ErrNotFound) {
		return true, nil
	}
	return false, err
}

type entityShowOptions struct {
	*connection
	id   string
	json bool
}

func newEntityShow(conn *connection) *cobra.Command {
	o := entityShowOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "show ENTITY",
		Aliases:           []string{"get"},
		Short:             "Show an entity",
		Long:              "Show the record of an entity: its name, parent and metadata.",
		Example:           "  zae-limiter entity show key-abc\n  zae-limiter entity show key-abc --json",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityShow(cmd.Context(), o) },
	}
	addJSON[jsonview.Entity](cmd, &o.json, anObject, nil)
	return cmd
}

func runEntityShow(ctx context.Context, o entityShowOptions) error {
	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		e, err := lim.Entity(ctx, o.id)
		if err != nil {
			return err
		}

		off, err := jsonview.ReadSwitches(ctx, lim, e)
		if err != nil {
			return err
		}

		object := jsonview.NewEntity(e)
		object.Disabled = jsonview.NewSwitches(off)
		return printProperties(o.console, o.json, append(entityProperties(e), switchProperties(off)...), object)
	})
}

// switchProperties returns a property for each level that is off.
func switchProperties(off []limiter.Switch) []property {
	var properties []property

	for _, s := range off {
		properties = append(properties, property{"disabled", text(s.Refuse("", "").Error())})
	}
	return properties
}

func entityProperties(e limiter.Entity) []property {
	properties := []property{
		{"entity", text(e.ID)},
		{"name", text(e.Name)},
		{"parent", text(e.Parent)},
		{"cascade", yesNo(e.Cascade)},
		{"created", moment(e.CreatedAt)},
	}

	metadata := ""
	if len(e.Metadata) > 0 {
		// Marshalling strings cannot fail.
		encoded, _ := json.Marshal(e.Metadata)
		metadata = string(encoded)
	}
	return append(properties, property{"metadata", text(metadata)})
}

type entityListOptions struct {
	*connection
	withLimits string
	limit      int
	json       bool
}

func newEntityList(conn *connection) *cobra.Command {
	o := entityListOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List entities",
		Long: `List the entities that have a record, by ID. With --with-custom-limits, list the
entities that have limits of their own for a resource, with or without a record;
"_default_" selects those with limits for all resources.`,
		Example: `  zae-limiter entity list
  zae-limiter entity list --with-custom-limits gpt-4
  zae-limiter entity list --json | jq -r '.[].entity_id'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntityList(cmd.Context(), o) },
	}

	cmd.Flags().StringVar(&o.withLimits, "with-custom-limits", "",
		"only entities with limits of their own for this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("with-custom-limits", conn.completeLimitedResources)
	addRowLimit(cmd, &o.limit, "", 0)
	addJSON[jsonview.Entity](cmd, &o.json, anArray, entityColumns)
	cmd.Long += "\nWith --with-custom-limits, only the ID is printed."
	return cmd
}

func runEntityList(ctx context.Context, o entityListOptions) error {
	resource, err := orAllResources(o.withLimits)
	if err != nil {
		return err
	}

	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		var err error
		more := false

		if o.withLimits == "" {
			rows := jsonview.First(lim.Entities(ctx), o.limit, func(limiter.Entity) { more = true })
			err = o.printEntities(ctx, lim, o.json, rows, "There are no entities with a record.")
		} else {
			rows := jsonview.First(lim.EntitiesWithLimits(ctx, resource), o.limit, func(string) { more = true })
			err = idListing("No entity has limits of its own for "+o.withLimits+".").print(o.console, o.json, rows)
		}

		if err == nil && more {
			o.say("There are more; --limit 0 shows all.")
		}

		return err
	})
}

// printEntities prints entities, and which of them are off.
func (conn *connection) printEntities(
	ctx context.Context, lim *limiter.RateLimiter, asJSON bool, rows iter.Seq2[limiter.Entity, error],
	nothing string,
) error {
	off, err := collect(lim.Switches(ctx))
	if err != nil {
		return err
	}

	return entityListing(nothing, off).print(conn.console, asJSON, rows)
}

// idListing describes how to print the IDs of entities.
func idListing(nothing string) listing[string] {
	return listing[string]{
		[]column{{title: "entity"}},
		func(id string) []cell { return []cell{text(id)} },
		func(id string) any { return jsonview.EntityID{ID: id} },
		nothing,
	}
}

type entityChildrenOptions struct {
	*connection
	parent string
	json   bool
}

func newEntityChildren(conn *connection) *cobra.Command {
	o := entityChildrenOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "children ENTITY",
		Short:             "List the children of an entity",
		Long:              "List the entities whose parent is the given entity, by ID.",
		Example:           "  zae-limiter entity children project-1",
		Args:              arguments(entityArg(&o.parent)),
		ValidArgsFunction: conn.completeEntity,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withStore(cmd.Context(), accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				return o.printEntities(cmd.Context(), lim, o.json, lim.Children(cmd.Context(), o.parent),
					o.parent+" has no children.")
			})
		},
	}
	addJSON[jsonview.Entity](cmd, &o.json, anArray, entityColumns)
	return cmd
}

type entityDeleteOptions struct {
	*connection
	id  string
	yes bool
}

func newEntityDelete(conn *connection) *cobra.Command {
	o := entityDeleteOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "delete ENTITY",
		Aliases: []string{"rm"},
		Short:   "Delete an entity with its limits, buckets and usage",
		Long: `Delete the record of an entity, its limits, its buckets and its usage. Its audit
events and its children stay.`,
		Example:           "  zae-limiter entity delete key-abc\n  zae-limiter entity delete key-abc --yes",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityDelete(cmd.Context(), o) },
	}
	addYes(cmd, &o.yes)
	conn.addPrincipal(cmd)
	return cmd
}

func runEntityDelete(ctx context.Context, o entityDeleteOptions) error {
	if err := o.confirm(ctx, o.yes, "Delete entity "+o.id+" with its limits, buckets and usage"); err != nil {
		return err
	}

	return o.withStore(ctx, accessChange, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteEntity(ctx, o.id); err != nil {
			return err
		}
		o.done("Deleted entity %s %s", o.id, o.location())
		return nil
	})
}

// collect returns the values of a sequence, or its first error.
func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// orAllResources validates the resource of a flag. It returns "" for all
// resources, as the limiter does.
func orAllResources(name string) (string, error) {
	// The limiter calls the level of all resources "", and commands call it
	// _default_.
	if name == "" || name == jsonview.AllResources {
		return "", nil
	}
	if err := checkResource(name); err != nil {
		return "", usagef("%v", err)
	}
	return name, nil
}

// ofResource returns an entity and a resource for a message.
func ofResource(entity, resource string) string {
	if resource == "" {
		return entity + " for all resources"
	}
	return entity + " for " + resource
}
