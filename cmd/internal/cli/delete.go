package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type deleteOptions struct {
	*stackConnection
	yes, wait, archive, json bool
}

func newDelete(c *console) *cobra.Command {
	o := &deleteOptions{stackConnection: &stackConnection{console: c}, wait: true}
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
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDelete(cmd.Context(), o) },
	}

	o.addTo(cmd)
	addSwitch(cmd.Flags(), &o.wait, "wait", "no-wait", "wait for the deletion to complete")
	cmd.Flags().BoolVar(&o.archive, "delete-archive", false, "also delete the archived audit events")

	addYes(cmd, &o.yes)
	addJSON[infra.Removal](cmd, &o.json, anObject, nil)
	return cmd
}

func runDelete(ctx context.Context, o *deleteOptions) error {
	name, opts, err := o.target()
	// The default of target must not be deleted by accident.
	if err == nil {
		err = o.requireName(name)
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
			return o.ask(ctx, deletionQuestion(r))
		},
	})
	if err != nil {
		return stackError(err)
	}

	switch {
	case !r.Existed:
		o.done("There is no stack %s", name)
	case !r.Complete:
		o.warn("Stack %s is being deleted; run this again without --no-wait to complete it", name)
	default:
		o.done("Deleted stack %s", name)
	}

	if r.ArchiveKept {
		o.say("  archive kept: bucket %s", r.Archive)
	}

	if o.json {
		return o.printJSON(r)
	}

	return nil
}

// requireName rejects a command line without the name of a stack, unless the
// environment names exactly one.
func (s *stackConnection) requireName(name string) error {
	stack, store := os.Getenv(envStack), os.Getenv(envStore)
	// stackName silently prefers ZAEL_STORE to ZAEL_STACK. A deletion must not
	// guess which of them the user means.
	switch isTable := strings.HasPrefix(store, tableScheme); {
	case s.name != "":
		return nil
	case stack == "" && !isTable:
		return usagef("no stack is named; give --name or set %s", envStack)
	case stack != "" && isTable && stack != name:
		return usagef("%s is %s, but %s is %s; give --name", envStore, store, envStack, stack)
	}
	return nil
}

func deletionQuestion(r infra.Removal) string {
	question := fmt.Sprintf("Delete stack %s (%s) with its table of about %s", r.Name, r.Region,
		count(int(r.Items), "item"))

	if r.Archive != "" && !r.ArchiveKept {
		question += " and the archive in bucket " + r.Archive
	}

	return question + "?"
}
