package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// errDeclined ends a command that was told not to go on.
var errDeclined = errors.New("not confirmed, so nothing was changed")

// confirm asks whether to do something to the chosen store, unless --yes said
// so. Where nobody can be asked, it is an error not to have said so.
func (conn *connection) confirm(ctx context.Context, yes bool, deed string) error {
	if yes {
		return nil
	}
	s, err := conn.chosen()
	if err != nil {
		return err
	}
	where := s.name
	if conn.spaced {
		where += ", namespace " + conn.space()
	}
	return conn.ask(ctx, visible(fmt.Sprintf("%s (%s)?", deed, where)))
}

// ask is nil if the answer is yes.
func (c *console) ask(ctx context.Context, question string) error {
	if !c.asks {
		return usagef("this needs --yes, since there is no terminal to ask: %s", question)
	}
	fmt.Fprintf(c.err, "%s [y/N]: ", question)
	answer := make(chan string, 1)
	go func() { // ends with the program if nobody answers
		line, _ := bufio.NewReader(c.in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(c.err)
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return errDeclined
	case <-ctx.Done():
		fmt.Fprintln(c.err)
		return fmt.Errorf("interrupted: %w", errDeclined)
	}
}
