package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/child"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// commandError ends the program with the code of the command it ran.
type commandError struct {
	code int
	err  error // why it did not run; nil if it did
}

func (e *commandError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("the command ended with code %d", e.code)
}

// ran tells whether a command that failed had begun.
func ran(failed error) bool {
	e, ok := errors.AsType[*commandError](failed)
	return ok && e.err == nil
}

// underLease runs the command and settles the lease by how it ended. The code
// is the command's, unless that is 0 and settling failed.
func (o acquireOptions) underLease(ctx context.Context, lease *limiter.Lease) error {
	actual := reported{said: map[string]int64{}}
	failed := ctx.Err() // interrupted before it began
	if failed == nil {
		failed = o.runCommand(actual.line)
	}
	for _, line := range actual.odd {
		o.warn("line %q on descriptor %d is not LIMIT=TOKENS, and does not count", tty.Ellipsis(line, 60), o.adjustFD)
	}
	settle := lease.Commit
	if failed != nil && (!o.keep || !ran(failed)) {
		settle = lease.Rollback
	} else {
		o.adjust(lease, actual.said)
	}
	if err := settle(context.WithoutCancel(ctx)); err != nil {
		if failed == nil {
			return err
		}
		o.warn("%v", err)
	}
	if outage := lease.Outage(); outage != nil && failed == nil {
		o.warn("not everything is recorded: %v", outage)
	}
	return failed
}

// runCommand is nil if the command ended well.
func (o acquireOptions) runCommand(report func(string)) error {
	c := child.Command{Args: o.command, Stdin: o.in, Stdout: o.file, Stderr: o.err}
	if o.adjustFD > 0 {
		c.ReportFD, c.Report = o.adjustFD, report
		c.Env = []string{"ZAEL_ADJUST_FD=" + strconv.Itoa(o.adjustFD)}
	}
	code, err := child.Run(c)
	if code == 0 && err == nil {
		return nil
	}
	return &commandError{code, err}
}

// reported collects what a command says it used.
type reported struct {
	said map[string]int64
	odd  []string // lines that say nothing, the first few
}

func (r *reported) line(text string) {
	limit, n, err := parseAmount(strings.TrimSuffix(text, "\r"))
	if err != nil {
		if len(r.odd) < 3 {
			r.odd = append(r.odd, text)
		}
		return
	}
	r.said[limit] = n
}

// adjust corrects what was taken to what was used.
func (o acquireOptions) adjust(lease *limiter.Lease, actual map[string]int64) {
	for limit, n := range actual {
		if err := lease.Used(limit, n); err != nil {
			o.warn("%s=%d does not count: %v", limit, n, err)
		}
	}
}
