package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// console holds the streams of a command and what is known about them.
type console struct {
	in io.Reader
	// out takes data, and err takes messages.
	out, err io.Writer
	// file is out without its wrapper, which hides whether it is a terminal.
	file io.Writer
	// terminal makes out show tables, not tab-separated fields.
	terminal bool
	// errTerminal says that err is a terminal, so that it shows progress.
	errTerminal bool
	// canAsk says that in and err are terminals, so that questions can be asked.
	canAsk   bool
	width    int // columns of out
	errWidth int // columns of err
	// outIsFile says that out is a file on disk, so that progress on err does not
	// disturb it.
	outIsFile bool
	style     tty.Style // of out
	errStyle  tty.Style // of err
	now       func() time.Time
	purgeWait time.Duration // of tables; 0 is their default
	timeout   time.Duration // of calls to tables; 0 is tableTimeout
	poll      time.Duration // of load tests in an account; 0 is their default
	version   string        // of the program
	// scenarios holds the scenarios of the program, which come before the ones of
	// package loadtest.
	scenarios []loadtest.Scenario
	// loadOnly is the name of a program that has only the load-testing commands.
	loadOnly string
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

	// The pages of the documentation and recordings force a terminal of a fixed
	// width.
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
