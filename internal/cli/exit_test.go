package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("disk full"), 1},
		{usagef("unknown flag"), 2},
		{fmt.Errorf("demo: %w", usagef("unknown flag")), 2},
		{fmt.Errorf("acquire: %w", &limiter.ExceededError{}), 3},
		{fmt.Errorf("3 limits differ: %w", errDrift), 4},
		{fmt.Errorf("list: %w", errLeft), 141},
		{errors.Join(errLeft, errors.New("disk full")), 1},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

// Where the reader of the output has left, only what else failed is said.
func TestLeavingIsNotSaid(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errLeft, ""},
		{fmt.Errorf("list: %w", errors.Join(errLeft, nil)), ""},
		{errors.Join(errLeft, errors.New("disk full")), "disk full"},
	} {
		if got := sentence(c.err); got != c.want {
			t.Errorf("%v is said as %q, want %q", c.err, got, c.want)
		}
	}
}
