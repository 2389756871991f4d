package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/infra"
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
		Long: `Deletes a stack with its table and everything in it, and the bucket with the
code of its functions. The bucket with archived audit events stays, unless it is
empty or --delete-archive is given. A stack that is not there counts as deleted.
Nothing is deleted while the table or the stack is protected.

The stack is that of --name, else $ZAEL_STORE where that is dynamodb:NAME, else
$ZAEL_STACK; nothing else is deleted. A table without a stack is deleted by
"zae-limiter table delete".`,
		Example: "  zae-limiter delete --name my-app\n  zae-limiter delete -n my-app --yes",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDelete(cmd.Context(), o) },
	}
	o.addTo(cmd)
	addSwitch(cmd.Flags(), &o.wait, "wait", "no-wait", "wait until it is gone")
	cmd.Flags().BoolVar(&o.archive, "delete-archive", false, "also delete the archived audit events")
	addYes(cmd, &o.yes)
	addJSON[infra.Removal](cmd, &o.json, anObject, nil)
	return cmd
}

func runDelete(ctx context.Context, o *deleteOptions) error {
	name, opts, err := o.target()
	if err == nil {
		err = o.certain(name)
	}
	if err != nil {
		return err
	}
	opts.NoWait = !o.wait
	r, err := infra.Delete(ctx, name, &infra.DeleteOptions{Options: opts, DeleteArchive: o.archive, Confirm: func(r infra.Removal) error {
		if o.yes {
			return nil
		}
		return o.ask(ctx, deletionQuestion(r))
	}})
	if err != nil {
		return stackError(err)
	}
	switch {
	case !r.Existed:
		o.done("There is no stack %s", name)
	case !r.Complete:
		o.warn("Stack %s is being deleted; call this again without --no-wait to finish", name)
	default:
		o.done("Deleted stack %s", name)
	}
	if r.ArchiveKept {
		o.say("  its archive stays: bucket %s", r.Archive)
	}
	if o.json {
		return o.printJSON(r)
	}
	return nil
}

// certain refuses to guess a name, and a name that two variables contradict.
func (o *deleteOptions) certain(name string) error {
	stack, store := os.Getenv(envStack), os.Getenv(envStore)
	switch isTable := strings.HasPrefix(store, tableScheme); {
	case o.name != "":
		return nil
	case stack == "" && !isTable:
		return usagef("nothing says which stack; give --name, or set %s", envStack)
	case stack != "" && isTable && stack != name:
		return usagef("%s says %s and %s says %s; give --name", envStore, store, envStack, stack)
	}
	return nil
}

func deletionQuestion(r infra.Removal) string {
	question := fmt.Sprintf("Delete stack %s (%s) with its table of about %s", r.Name, r.Region, count(int(r.Items), "item"))
	if r.Archive != "" && !r.ArchiveKept {
		question += " and the archive in bucket " + r.Archive
	}
	return question + "?"
}
