package cli

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/demo"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

type demoOptions struct {
	out      io.Writer
	duration time.Duration
	seed     uint64
	store    store
}

func newDemo(c *console) *cobra.Command {
	o := demoOptions{duration: 15 * time.Second, seed: rand.Uint64N(1e6), store: temporaryStore()}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a limiter at work in a small LLM gateway",
		Long: `Runs a small LLM gateway for a few seconds: the keys of two projects call two
models, each with limits on requests and tokens per minute. Calls are admitted
by estimate and corrected when the real number of tokens is known, which may
leave a bucket in debt; calls that fail give everything back; some keys wait
instead of being refused. A key is charged together with its project.

On a terminal it draws a live table, otherwise it prints a line for each event.
Its clock is real time: limits refill by the minute, and the seconds count from
the first call. A bar is what is left of a capacity, which is small, so that a
few seconds are enough to see it empty.

It ends with what the limits allowed, what was admitted, and whether the one
ever exceeded the other; what was used beyond the estimates is shown as such,
and as debt where the bucket did not hold it. Ctrl-C ends it early.`,
		Example: `  zae-limiter demo
  zae-limiter demo --duration 1m
  zae-limiter demo --seed 42 | grep debt
  zae-limiter demo --store sqlite:limits.db`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.out = c.file // which may be a terminal
			return runDemo(cmd.Context(), o)
		},
	}
	addFlag(cmd, &o.duration, "duration", "time", "15s", "how long calls arrive", parseDuration)
	addFlag(cmd, &o.seed, "seed", "number", "", "repeat the traffic of an earlier run (default random)", parseSeed)
	addFlag(cmd, &o.store, "store", "url", "", "memory:, sqlite:PATH or dynamodb:NAME, where the namespace "+demo.Namespace+" is registered and used (default sqlite in a temporary file)", parseStore)
	return cmd
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errors.New("a duration is a time above zero, such as 15s or 2m")
	}
	return d, nil
}

func parseSeed(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errors.New("a seed is a whole number, 0 or more")
	}
	return n, nil
}

func runDemo(ctx context.Context, o demoOptions) error {
	screen := tty.OpenScreen(o.out)
	return demo.Run(ctx, demo.Options{
		Open: func(ctx context.Context) (limiter.Repository, error) {
			return o.store.open(ctx, opening{access: creates})
		},
		Store: o.store.name, Seed: o.seed, Duration: o.duration,
		Out: o.out, Screen: screen, Style: tty.Style(screen != nil) && tty.StyleFromEnv(),
	})
}
