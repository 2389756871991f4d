package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/child"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

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
	limit, n, err := kit.ParseAmount(strings.TrimSuffix(text, "\r"), 0)
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
