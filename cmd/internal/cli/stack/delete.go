package stack

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type deleteOptions struct {
	*kit.Stack
	yes, wait, archive, json bool
}

func newDelete(c *kit.Console) *cobra.Command {
	o := &deleteOptions{Stack: &kit.Stack{Console: c}, wait: true}
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete a stack with its table",
		Long: `Delete a stack with its table and all data, and the S3 bucket with its
functions' code. The bucket with archived audit events stays, unless it is empty
or --delete-archive is set. A missing stack counts as deleted. Nothing is
deleted if the table or the stack is protected.

The stack is --name, else the table of $ZAEL_STORE (dynamodb:NAME), else
$ZAEL_STACK; there is no default. Use "zae-limiter table delete" for a table
without a stack.`,
		Example: "  zae-limiter delete --name my-app\n  zae-limiter delete -n my-app --yes",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDelete(cmd.Context(), o) },
	}

	o.AddTo(cmd)
	kit.AddSwitch(cmd.Flags(), &o.wait, "wait", "no-wait", "wait for the deletion to complete")
	cmd.Flags().BoolVar(&o.archive, "delete-archive", false, "also delete the archived audit events")

	kit.AddYes(cmd, &o.yes)
	kit.AddJSON[infra.Removal](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

func runDelete(ctx context.Context, o *deleteOptions) error {
	name, opts, err := o.Target()
	// The default of target must not be deleted by accident.
	if err == nil {
		err = o.RequireName(name)
	}
	if err != nil {
		return err
	}

	opts.NoWait = !o.wait
	r, err := infra.Delete(ctx, name, &infra.DeleteOptions{
		Options: opts, DeleteArchive: o.archive,
		Confirm: func(r infra.Removal) error {
			if o.yes {
				return nil
			}
			return o.Ask(ctx, deletionQuestion(r))
		},
	})
	if err != nil {
		return kit.StackError(err)
	}

	switch {
	case !r.Existed:
		o.Done("There is no stack %s", name)
	case !r.Complete:
		o.Warn("Stack %s is being deleted; run this again without --no-wait to complete it", name)
	default:
		o.Done("Deleted stack %s", name)
	}

	if r.ArchiveKept {
		o.Say("  archive kept: bucket %s", r.Archive)
	}

	if o.json {
		return o.PrintJSON(r)
	}

	return nil
}

func deletionQuestion(r infra.Removal) string {
	question := fmt.Sprintf("Delete stack %s (%s) with its table of about %s", r.Name, r.Region,
		kit.Count(int(r.Items), "item"))

	if r.Archive != "" && !r.ArchiveKept {
		question += " and the archive in bucket " + r.Archive
	}

	return question + "?"
}
