package kit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestConfirm(t *testing.T) {
	for _, answered := range []struct {
		answer string
		want   error
	}{
		{"y\n", nil},
		{"Y\n", nil},
		{" yes \n", nil},
		{"yes", nil},
		{"\n", errNotConfirmed},
		{"n\n", errNotConfirmed},
		{"", errNotConfirmed},
		{"yesterday\n", errNotConfirmed},
		{"no\ny\n", errNotConfirmed},
	} {
		answer, want := answered.answer, answered.want
		var talk bytes.Buffer
		c := &Console{In: strings.NewReader(answer), Err: &talk, CanAsk: true}
		if err := c.Ask(context.Background(), "Sure?"); !errors.Is(err, want) || err != nil &&
			ExitCode(err) != ExitFailed {
			t.Errorf("%q: %v, want %v", answer, err, want)
		}
		if !strings.HasPrefix(talk.String(), "Sure? [y/N]: ") {
			t.Errorf("asked %q", &talk)
		}
		if end := strings.HasSuffix(talk.String(), "\n"); end == strings.HasSuffix(answer, "\n") {
			t.Errorf("%q leaves %q on the screen", answer, &talk)
		}
	}
}

func TestConfirmWithoutATerminal(t *testing.T) {
	c := &Console{In: strings.NewReader("y\n"), Err: io.Discard}
	if err := c.Ask(context.Background(), "Sure?"); ExitCode(err) != ExitUsage {
		t.Errorf("got %v", err)
	}
	conn := &Connection{Console: c, Store: "memory:"}
	if err := conn.Confirm(context.Background(), true, "Sure"); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}

func TestInterruptedPrompt(t *testing.T) {
	silent, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var talk bytes.Buffer
	c := &Console{In: silent, Err: &talk, CanAsk: true}
	err := c.Ask(ctx, "Sure?")
	if !errors.Is(err, errNotConfirmed) || ExitCode(err) != ExitFailed ||
		Message(err) != "interrupted: not confirmed, so nothing was changed" {
		t.Errorf("got %v", err)
	}
	if talk.String() != "Sure? [y/N]: \n" {
		t.Errorf("the screen has %q", &talk)
	}
}
