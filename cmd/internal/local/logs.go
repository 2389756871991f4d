package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// LogOptions configures Logs.
type LogOptions struct {
	Lines  int // how many of the last lines
	Follow bool
}

// Logs copies the log of the engine to out, as UTF-8 with replacements. With Follow
// it continues until the engine or ctx ends; the end of ctx is no error.
func (e *Engine) Logs(ctx context.Context, out io.Writer, o LogOptions) error {
	text := &utf8Writer{to: out}

	var err error
	if e.Container != "" {
		err = e.containerLogs(ctx, text, o)
	} else {
		err = e.copyLog(ctx, text, o)
	}

	if errors.Is(err, context.Canceled) {
		err = nil
	}

	return errors.Join(err, text.flush())
}

// containerLogs copies the log of a container. It is no error if the container goes
// away meanwhile.
func (e *Engine) containerLogs(ctx context.Context, out io.Writer, o LogOptions) error {
	d := e.docker()
	found, err := d.inspect(ctx, e.Container)
	if err != nil {
		return err
	}

	if found == nil {
		return fmt.Errorf("%w: the container %s is gone", ErrNotRunning, e.Container)
	}

	err = d.logs(ctx, out, e.Container, o.Lines, o.Follow)
	// A container that is removed ends the log with an error.
	if err != nil && ctx.Err() == nil {
		if found, failed := d.inspect(ctx, e.Container); failed == nil && found == nil {
			return nil
		}
	}
	return err
}

// copyLog copies the log file of a process.
func (e *Engine) copyLog(ctx context.Context, out io.Writer, o LogOptions) (err error) {
	file, err := os.Open(e.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}

	if _, err := out.Write(lastLines(text, o.Lines)); err != nil || !o.Follow {
		return err
	}

	tick := time.NewTicker(2 * poll)
	defer tick.Stop()

	for {
		// The check comes before the read: a process that ends in between has
		// written its last lines by then.
		alive := e.Process.Alive()
		if _, err := io.Copy(out, file); err != nil || !alive {
			return err
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// lastLines returns the last n lines of a text.
func lastLines(text []byte, n int) []byte {
	if n == 0 {
		return nil
	}

	// The search begins before the last byte, which ends the last line.
	for i := len(text) - 2; i >= 0; i-- {
		if text[i] != '\n' {
			continue
		}

		if n--; n == 0 {
			return text[i+1:]
		}
	}
	return text
}

// utf8Writer replaces bytes that are not UTF-8. It holds a character back until it
// is complete.
type utf8Writer struct {
	to   io.Writer
	rest []byte
}

// Write writes the complete characters.
func (w *utf8Writer) Write(p []byte) (int, error) {
	text := append(w.rest, p...) //nolint:gocritic // rest is replaced below
	// At most three bytes can be the beginning of an incomplete character.
	end := len(text)

	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if first := text[len(text)-back]; utf8.RuneStart(first) {
			if !utf8.FullRune(text[len(text)-back:]) {
				end = len(text) - back
			}
			break
		}
	}

	w.rest = append([]byte(nil), text[end:]...)

	_, err := io.WriteString(w.to, strings.ToValidUTF8(string(text[:end]), "\uFFFD"))
	return len(p), err
}

func (w *utf8Writer) flush() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := io.WriteString(w.to, "\uFFFD")
	return err
}

// tail returns the last lines of a file, or none if it cannot be read.
func tail(name string, n int) []string {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return last(lines(string(text)), n)
}

func last(all []string, n int) []string { return all[max(0, len(all)-n):] }

// lines returns the lines of a text that are not empty.
func lines(text string) (all []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), " \r"); line != "" {
			all = append(all, strings.ToValidUTF8(line, "\uFFFD"))
		}
	}
	return all
}
