package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// console holds the streams of a command and what is known about them.
type console struct {
	in          io.Reader
	out, err    io.Writer // data, and messages
	file        io.Writer // out without its wrapper, to find out what it is
	terminal    bool      // out shows tables, not tab-separated fields
	errTerminal bool      // err is a terminal, so it shows progress
	canAsk      bool      // in and err are terminals, so questions can be asked
	width       int       // columns of out
	errWidth    int       // columns of err
	outIsFile   bool      // out is a file on disk, so progress on err does not disturb it
	style       tty.Style // of out
	errStyle    tty.Style // of err
	now         func() time.Time
	purgeWait   time.Duration       // of tables; 0 is their default
	timeout     time.Duration       // of calls to tables; 0 is tableTimeout
	poll        time.Duration       // of load tests in an account; 0 is their default
	scenarios   []loadtest.Scenario // of the program, beside those of package loadtest
	loadOnly    string              // the name of a program that has only the load-testing commands
}

// forceTerminal names an environment variable that makes stdout a terminal with
// this many columns.
const forceTerminal = "ZAEL_FORCE_TTY"

func newConsole(in io.Reader, out, messages io.Writer) *console {
	c := &console{in: in, out: out, err: messages, now: time.Now}
	c.terminal, c.errTerminal = tty.IsTerminal(out), tty.IsTerminal(messages)
	c.canAsk = tty.IsTerminal(in) && c.errTerminal
	c.width, c.errWidth = tty.Columns(out), tty.Columns(messages)
	c.outIsFile = tty.IsFile(out)
	if forced, err := strconv.Atoi(os.Getenv(forceTerminal)); err == nil && forced > 0 {
		c.terminal, c.width = true, forced
	}
	coloured := tty.StyleFromEnv()
	c.style, c.errStyle = coloured && tty.Style(c.terminal), coloured && tty.Style(c.errTerminal)
	return c
}

// say writes a message to stderr.
func (c *console) say(format string, args ...any) { c.mark("", format, args...) }

// done reports a change that was made.
func (c *console) done(format string, args ...any) {
	c.mark(c.errStyle.Green("✓")+" ", format, args...)
}

// warn writes a warning.
func (c *console) warn(format string, args ...any) {
	c.mark(c.errStyle.Yellow("!")+" ", format, args...)
}

func (c *console) mark(sign, format string, args ...any) {
	fmt.Fprintln(c.err, sign+tty.Visible(fmt.Sprintf(format, args...)))
}
