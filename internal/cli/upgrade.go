package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/infra"
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
		Short: "Bring a stack and its table to this version",
		Long: `Brings a stack to the version of this program: its template, the code of its
functions, its tags, then the data of its table, and at last the record of its
version. Parameters and tags of the owner stay as they were deployed. What is
going to change is shown before it is changed, and on a terminal asked;
elsewhere only changes that remove or replace something need --yes. A stack that
is newer is left alone, unless --force says otherwise.

` + stackHelp,
		Example: "  zae-limiter upgrade --name my-app\n  zae-limiter upgrade -n my-app --lambda-only --yes",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runUpgrade(cmd.Context(), o) },
	}
	o.addTo(cmd)
	cmd.Flags().BoolVar(&o.lambdaOnly, "lambda-only", false, "only the code of the functions")
	cmd.Flags().BoolVar(&o.force, "force", false, "also from a newer version to this one")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait for the stack, nor touch the table")
	cmd.Flags().StringVar(&o.zip, "lambda-zip", "", "`file` with the functions' code, such as lambda-export writes")
	cmd.Flags().StringVar(&o.bucket, "artifact-bucket", "", "`bucket` for that code (default: the one it is in)")
	cmd.Flags().StringVar(&o.architecture, "architecture", "", "arm64 or x86_64 (default: as deployed; at first as deploy)")
	addYes(cmd, &o.yes)
	addJSON[deploymentShape](cmd, &o.json, anObject, nil)
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
	d, err := infra.Upgrade(ctx, name, &infra.UpgradeOptions{Options: opts, LambdaOnly: o.lambdaOnly, Migrating: o.migrating})
	if err != nil {
		return stackError(err)
	}
	return o.tell(d, o.json, time.Since(began))
}

func (o *upgradeOptions) migrating(p dynamo.Progress) {
	o.say("  migrating to %s: %s", p.Version, count(int(p.Items), "item"))
}
