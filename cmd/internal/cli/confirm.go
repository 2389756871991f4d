package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// errNotConfirmed ends a command that the user did not confirm.
var errNotConfirmed = errors.New("not confirmed, so nothing was changed")

// confirm asks the user to confirm an action on the selected store, unless yes is
// set. Without a terminal to ask on it returns a usage error.
func (conn *connection) confirm(ctx context.Context, yes bool, action string) error {
	if yes {
		return nil
	}

	s, err := conn.selectStore()
	if err != nil {
		return err
	}

	where := s.name
	if conn.usesNamespace {
		where += ", namespace " + conn.namespaceName()
	}

	return conn.ask(ctx, tty.Visible(fmt.Sprintf("%s (%s)?", action, where)))
}

// ask asks a question on the terminal and returns nil if the answer is yes.
func (c *console) ask(ctx context.Context, question string) error {
	if !c.canAsk {
		return usagef("this needs --yes, since there is no terminal to ask: %s", question)
	}

	line, err := c.readAnswer(ctx, question+" [y/N]")
	if err != nil {
		return err
	}

	switch strings.ToLower(line) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}

// readAnswer asks a question on the terminal and returns the answer without spaces
// around it.
func (c *console) readAnswer(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(c.err, "%s: ", question)

	answer := make(chan string, 1)
	// Reading a terminal cannot be cancelled, so the goroutine ends with the
	// program if there is no answer.
	go func() {
		line, _ := bufio.NewReader(c.in).ReadString('\n')
		answer <- line
	}()

	select {
	case line := <-answer:
		// Without the user's Enter, as at the end of the input, the cursor is
		// still behind the question.
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(c.err)
		}
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		fmt.Fprintln(c.err)
		return "", fmt.Errorf("interrupted: %w", errNotConfirmed)
	}
}
