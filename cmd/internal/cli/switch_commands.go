package cli

import "github.com/spf13/cobra"

// addEntityScope adds the flag --resource to a command that disables or enables an
// entity.
func (o *switchOptions) addEntityScope(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = arguments(entityArg(&o.of.Entity)), o.completeEntity
	cmd.Flags().StringVarP(&o.of.Resource, "resource", "r", "", "only this `resource` (default: all resources)")
	_ = cmd.RegisterFlagCompletionFunc("resource", o.completeResources)
	return cmd
}

func newEntityDisable(conn *connection) *cobra.Command {
	o := &switchOptions{connection: conn}
	return o.addDisable(o.addEntityScope(&cobra.Command{
		Use:   "disable ENTITY",
		Short: "Refuse all calls of an entity",
		Long: `Disable an entity for all resources, or for one with --resource. Its children
that cascade to it are refused too. If it is disabled already, the reason is
replaced. Deleting the entity does not enable it.`,
		Example: `  zae-limiter entity disable key-abc --reason "leaked on 31 January"
  zae-limiter entity disable key-abc -r gpt-4 --yes`,
	}))
}

func newEntityEnable(conn *connection) *cobra.Command {
	o := &switchOptions{connection: conn}
	return o.addEnable(o.addEntityScope(&cobra.Command{
		Use:     "enable ENTITY",
		Short:   "Admit calls of an entity again",
		Long:    `Enable an entity, or with --resource an entity and a resource.`,
		Example: "  zae-limiter entity enable key-abc\n  zae-limiter entity enable key-abc -r gpt-4",
	}))
}

func newResourceDisable(conn *connection) *cobra.Command {
	o := &switchOptions{connection: conn}
	return o.addDisable(&cobra.Command{
		Use:               "disable RESOURCE",
		Short:             "Refuse all calls for a resource",
		Long:              "Disable a resource for all entities. If it is disabled already, the reason is\nreplaced.",
		Example:           `  zae-limiter resource disable gpt-4 --reason "outage of the provider"`,
		Args:              arguments(resourceArg(&o.of.Resource)),
		ValidArgsFunction: conn.completeResource,
	})
}

func newResourceEnable(conn *connection) *cobra.Command {
	o := &switchOptions{connection: conn}
	return o.addEnable(&cobra.Command{
		Use:               "enable RESOURCE",
		Short:             "Admit calls for a resource again",
		Long:              `Enable a resource for all entities.`,
		Example:           "  zae-limiter resource enable gpt-4",
		Args:              arguments(resourceArg(&o.of.Resource)),
		ValidArgsFunction: conn.completeResource,
	})
}

func newSystemDisable(conn *connection) *cobra.Command {
	o := &switchOptions{connection: conn}
	return o.addDisable(&cobra.Command{
		Use:     "disable",
		Short:   "Refuse all calls",
		Long:    "Disable everything in the namespace. If it is disabled already, the reason is\nreplaced.",
		Example: `  zae-limiter system disable --reason "maintenance"`,
		Args:    noArgs,
	})
}

func newSystemEnable(conn *connection) *cobra.Command {
	o := &switchOptions{connection: conn}
	return o.addEnable(&cobra.Command{
		Use:     "enable",
		Short:   "Admit calls again",
		Long:    `Enable the namespace again.`,
		Example: "  zae-limiter system enable",
		Args:    noArgs,
	})
}
