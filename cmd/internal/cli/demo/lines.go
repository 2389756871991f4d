package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// lines is a display that prints a line for each event and, once a second, the
// totals.
type lines struct {
	out    io.Writer
	begun  bool
	second time.Duration // when to print the totals next
}

func (l *lines) show(f frame) error {
	// A store that cannot be opened causes no output.
	if f.SettingUp {
		return nil
	}

	if !l.begun {
		l.begun, l.second = true, time.Second
		if _, err := fmt.Fprintf(
			l.out, "zae-limiter demo: a small LLM gateway for %s on %s\n", f.Duration, f.setting(),
		); err != nil {
			return err
		}
	}

	for _, e := range f.Events {
		if _, err := fmt.Fprintln(l.out, e.line(false)); err != nil {
			return err
		}
	}

	if f.Elapsed < l.second {
		return nil
	}

	l.second = f.Elapsed.Truncate(time.Second) + time.Second
	_, err := fmt.Fprintf(l.out, "%s  %s\n", tty.Right(seconds(f.Elapsed), 5), f.Totals)
	return err
}

func (l *lines) close() error { return nil }
