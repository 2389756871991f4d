// Package kit is what commands share: the console, tables and formats, flags and
// arguments, exit codes, and the choice of a store or a stack. It knows no command.
package kit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
)

// Commands maps the names of commands to their constructors. The constructor of a
// command builds all commands below it, with their flags and texts.
type Commands map[string]func(*Console) *cobra.Command

// Console holds the streams of a command and what is known about them.
type Console struct {
	In io.Reader
	// Out takes data, and Err takes messages.
	Out, Err io.Writer
	// File is Out without its wrapper, which hides whether it is a terminal.
	File io.Writer
	// Terminal makes Out show tables, not tab-separated fields.
	Terminal bool
	// ErrTerminal says that Err is a terminal, so that it shows progress.
	ErrTerminal bool
	// CanAsk says that In and Err are terminals, so that questions can be asked.
	CanAsk   bool
	Width    int // columns of Out
	ErrWidth int // columns of Err
	// outIsFile says that Out is a file on disk, so that progress on Err does not
	// disturb it.
	outIsFile bool
	Style     tty.Style // of Out
	ErrStyle  tty.Style // of Err
	Now       func() time.Time
	PurgeWait time.Duration // of tables; 0 is their default
	Timeout   time.Duration // of calls to tables; 0 is TableTimeout
	Poll      time.Duration // of load tests in an account; 0 is their default
	Version   string        // of the program
}

// ForceTerminal names an environment variable that makes stdout a terminal with
// this many columns.
const ForceTerminal = "ZAEL_FORCE_TTY"

// NewConsole returns the console of a program with these streams.
func NewConsole(in io.Reader, out, messages io.Writer) *Console {
	c := &Console{In: in, Out: out, Err: messages, Now: time.Now}

	c.Terminal, c.ErrTerminal = tty.IsTerminal(out), tty.IsTerminal(messages)
	c.CanAsk = tty.IsTerminal(in) && c.ErrTerminal
	c.Width, c.ErrWidth = tty.Columns(out), tty.Columns(messages)
	c.outIsFile = tty.IsFile(out)

	// The pages of the documentation and recordings force a terminal of a fixed
	// width.
	if forced, err := strconv.Atoi(os.Getenv(ForceTerminal)); err == nil && forced > 0 {
		c.Terminal, c.Width = true, forced
	}

	coloured := tty.StyleFromEnv()
	c.Style, c.ErrStyle = coloured && tty.Style(c.Terminal), coloured && tty.Style(c.ErrTerminal)
	return c
}

// Say writes a message to stderr.
func (c *Console) Say(format string, args ...any) { c.mark("", format, args...) }

// Done reports a change that was made.
func (c *Console) Done(format string, args ...any) {
	c.mark(c.ErrStyle.Green("✓")+" ", format, args...)
}

// Warn writes a warning.
func (c *Console) Warn(format string, args ...any) {
	c.mark(c.ErrStyle.Yellow("!")+" ", format, args...)
}

func (c *Console) mark(sign, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			text = hint.Part(text, err)
		}
	}
	fmt.Fprintln(c.Err, sign+tty.Visible(text))
}

// errNotConfirmed ends a command that the user did not confirm.
var errNotConfirmed = errors.New("not confirmed, so nothing was changed")

// Confirm asks the user to confirm an action on the selected store, unless yes is
// set. Without a terminal to ask on it returns a usage error.
func (conn *Connection) Confirm(ctx context.Context, yes bool, action string) error {
	if yes {
		return nil
	}

	s, err := conn.SelectStore()
	if err != nil {
		return err
	}

	where := s.Name
	if conn.usesNamespace {
		where += ", namespace " + conn.NamespaceName()
	}

	return conn.Ask(ctx, tty.Visible(fmt.Sprintf("%s (%s)?", action, where)))
}

// Ask asks a question on the terminal and returns nil if the answer is yes.
func (c *Console) Ask(ctx context.Context, question string) error {
	if !c.CanAsk {
		return Usagef("this needs --yes, since there is no terminal to ask: %s", question)
	}

	line, err := c.ReadAnswer(ctx, question+" [y/N]")
	if err != nil {
		return err
	}

	switch strings.ToLower(line) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}

// ReadAnswer asks a question on the terminal and returns the answer without spaces
// around it.
func (c *Console) ReadAnswer(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(c.Err, "%s: ", question)

	answer := make(chan string, 1)
	// Reading a terminal cannot be cancelled, so the goroutine ends with the
	// program if there is no answer.
	go func() {
		line, _ := bufio.NewReader(c.In).ReadString('\n')
		answer <- line
	}()

	select {
	case line := <-answer:
		// Without the user's Enter, as at the end of the input, the cursor is
		// still behind the question.
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(c.Err)
		}
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		fmt.Fprintln(c.Err)
		return "", fmt.Errorf("interrupted: %w", errNotConfirmed)
	}
}

// Timing of progress lines.
const (
	ProgressAfter = 500 * time.Millisecond
	progressEvery = 200 * time.Millisecond
)

// Progress shows a line on stderr, if that is a terminal, until stop is called.
// Stop clears the line and may be called again.
func (c *Console) Progress(line func() string) (stop func()) {
	if !c.ErrTerminal || !tty.CanRedraw() {
		return func() {}
	}

	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		// A command that ends within half a second shows no progress.
		next := time.After(ProgressAfter)
		for shown := ""; ; {
			select {
			case <-end:
				if shown != "" {
					fmt.Fprint(c.Err, "\r"+tty.ClearLine)
				}
				return
			case <-next:
				shown = tty.Clip(line(), c.ErrWidth-1)
				fmt.Fprint(c.Err, "\r"+shown+tty.ClearLine)
				next = time.After(progressEvery)
			}
		}
	})

	// Stop returns after the line is cleared, so that no message mixes with it.
	return sync.OnceFunc(func() { close(end); wg.Wait() })
}

// Watch shows the number of rows read so far as progress.
func Watch[T any](c *Console, rows iter.Seq2[T, error]) (counted iter.Seq2[T, error], stop func()) {
	var n atomic.Int64
	stop = c.Progress(func() string { return "reading: " + tty.Number(n.Load()) + " rows" })

	return func(yield func(T, error) bool) {
		for v, err := range rows {
			n.Add(1)
			if !yield(v, err) {
				return
			}
		}
	}, stop
}

// StopSignals returns the signals that ask the program to end, without those
// that the program was started to ignore.
func StopSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, signal.Ignored)
}

// Throttled passes warnings on, at most one a second of each subject, with the number
// of those that it dropped.
type Throttled struct {
	Warn     func(format string, args ...any)
	mu       sync.Mutex
	since    time.Time // start of a second
	subjects []string  // of the warnings in it
	dropped  int
}

// throttledSubjects is the number of subjects that are named in a second: clients may
// choose them, and must not fill the screen.
const throttledSubjects = 10

// Report passes an error without a subject on as a warning, or drops it.
func (t *Throttled) Report(err error) { t.ReportOf("", err) }

// ReportOf passes an error of a subject on as a warning, or drops it.
func (t *Throttled) ReportOf(subject string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.since) >= time.Second {
		t.since, t.subjects = now, t.subjects[:0]
	}
	if slices.Contains(t.subjects, subject) || len(t.subjects) == throttledSubjects {
		t.dropped++
		return
	}
	t.subjects = append(t.subjects, subject)

	if t.dropped > 0 {
		t.Warn("%v; %s before it not shown", err, Count(t.dropped, "error"))
		t.dropped = 0
		return
	}
	t.Warn("%v", err)
}
