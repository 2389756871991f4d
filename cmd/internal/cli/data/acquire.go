package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/child"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

type acquireOptions struct {
	*kit.Connection
	request    limiter.Request
	limits     kit.LimitFlags
	wait       time.Duration
	command    []string
	adjustFD   int
	keep, json bool
}

func newAcquire(c *kit.Console) *cobra.Command {
	o := acquireOptions{Connection: &kit.Connection{Console: c}}
	cmd := &cobra.Command{
		Use:   "acquire [flags] ENTITY RESOURCE LIMIT=TOKENS... [-- COMMAND...]",
		Short: "Take tokens, and optionally run a command",

		// Flags after -- belong to the command, so [flags] must not end the
		// usage line.
		DisableFlagsInUseLine: true,
		Long: `Take tokens of one or more limits, all or none, from an entity and, if the
entity cascades, from its parent. If a limit does not cover its amount, nothing
is taken and the exit code is 3. If a level is switched off, the exit code is 5.
A shadow limit never refuses.

Without a command, the tokens are spent and the remaining ones are printed. With
a command, it runs while the lease is held, receives the program's signals, and
its exit code becomes the program's. If it fails, all tokens are given back
unless --keep is set. A command that learns how much it used can write lines
LIMIT=TOKENS to the file descriptor of --adjust-fd, whose number is in
$ZAEL_ADJUST_FD. The last line of each limit corrects what was taken.

` + kit.StoreHelp,
		Example: `  zae-limiter acquire key-abc gpt-4 rpm=1 tpm=500
  zae-limiter acquire key-abc gpt-4 rpm=1 --wait 30s -- ./call.sh
  zae-limiter acquire key gpt-4 tpm=9 --adjust-fd 3 -- sh -c 'echo tpm=8 >&3'
  zae-limiter acquire nightly backup runs=1 --limit runs:4/hour -- ./backup.sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				if args, o.command = args[:dash], args[dash:]; len(o.command) == 0 {
					return kit.Usagef("COMMAND is missing after --; usage: %s", cmd.UseLine())
				}
			}
			return requestArgs(&o.request, 1)(cmd, args)
		},
		ValidArgsFunction: o.CompleteRequest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runAcquire(cmd.Context(), o) },
	}

	o.AddNamespace(cmd)
	kit.AddFlag(cmd, &o.wait, "wait", "duration", "", "wait up to this long for tokens, such as 5s", kit.ParseDuration)
	kit.AddLimits(cmd, &o.limits, "limit for this call, in place of the stored limits")
	kit.AddMode(cmd, &o.request.OnUnavailable, "allow or block when the store is unavailable (default: as stored)")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep the tokens even if the command fails")
	kit.AddFlag(cmd, &o.adjustFD, "adjust-fd", "number", "",
		"file descriptor on which the command reports its actual use", parseDescriptor)

	kit.AddJSON[jsonview.Decision](cmd, &o.json, kit.AnObject, decisionColumns)
	kit.DocumentFields[jsonview.Status](cmd, "Each of its limits")

	return cmd
}

func parseDescriptor(text string) (int, error) {
	// Descriptors 0 to 2 are stdin, stdout and stderr.
	const minFD, maxFD = 3, 63

	n, err := strconv.Atoi(text)
	if err != nil || n < minFD || n > maxFD {
		return 0, fmt.Errorf("must be a number from %d to %d", minFD, maxFD)
	}
	return n, nil
}

func (o *acquireOptions) check() error {
	if err := setOverride(&o.request, o.limits.All); err != nil {
		return err
	}

	if o.command != nil {
		if o.json {
			return kit.Usagef(
				"--json and a command exclude each other, since both write to stdout; leave one of them out")
		}
		return nil
	}

	for _, flag := range []struct {
		name  string
		given bool
	}{{"keep", o.keep}, {"adjust-fd", o.adjustFD > 0}} {
		if flag.given {
			return kit.Usagef("--%s needs a command; give it after --", flag.name)
		}
	}

	return nil
}

func runAcquire(ctx context.Context, o acquireOptions) error {
	if err := o.check(); err != nil {
		return err
	}

	// No signal may end the program while it holds a lease, since its tokens
	// would not be given back.
	held := make(chan os.Signal, 1)
	signal.Notify(held, kit.StopSignals()...)
	defer signal.Stop(held)

	access := kit.Change
	// A new store has no limits of its own, so only a call that brings its
	// limits may create one.
	if o.limits.All != nil {
		access = kit.Create
	}

	repo, err := o.Open(ctx, access)
	// The limiter fails open for charges, but there is no limiter if the store
	// does not open.
	if kit.Is[*limiter.UnavailableError](err) && o.request.OnUnavailable == limiter.Allow {
		o.Warn("nothing was taken: %v", err)
		if o.command == nil {
			return nil
		}
		// Without a lease there is nothing to adjust, so the reports are
		// dropped.
		return o.runCommand(func(string) {})
	}
	if err != nil {
		return err
	}

	return o.WithLimiter(repo, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		lease, err := o.acquire(ctx, lim)
		if err != nil {
			return errors.Join(o.printRefusal(err), o.SuggestLimits(err, o.request))
		}

		if outage := lease.Outage(); outage != nil {
			o.Warn("nothing was taken: %v", outage)
		}

		if o.command != nil {
			return o.runUnderLease(ctx, lease)
		}

		err = errors.Join(o.print(lease.Decision()), lease.Commit(ctx))
		if err == nil && lease.Outage() == nil {
			o.Done("Took %s for %s %s", requestText(o.request), o.request.Entity, o.Location())
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

	stop := o.Progress(func() string { return "waiting for " + requestText(o.request) })
	defer stop()

	lease, err := lim.Wait(limited, o.request)
	// The error of an interrupt also wraps the last rejection, but the exit
	// code must be that of an interrupt.
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}

	// A request that never fits is refused at once, so --wait had no part in it.
	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok && !ex.Decision.NeverFits() {
		return nil, &waitedError{ex, o.wait}
	}

	return lease, err
}

// waitedError is a rejection that outlasted --wait.
type waitedError struct {
	*limiter.ExceededError
	wait time.Duration
}

func (e *waitedError) Error() string {
	return fmt.Sprintf("%v, which is more than --wait %s", e.ExceededError, e.wait)
}

// Unwrap returns the rejection.
func (e *waitedError) Unwrap() error { return e.ExceededError }

// printRefusal prints the limits of a rejected request, unless stdout belongs to
// a command. A request that a switch refuses has no limits to print.
func (o acquireOptions) printRefusal(err error) error {
	if o.command != nil {
		return nil
	}

	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok {
		return o.print(ex.Decision)
	}

	if off, ok := errors.AsType[*limiter.DisabledError](err); ok && o.json {
		return o.PrintJSON(jsonview.NewDisabled(o.request, off))
	}

	return nil
}

func (o acquireOptions) print(d limiter.Decision) error {
	if o.json {
		return o.PrintJSON(jsonview.NewDecision(o.request, d))
	}
	return decisionListing(o.Console, o.request).Print(o.Console, false, kit.Each(d.Statuses))
}

// childError ends the program with the exit code of the command it ran.
type childError struct {
	code int
	err  error // why the command did not start; nil if it did
}

func (e *childError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("the command ended with code %d", e.code)
}

// ExitCode returns the code of the command.
func (e *childError) ExitCode() int { return e.code }

// Reported reports whether the command ran, and so has reported its failure itself.
func (e *childError) Reported() bool { return e.err == nil }

// started reports whether a command that failed had started.
func started(failed error) bool {
	e, ok := errors.AsType[*childError](failed)
	return ok && e.err == nil
}

// runUnderLease runs the command and settles the lease by how it ended. It returns
// the failure of the command, else that of settling.
func (o acquireOptions) runUnderLease(ctx context.Context, lease *limiter.Lease) error {
	actual := usageReport{used: map[string]int64{}}
	// An interrupt before the start means that no work was done, so the tokens
	// go back.
	failed := ctx.Err()
	if failed == nil {
		failed = o.runCommand(actual.line)
	}

	for _, line := range actual.invalid {
		o.Warn("line %q on descriptor %d is ignored, since it is not LIMIT=TOKENS", tty.Ellipsis(line, 60), o.adjustFD)
	}

	settle := lease.Commit

	// A command that did not start used nothing, so --keep does not apply to
	// it.
	if failed != nil && (!o.keep || !started(failed)) {
		settle = lease.Rollback
	} else {
		o.adjust(lease, actual.used)
	}

	// An interrupt must not keep the lease from being settled. If the command failed
	// as well, its exit code wins, and the failure to settle is only a warning.
	if err := settle(context.WithoutCancel(ctx)); err != nil {
		if failed == nil {
			return err
		}
		o.Warn("%v", err)
	}

	if outage := lease.Outage(); outage != nil && failed == nil {
		o.Warn("not all tokens were recorded: %v", outage)
	}

	return failed
}

// runCommand runs the command and returns nil if it succeeded.
func (o acquireOptions) runCommand(report func(string)) error {
	c := child.Command{Args: o.command, Stdin: o.In, Stdout: o.File, Stderr: o.Err}

	if o.adjustFD > 0 {
		c.ReportFD, c.Report = o.adjustFD, report
		c.Env = []string{"ZAEL_ADJUST_FD=" + strconv.Itoa(o.adjustFD)}
	}

	code, err := child.Run(c)
	if code == 0 && err == nil {
		return nil
	}
	return &childError{code, err}
}

// usageReport collects the lines in which a command reports its use.
type usageReport struct {
	used    map[string]int64
	invalid []string // the first few lines that are not LIMIT=TOKENS
}

func (r *usageReport) line(text string) {
	limit, n, err := parseAmount(strings.TrimSuffix(text, "\r"), 0)
	if err != nil {
		// A chatty command would otherwise fill stderr with warnings.
		if len(r.invalid) < 3 {
			r.invalid = append(r.invalid, text)
		}
		return
	}

	// A report is a total and not a difference, so the last line of a limit
	// wins.
	r.used[limit] = n
}

// adjust sets the amounts of the lease to what the command used.
func (o acquireOptions) adjust(lease *limiter.Lease, actual map[string]int64) {
	for limit, n := range actual {
		if err := lease.Used(limit, n); err != nil {
			o.Warn("%s=%d is ignored: %v", limit, n, err)
		}
	}
}
