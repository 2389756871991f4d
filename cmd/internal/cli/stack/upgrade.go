package stack

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type upgradeOptions struct {
	*kit.Stack
	lambdaOnly, force, yes, noWait, json bool
	zip, bucket, architecture            string
}

func newUpgrade(c *kit.Console) *cobra.Command {
	o := &upgradeOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade a stack to this version",
		Long: `Upgrade a stack to the version of this program: its template, the code of its
functions, its tags, the data of its table, and last its version record.
Parameters and tags stay as deployed. The command shows the changes first and,
on a terminal, asks for confirmation; elsewhere only changes that remove or
replace something need --yes. A newer stack is left alone, unless --force is
set.

` + kit.StackHelp,
		Example: "  zae-limiter upgrade --name my-app\n  zae-limiter upgrade -n my-app --lambda-only --yes",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runUpgrade(cmd.Context(), o) },
	}

	o.AddTo(cmd)
	cmd.Flags().BoolVar(&o.lambdaOnly, "lambda-only", false, "upgrade only the code of the functions")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace a newer version with this one")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait for the stack, and leave the table alone")
	cmd.Flags().StringVar(&o.zip, "lambda-zip", "", "`file` with the functions' code, from lambda-export")
	cmd.Flags().StringVar(&o.bucket, "artifact-bucket", "", "S3 `bucket` for the code (default: the current one)")

	cmd.Flags().StringVar(&o.architecture, "architecture", "",
		"`arch` of the functions: arm64 or x86_64 (default: as deployed, else as in deploy)")

	kit.AddYes(cmd, &o.yes)
	kit.AddJSON[deploymentJSON](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

func runUpgrade(ctx context.Context, o *upgradeOptions) error {
	name, opts, err := o.Target()
	if err != nil {
		return err
	}

	opts.Zip, opts.NoWait, opts.Downgrade = o.zip, o.noWait, o.force
	opts.Stack.ArtifactBucket, opts.Stack.Architecture = o.bucket, o.architecture
	opts.Confirm = o.ConfirmChanges(ctx, name, o.yes)

	began := time.Now()
	d, err := infra.Upgrade(ctx, name, &infra.UpgradeOptions{
		Options: opts, LambdaOnly: o.lambdaOnly, Migrating: o.migrating,
	})
	if err != nil {
		return kit.StackError(err)
	}
	return report(o.Stack, d, o.json, time.Since(began))
}

func (o *upgradeOptions) migrating(p dynamo.Progress) {
	o.Say("  migrating to %s: %s", p.Version, kit.Count(int(p.Items), "item"))
}
