package data

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newEntity(c *kit.Console) *cobra.Command {
	conn := &kit.Connection{Console: c}
	cmd := kit.NewGroup("entity", "Manage entities and their limits",
		`Manage entities, such as API keys, users and projects. An entity needs a record
only for a parent, a name or metadata; limits and buckets work without one. An
entity created with --cascade is charged together with its parent.`)

	conn.AddNamespace(cmd)
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
func entityListing(nothing string, off []limiter.Switch) kit.Listing[limiter.Entity] {
	switches := map[string][]limiter.Switch{}
	for _, s := range off {
		switches[s.Scope.Entity] = append(switches[s.Scope.Entity], s)
	}

	return kit.Listing[limiter.Entity]{
		Columns: entityColumns,
		Row: func(e limiter.Entity) []kit.Cell {
			return []kit.Cell{
				kit.Text(e.ID), kit.Text(e.Name), kit.Text(e.Parent), kit.YesNo(e.Cascade), kit.Moment(e.CreatedAt),
				disabledSince(switches[e.ID]),
			}
		},
		Object: func(e limiter.Entity) any {
			object := jsonview.NewEntity(e)
			object.Disabled = jsonview.NewSwitches(switches[e.ID])
			return object
		},
		Nothing: nothing,
	}
}

var entityColumns = []kit.Column{
	{Title: "entity"},
	{Title: "name"},
	{Title: "parent"},
	{Title: "cascade", Whole: true},
	{Title: "created", Whole: true},
	disabledColumn,
}

// disabledColumn is the column of disabledSince.
var disabledColumn = kit.Column{Title: "disabled since", Whole: true, Extra: true}

// disabledSince returns the cell with the time since when an entity is off, if it
// is off for all resources.
func disabledSince(off []limiter.Switch) kit.Cell {
	for _, s := range off {
		if s.Scope.Resource == "" {
			return kit.Moment(s.Since)
		}
	}
	return kit.Text("")
}

type entityCreateOptions struct {
	*kit.Connection
	entity limiter.Entity
}

func newEntityCreate(conn *kit.Connection) *cobra.Command {
	o := entityCreateOptions{Connection: conn}
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
		Args: kit.Arguments(entityArg(&o.entity.ID)),
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntityCreate(cmd.Context(), o) },
	}

	flags := cmd.Flags()
	flags.StringVar(&o.entity.Name, "display-name", "", "display `name` (default: the ID)")
	flags.StringVar(&o.entity.Parent, "parent", "", "parent `entity`")
	_ = cmd.RegisterFlagCompletionFunc("parent", conn.CompleteEntities)

	flags.BoolVar(&o.entity.Cascade, "cascade", false, "charge the parent together with this entity")
	no := flags.VarPF(&kit.NegatedFlag{Of: &o.entity.Cascade}, "no-cascade", "", "charge this entity alone (default)")
	no.NoOptDefVal = "true"
	flags.Var(&kit.Pairs{Flag: "metadata", All: &o.entity.Metadata}, "metadata", "metadata `KEY=VALUE`; repeatable")

	conn.AddPrincipal(cmd)
	return cmd
}

func runEntityCreate(ctx context.Context, o entityCreateOptions) error {
	if o.entity.Cascade && o.entity.Parent == "" {
		return kit.Usagef("--cascade needs --parent, the entity to charge too")
	}

	if err := o.entity.Validate(); err != nil {
		return kit.Usagef("%v", err)
	}

	return o.WithStore(ctx, kit.Create, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
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
			o.Done("Created entity %s %s, charged together with its parent %s", e.ID, o.Location(), e.Parent)
		case e.Parent != "":
			o.Done("Created entity %s %s, whose parent is %s", e.ID, o.Location(), e.Parent)
		default:
			o.Done("Created entity %s %s", e.ID, o.Location())
		}

		switch {
		case orphan && e.Cascade:
			o.Warn("entity %s has no record, but is charged, by its own limits or by defaults; %s creates the record",
				e.Parent, o.Suggestion("entity", "create", e.Parent))
		case orphan:
			o.Warn("entity %s has no record; %s creates it", e.Parent, o.Suggestion("entity", "create", e.Parent))
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
	*kit.Connection
	id   string
	json bool
}

func newEntityShow(conn *kit.Connection) *cobra.Command {
	o := entityShowOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "show ENTITY",
		Aliases: []string{"get"},
		Short:   "Show an entity",
		Long: "Show the record of an entity: its name, parent and metadata. An entity needs\nnone; " +
			"\"entity status\" shows limits and buckets with or without one.",
		Example:           "  zae-limiter entity show key-abc\n  zae-limiter entity show key-abc --json",
		Args:              kit.Arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.CompleteEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityShow(cmd.Context(), o) },
	}
	kit.AddJSON[jsonview.Entity](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

func runEntityShow(ctx context.Context, o entityShowOptions) error {
	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		e, err := lim.Entity(ctx, o.id)
		if errors.Is(err, limiter.ErrNotFound) && hasLimitsOrBuckets(ctx, lim, o.id) {
			return fmt.Errorf("%w: the entity has limits or buckets, but no record; %s shows them", err,
				o.Suggestion("entity", "status", o.id))
		}
		if err != nil {
			return err
		}

		chain, err := lim.Chain(ctx, o.id)
		if err != nil {
			return err
		}
		off, err := jsonview.ReadSwitches(ctx, lim, chain)
		if err != nil {
			return err
		}

		object := jsonview.NewEntity(e)
		object.Disabled = jsonview.NewSwitches(off)
		return kit.PrintProperties(o.Console, o.json, append(entityProperties(e), switchProperties(off)...), object)
	})
}

// hasLimitsOrBuckets reports whether an entity without a record is in use. It reports
// false after an error, since the answer is only worth a hint.
func hasLimitsOrBuckets(ctx context.Context, lim *limiter.RateLimiter, id string) bool {
	if stored, err := lim.Limits(ctx, id, ""); err == nil && len(stored) > 0 {
		return true
	}
	_, statuses, err := jsonview.ReadStatuses(ctx, lim, id, "")
	return err == nil && len(statuses) > 0
}

// switchProperties returns a property for each level that is off.
func switchProperties(off []limiter.Switch) []kit.Property {
	var properties []kit.Property

	for _, s := range off {
		properties = append(properties, kit.Property{Name: "disabled", Value: kit.Text(s.Refuse("", "").Error())})
	}
	return properties
}

func entityProperties(e limiter.Entity) []kit.Property {
	properties := []kit.Property{
		{Name: "entity", Value: kit.Text(e.ID)},
		{Name: "name", Value: kit.Text(e.Name)},
		{Name: "parent", Value: kit.Text(e.Parent)},
		{Name: "cascade", Value: kit.YesNo(e.Cascade)},
		{Name: "created", Value: kit.Moment(e.CreatedAt)},
	}

	metadata := ""
	if len(e.Metadata) > 0 {
		// Marshalling strings cannot fail.
		encoded, _ := json.Marshal(e.Metadata)
		metadata = string(encoded)
	}
	return append(properties, kit.Property{Name: "metadata", Value: kit.Text(metadata)})
}

type entityListOptions struct {
	*kit.Connection
	withLimits string
	limit      int
	json       bool
}

func newEntityList(conn *kit.Connection) *cobra.Command {
	o := entityListOptions{Connection: conn}
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
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntityList(cmd.Context(), o) },
	}

	cmd.Flags().StringVar(&o.withLimits, "with-custom-limits", "",
		"only entities with limits of their own for this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("with-custom-limits", conn.CompleteLimitedResources)
	addRowLimit(cmd, &o.limit, "", 0)
	kit.AddJSON[jsonview.Entity](cmd, &o.json, kit.AnArray, entityColumns)
	cmd.Long += "\nWith --with-custom-limits, only the ID is printed."
	return cmd
}

func runEntityList(ctx context.Context, o entityListOptions) error {
	resource, err := orAllResources(o.withLimits)
	if err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		var err error
		more := false

		if o.withLimits == "" {
			rows := jsonview.First(lim.Entities(ctx), o.limit, func(limiter.Entity) { more = true })
			err = printEntities(ctx, o.Connection, lim, o.json, rows, "There are no entities with a record.")
		} else {
			rows := jsonview.First(lim.EntitiesWithLimits(ctx, resource), o.limit, func(string) { more = true })
			err = idListing("No entity has limits of its own for "+o.withLimits+".").Print(o.Console, o.json, rows)
		}

		if err == nil && more {
			o.Say("There are more; --limit 0 shows all.")
		}

		return err
	})
}

// printEntities prints entities, and which of them are off.
func printEntities(
	ctx context.Context, conn *kit.Connection, lim *limiter.RateLimiter, asJSON bool,
	rows iter.Seq2[limiter.Entity, error], nothing string,
) error {
	off, err := kit.Collect(lim.Switches(ctx))
	if err != nil {
		return err
	}

	return entityListing(nothing, off).Print(conn.Console, asJSON, rows)
}

// idListing describes how to print the IDs of entities.
func idListing(nothing string) kit.Listing[string] {
	return kit.Listing[string]{
		Columns: []kit.Column{{Title: "entity"}},
		Row:     func(id string) []kit.Cell { return []kit.Cell{kit.Text(id)} },
		Object:  func(id string) any { return jsonview.EntityID{ID: id} },
		Nothing: nothing,
	}
}

type entityChildrenOptions struct {
	*kit.Connection
	parent string
	json   bool
}

func newEntityChildren(conn *kit.Connection) *cobra.Command {
	o := entityChildrenOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:               "children ENTITY",
		Short:             "List the children of an entity",
		Long:              "List the entities whose parent is the given entity, by ID.",
		Example:           "  zae-limiter entity children project-1",
		Args:              kit.Arguments(entityArg(&o.parent)),
		ValidArgsFunction: conn.CompleteEntity,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithStore(cmd.Context(), kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				return printEntities(cmd.Context(), o.Connection, lim, o.json, lim.Children(cmd.Context(), o.parent),
					o.parent+" has no children.")
			})
		},
	}
	kit.AddJSON[jsonview.Entity](cmd, &o.json, kit.AnArray, entityColumns)
	return cmd
}

type entityDeleteOptions struct {
	*kit.Connection
	id  string
	yes bool
}

func newEntityDelete(conn *kit.Connection) *cobra.Command {
	o := entityDeleteOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "delete ENTITY",
		Aliases: []string{"rm"},
		Short:   "Delete an entity with its limits, buckets and usage",
		Long: `Delete the record of an entity, its limits, its buckets and its usage. Its audit
events and its children stay.`,
		Example:           "  zae-limiter entity delete key-abc\n  zae-limiter entity delete key-abc --yes",
		Args:              kit.Arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.CompleteEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityDelete(cmd.Context(), o) },
	}
	kit.AddYes(cmd, &o.yes)
	conn.AddPrincipal(cmd)
	return cmd
}

func runEntityDelete(ctx context.Context, o entityDeleteOptions) error {
	if err := o.Confirm(ctx, o.yes, "Delete entity "+o.id+" with its limits, buckets and usage"); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Change, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteEntity(ctx, o.id); err != nil {
			return err
		}
		o.Done("Deleted entity %s %s", o.id, o.Location())
		return nil
	})
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
		return "", kit.Usagef("%v", err)
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
