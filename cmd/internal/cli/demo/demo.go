package demo

import (
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/llm"
)

// Commands returns the constructors of the commands by their names.
func Commands() kit.Commands { return kit.Commands{"demo": newDemo} }

type demoOptions struct {
	out      io.Writer
	duration time.Duration
	seed     uint64
	store    kit.Store
	escrow   bool
	web      webDemo
}

func newDemo(c *kit.Console) *cobra.Command {
	o := demoOptions{duration: 15 * time.Second, seed: rand.Uint64N(1e6), store: kit.TemporaryStore()}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo of a small LLM gateway",
		Long: `Run a small LLM gateway for a few seconds: the keys of two projects call two
models with limits on requests and tokens per minute, and on dollars a month. A
key is charged together with its project. Calls are admitted by estimate and
corrected when the number of tokens is known, which can leave a bucket in debt.
Failed calls give their tokens back, and some keys wait instead of being
refused. The prices are the sample of "zae-limiter prices sample".

On a terminal the demo draws a live table, elsewhere it prints a line for each
event. It runs in real time: limits refill by the minute, and the clock starts
with the first call. A bar shows what is missing of a capacity. Capacities are
small, so that some buckets run empty within seconds.

At the end a summary compares what was admitted with what the limits allowed.
Tokens used beyond the estimates are listed apart, as debt where the bucket did
not hold them. Ctrl-C ends the demo early.

With --escrow, the gateway holds tokens of the store for a moment, so that some
calls need no request. The summary says how many, and the check allows 3 % of a
capacity more. Limits and calls are 20 times as many then, because a small limit
leaves nothing to hold, and one event of 20 is shown.

With --web, the demo is a gateway with an API like OpenAI's and a dashboard, on
http://127.0.0.1:8080/: four entities, a panel to try a request, and background
traffic that can be paused. Its answers are simulated, its limits are real. It
needs no account and no password, so other web pages and, without --insecure,
other machines cannot use it. "zae-limiter loadtest local --url" loads it.`,
		Example: `  zae-limiter demo
  zae-limiter demo --duration 1m
  zae-limiter demo --seed 42 | grep debt
  zae-limiter demo --store sqlite:limits.db
  zae-limiter demo --store dynamodb:limits --escrow
  zae-limiter demo --web`,
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.web.check(cmd); err != nil {
				return err
			}

			if o.web.web {
				return o.web.run(cmd.Context(), c, o.store, o.seed)
			}

			// The wrapper c.out hides whether stdout is a terminal.
			o.out = c.File
			return runDemo(cmd.Context(), o)
		},
	}

	kit.AddFlag(cmd, &o.duration, "duration", "duration", "15s", "how long new calls arrive", kit.ParseDuration)
	kit.AddFlag(cmd, &o.seed, "seed", "number", "",
		"seed of the traffic, to repeat a run (default: random)", kit.ParseSeed)
	kit.AddFlag(cmd, &o.store, "store", "url", "",
		"memory:, sqlite:PATH or dynamodb:NAME; the demo registers a namespace such as "+namespace+
			" in it (default: sqlite in a temporary file)",
		kit.ParseStore)
	cmd.Flags().BoolVar(&o.escrow, "escrow", false,
		"hold tokens of the store for a moment, so that some calls need no request")

	o.web.addFlags(cmd)
	return cmd
}

func runDemo(ctx context.Context, o demoOptions) error {
	prices, err := llm.ParsePrices("the sample of prices", []byte(kit.SamplePrices))
	if err != nil {
		return err
	}

	screen := tty.OpenScreen(o.out)

	return run(ctx, options{
		Open: func(ctx context.Context) (limiter.Repository, error) {
			return o.store.Open(ctx, kit.OpenOptions{Access: kit.Create})
		},
		Store: o.store.Name, Escrow: o.escrow, Seed: o.seed, Duration: o.duration,
		Out: o.out, Screen: screen, Style: tty.Style(screen != nil) && tty.StyleFromEnv(), Prices: prices.Price,
	})
}
