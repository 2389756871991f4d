package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
)

type acquireOptions struct {
	*connection
	request    limiter.Request
	limits     limits
	wait       time.Duration
	command    []string
	adjustFD   int
	keep, json bool
}

func newAcquire(c *console) *cobra.Command {
	o := acquireOptions{connection: &connection{console: c}}
	cmd := &cobra.Command{
		Use:   "acquire [flags] ENTITY RESOURCE LIMIT=TOKENS... [-- COMMAND...]",
		Short: "Take tokens, and run a command under the lease",

		DisableFlagsInUseLine: true, // after -- they would be the command's
		Long: `Takes tokens of one or more limits, all or none, from an entity and, if that
cascades, from its parent. If a limit does not cover its amount, nothing is
taken and the program ends with code 3.

Without a command the tokens are spent, and what is left is printed. With one it
runs while the lease is held, signals are passed on to it, and the program ends
with its code. If it fails everything is given back, unless --keep says
otherwise. A command that learns what it really used writes lines LIMIT=TOKENS
to the file descriptor of --adjust-fd; the last line of each limit counts, and
corrects what was taken. Its number is in $ZAEL_ADJUST_FD.

` + storeHelp,
		Example: `  zae-limiter acquire key-abc gpt-4 rpm=1 tpm=500
  zae-limiter acquire key-abc gpt-4 rpm=1 --wait 30s -- ./call.sh
  zae-limiter acquire key gpt-4 tpm=9 --adjust-fd 3 -- sh -c 'echo tpm=8 >&3'
  zae-limiter acquire nightly backup runs=1 --limit runs:4/hour -- ./backup.sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				if args, o.command = args[:dash], args[dash:]; len(o.command) == 0 {
					return usagef("COMMAND is missing after --; usage: %s", cmd.UseLine())
				}
			}
			return requestArgs(&o.request, 1)(cmd, args)
		},
		ValidArgsFunction: o.completeRequest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runAcquire(cmd.Context(), o) },
	}
	o.addNamespace(cmd)
	addFlag(cmd, &o.wait, "wait", "time", "", "wait up to so long for room, such as 5s, instead of failing at once", parseDuration)
	addLimits(cmd, &o.limits, "judge by this limit instead of those stored, this time")
	addMode(cmd, &o.request.OnUnavailable, "what an outage of the store means: allow or block (default: as stored)")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep what was taken even if the command fails")
	addFlag(cmd, &o.adjustFD, "adjust-fd", "number", "", "file descriptor on which the command says what it really used", parseDescriptor)
	addJSON[decisionShape](cmd, &o.json, anObject, decisionColumns)
	addShape[statusShape](cmd, "Each of its limits")
	return cmd
}

func parseDescriptor(text string) (int, error) {
	const least, most = 3, 63 // below are stdin, stdout and stderr
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("it has to be a number from %d to %d", least, most)
	}
	return n, nil
}

func (o *acquireOptions) check() error {
	if err := override(&o.request, o.limits.all); err != nil {
		return err
	}
	if o.command != nil {
		if o.json {
			return usagef("--json cannot go with a command, whose output stdout is")
		}
		return nil
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{{"keep", o.keep}, {"adjust-fd", o.adjustFD > 0}} {
		if flag.given {
			return usagef("--%s needs a command, after --", flag.name)
		}
	}
	return nil
}

func runAcquire(ctx context.Context, o acquireOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	// While a lease is held no signal may end the program: what was taken would
	// not be given back.
	held := make(chan os.Signal, 1)
	signal.Notify(held, endings()...)
	defer signal.Stop(held)
	access := changes
	if o.limits.all != nil { // only then there is something to take from a new store
		access = creates
	}
	repo, err := o.open(ctx, access)
	if is[*limiter.UnavailableError](err) && o.request.OnUnavailable == limiter.Allow {
		o.warn("nothing was taken: %v", err)
		if o.command == nil {
			return nil
		}
		return o.runCommand(func(string) {})
	}
	if err != nil {
		return err
	}
	return o.lend(repo, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		lease, err := o.acquire(ctx, lim)
		if err != nil {
			return errors.Join(o.printRefusal(err), o.unlimited(err, o.request))
		}
		if outage := lease.Outage(); outage != nil {
			o.warn("nothing was taken: %v", outage)
		}
		if o.command != nil {
			return o.underLease(ctx, lease)
		}
		err = errors.Join(o.print(lease.Decision()), lease.Commit(ctx))
		if err == nil && lease.Outage() == nil {
			o.done("Took %s for %s %s", asked(o.request), o.request.Entity, o.where())
		}
		return err
	})
}

func (o acquireOptions) acquire(ctx context.Context, lim *limiter.RateLimiter) (*limiter.Lease, error) {
	if o.wait == 0 {
		return lim.Acquire(ctx, o.request)
	}
	limited, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	stop := o.progress(func() string { return "waiting for " + asked(o.request) })
	defer stop()
	lease, err := lim.Wait(limited, o.request)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok && !ex.Decision.NeverFits() {
		return nil, &waitedError{ex, o.wait}
	}
	return lease, err
}

// waitedError is a refusal that outlasted --wait.
type waitedError struct {
	*limiter.ExceededError
	wait time.Duration
}

// Error says that it was waited for.
func (e *waitedError) Error() string {
	return fmt.Sprintf("%v, which is more than --wait %s", e.ExceededError, e.wait)
}

// Unwrap is the refusal.
func (e *waitedError) Unwrap() error { return e.ExceededError }

// printRefusal shows the limits as they were, where stdout is ours.
func (o acquireOptions) printRefusal(err error) error {
	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok && o.command == nil {
		return o.print(ex.Decision)
	}
	return nil
}

func (o acquireOptions) print(d limiter.Decision) error {
	if o.json {
		return o.printJSON(decisionObject(o.request, d))
	}
	return decisionListing(o.console, o.request).print(o.console, false, each(d.Statuses))
}
