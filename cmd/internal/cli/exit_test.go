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
		{fmt.Errorf("acquire: %w", &limiter.DisabledError{}), 5},
		{fmt.Errorf("list: %w", errBrokenPipe), 141},
		{errors.Join(errBrokenPipe, errors.New("disk full")), 1},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

// With a closed stdout, only other errors are reported.
func TestBrokenPipeIsNotReported(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errBrokenPipe, ""},
		{fmt.Errorf("list: %w", errors.Join(errBrokenPipe, nil)), ""},
		{errors.Join(errBrokenPipe, errors.New("disk full")), "disk full"},
	} {
		if got := errorText(c.err); got != c.want {
			t.Errorf("%v is said as %q, want %q", c.err, got, c.want)
		}
	}
}
