package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type upgradeOptions struct {
	*stackConnection
	lambdaOnly, force, yes, noWait, json bool
	zip, bucket, architecture            string
}

func newUpgrade(c *console) *cobra.Command {
	o := &upgradeOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade a stack to this version",
		Long: `Upgrade a stack to the version of this program: its template, the code of its
functions, its tags, the data of its table, and last its version record.
Parameters and tags stay as deployed. The command shows the changes first and,
on a terminal, asks for confirmation; elsewhere only changes that remove or
replace something need --yes. A newer stack is left alone, unless --force is
set.

` + stackHelp,
		Example: "  zae-limiter upgrade --name my-app\n  zae-limiter upgrade -n my-app --lambda-only --yes",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runUpgrade(cmd.Context(), o) },
	}

	o.addTo(cmd)
	cmd.Flags().BoolVar(&o.lambdaOnly, "lambda-only", false, "upgrade only the code of the functions")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace a newer version with this one")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait for the stack, and leave the table alone")
	cmd.Flags().StringVar(&o.zip, "lambda-zip", "", "`file` with the functions' code, from lambda-export")
	cmd.Flags().StringVar(&o.bucket, "artifact-bucket", "", "S3 `bucket` for the code (default: the current one)")

	cmd.Flags().StringVar(&o.architecture, "architecture", "",
		"`arch` of the functions: arm64 or x86_64 (default: as deployed, else as in deploy)")

	addYes(cmd, &o.yes)
	addJSON[deploymentJSON](cmd, &o.json, anObject, nil)
	return cmd
}

func runUpgrade(ctx context.Context, o *upgradeOptions) error {
	name, opts, err := o.target()
	if err != nil {
		return err
	}

	opts.Zip, opts.NoWait, opts.Downgrade = o.zip, o.noWait, o.force
	opts.Stack.ArtifactBucket, opts.Stack.Architecture = o.bucket, o.architecture
	opts.Confirm = o.confirmChanges(ctx, name, o.yes)

	began := time.Now()
	d, err := infra.Upgrade(ctx, name, &infra.UpgradeOptions{
		Options: opts, LambdaOnly: o.lambdaOnly, Migrating: o.migrating,
	})
	if err != nil {
		return stackError(err)
	}
	return o.report(d, o.json, time.Since(began))
}

func (o *upgradeOptions) migrating(p dynamo.Progress) {
	o.say("  migrating to %s: %s", p.Version, count(int(p.Items), "item"))
}
