package cli

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
		c := &console{in: strings.NewReader(answer), err: &talk, canAsk: true}
		if err := c.ask(context.Background(), "Sure?"); !errors.Is(err, want) || err != nil &&
			exitCode(err) != exitFailed {
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
	c := &console{in: strings.NewReader("y\n"), err: io.Discard}
	if err := c.ask(context.Background(), "Sure?"); exitCode(err) != exitUsage {
		t.Errorf("got %v", err)
	}
	conn := &connection{console: c, store: "memory:"}
	if err := conn.confirm(context.Background(), true, "Sure"); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}

func TestInterruptedPrompt(t *testing.T) {
	silent, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var talk bytes.Buffer
	c := &console{in: silent, err: &talk, canAsk: true}
	err := c.ask(ctx, "Sure?")
	if !errors.Is(err, errNotConfirmed) || exitCode(err) != exitFailed ||
		errorText(err) != "interrupted: not confirmed, so nothing was changed" {
		t.Errorf("got %v", err)
	}
	if talk.String() != "Sure? [y/N]: \n" {
		t.Errorf("the screen has %q", &talk)
	}
}
