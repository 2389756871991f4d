package kit

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
		{Usagef("unknown flag"), 2},
		{fmt.Errorf("demo: %w", Usagef("unknown flag")), 2},
		{fmt.Errorf("acquire: %w", &limiter.ExceededError{}), 3},
		{fmt.Errorf("3 limits differ: %w", ErrDrift), 4},
		{fmt.Errorf("acquire: %w", &limiter.DisabledError{}), 5},
		{fmt.Errorf("list: %w", ErrBrokenPipe), 141},
		{errors.Join(ErrBrokenPipe, errors.New("disk full")), 1},
	} {
		if got := ExitCode(c.err); got != c.want {
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
		{ErrBrokenPipe, ""},
		{fmt.Errorf("list: %w", errors.Join(ErrBrokenPipe, nil)), ""},
		{errors.Join(ErrBrokenPipe, errors.New("disk full")), "disk full"},
	} {
		if got := Message(c.err); got != c.want {
			t.Errorf("%v is said as %q, want %q", c.err, got, c.want)
		}
	}
}
