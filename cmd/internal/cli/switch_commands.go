package cli

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// addEntityScope adds the flag --resource to a command that disables or enables an
// entity.
func (o *switchOptions) addEntityScope(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = kit.Arguments(kit.EntityArg(&o.of.Entity)), o.CompleteEntity
	cmd.Flags().StringVarP(&o.of.Resource, "resource", "r", "", "only this `resource` (default: all resources)")
	_ = cmd.RegisterFlagCompletionFunc("resource", o.CompleteResources)
	return cmd
}

func newEntityDisable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
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

func newEntityEnable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addEnable(o.addEntityScope(&cobra.Command{
		Use:     "enable ENTITY",
		Short:   "Admit calls of an entity again",
		Long:    `Enable an entity, or with --resource an entity and a resource.`,
		Example: "  zae-limiter entity enable key-abc\n  zae-limiter entity enable key-abc -r gpt-4",
	}))
}

func newResourceDisable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addDisable(&cobra.Command{
		Use:               "disable RESOURCE",
		Short:             "Refuse all calls for a resource",
		Long:              "Disable a resource for all entities. If it is disabled already, the reason is\nreplaced.",
		Example:           `  zae-limiter resource disable gpt-4 --reason "outage of the provider"`,
		Args:              kit.Arguments(kit.ResourceArg(&o.of.Resource)),
		ValidArgsFunction: conn.CompleteResource,
	})
}

func newResourceEnable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addEnable(&cobra.Command{
		Use:               "enable RESOURCE",
		Short:             "Admit calls for a resource again",
		Long:              `Enable a resource for all entities.`,
		Example:           "  zae-limiter resource enable gpt-4",
		Args:              kit.Arguments(kit.ResourceArg(&o.of.Resource)),
		ValidArgsFunction: conn.CompleteResource,
	})
}

func newSystemDisable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addDisable(&cobra.Command{
		Use:     "disable",
		Short:   "Refuse all calls",
		Long:    "Disable everything in the namespace. If it is disabled already, the reason is\nreplaced.",
		Example: `  zae-limiter system disable --reason "maintenance"`,
		Args:    kit.NoArgs,
	})
}

func newSystemEnable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addEnable(&cobra.Command{
		Use:     "enable",
		Short:   "Admit calls again",
		Long:    `Enable the namespace again.`,
		Example: "  zae-limiter system enable",
		Args:    kit.NoArgs,
	})
}
