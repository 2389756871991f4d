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
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}
