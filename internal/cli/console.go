package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// console is where a command reads and writes, and what it may expect there.
type console struct {
	in        io.Reader
	out, err  io.Writer // data, and talk
	file      io.Writer // out as it was given, for those who need to know what it is
	terminal  bool      // out is read by people: tables, not tab-separated fields
	watched   bool      // err is read by people: progress, questions
	asks      bool      // whoever reads err can answer
	width     int       // columns of out
	talkWidth int       // of err
	patient   bool      // out takes all that is written, and nobody looks at it meanwhile
	style     tty.Style // of out
	talkStyle tty.Style // of err
	now       func() time.Time
	purgeWait time.Duration // of tables, 0 for their default
}

// forceTerminal is an environment variable: a number of columns makes stdout a
// terminal of that width, whatever it is.
const forceTerminal = "ZAEL_FORCE_TTY"

func newConsole(in io.Reader, out, talk io.Writer) *console {
	c := &console{in: in, out: out, err: talk, now: time.Now}
	c.terminal, c.watched = tty.IsTerminal(out), tty.IsTerminal(talk)
	c.asks = tty.IsTerminal(in) && c.watched
	c.width, c.talkWidth = tty.Columns(out), tty.Columns(talk)
	c.patient = tty.IsFile(out)
	if forced, err := strconv.Atoi(os.Getenv(forceTerminal)); err == nil && forced > 0 {
		c.terminal, c.width = true, forced
	}
	coloured := tty.StyleFromEnv()
	c.style, c.talkStyle = coloured && tty.Style(c.terminal), coloured && tty.Style(c.watched)
	return c
}

// say is talk: a line on stderr.
func (c *console) say(format string, args ...any) { c.mark("", format, args...) }

// done says that something was changed.
func (c *console) done(format string, args ...any) {
	c.mark(c.talkStyle.Green("✓")+" ", format, args...)
}

// warn says what did not go as one would wish.
func (c *console) warn(format string, args ...any) {
	c.mark(c.talkStyle.Yellow("!")+" ", format, args...)
}

func (c *console) mark(sign, format string, args ...any) {
	fmt.Fprintln(c.err, sign+visible(fmt.Sprintf(format, args...)))
}
