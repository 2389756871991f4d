package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

type tuneOptions struct {
	accountTest
	loadtest.TuneOptions
	spawnRate float64
	json      bool
}

func newTune(c *kit.Console, p Program) *cobra.Command {
	o := &tuneOptions{
		accountTest: newAccountTest(c, p), spawnRate: loadtest.DefaultSpawnRate,
		TuneOptions: loadtest.TuneOptions{
			MaxUsers: 40, Threshold: 0.8, StepDuration: 30 * time.Second, BaselineDuration: time.Minute,
		},
	}
	cmd := &cobra.Command{
		Use:   "tune -f SCENARIO [CLASS...]",
		Short: "Find how many users one worker function can run",
		Long: `Find how many users one worker function of a load stack can run before it slows
them down. The efficiency of a number of users is the median latency of one
user, measured first, over theirs. A search finds the most users with an
efficiency of at least --threshold, in six or seven invocations for up to 40
users. A step with more than 1 % of failures is not efficient, since failures
can be quick.

A baseline with fewer than 100 requests is repeated for longer, within the
function's timeout. A baseline with failures is an error.

` + kit.StackHelp,
		Example: "  zae-limiter loadtest tune -n my-app -f max_rps\n  zae-limiter loadtest tune -n my-app -f " +
			"simple --max-users 100 --threshold 0.9",
		RunE: func(cmd *cobra.Command, args []string) error { return runTune(cmd.Context(), o, args) },
	}

	o.addTo(cmd)
	kit.AddFlag(cmd, &o.MaxUsers, "max-users", "number", "40", "the most users to try", parseUsers)
	kit.AddFlag(cmd, &o.Threshold, "threshold", "share", "0.80", "the least efficiency, above 0 and at most 1",
		parseThreshold)
	kit.AddFlag(cmd, &o.StepDuration, "step-duration", "duration", "30s",
		"length of each step; a plain number is seconds", parseSeconds)
	kit.AddFlag(cmd, &o.BaselineDuration, "baseline-duration", "duration", "60s",
		"length of the baseline; a plain number is seconds", parseSeconds)
	kit.AddFlag(cmd, &o.spawnRate, "spawn-rate", "number", "10", "users started a second", parsePositive)
	kit.AddJSON[tuningJSON](cmd, &o.json, kit.AnObject, tuneListing.Columns)

	return cmd
}

func parseThreshold(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	// The comparison is negated, so that NaN is out of range, too.
	if err != nil || !(f > 0 && f <= 1) {
		return 0, errors.New("must be a number above 0 and at most 1, such as 0.8")
	}

	return f, nil
}

// tuningJSON is the output of loadtest tune as JSON.
type tuningJSON struct {
	Optimum  int            `json:"users_per_worker" doc:"the most users with enough efficiency"`
	RPS      float64        `json:"requests_per_second" doc:"of one worker with these users"`
	P50      float64        `json:"floor_p50" doc:"median latency of one user, ms"`
	P95      float64        `json:"floor_p95" doc:"95th percentile of the latency of one user, ms"`
	P99      float64        `json:"floor_p99" doc:"99th percentile of the latency of one user, ms"`
	Complete bool           `json:"complete" doc:"whether the search reached its end"`
	Steps    []tuneStepJSON `json:"steps"`
}

// FieldDocs returns the texts that are too long for tags.
func (tuningJSON) FieldDocs() map[string]string {
	return map[string]string{
		"steps": "in the order of their runs: users, baseline, optimum, requests_per_second, p50, p95, p99, " +
			"requests, failures, failing, efficiency",
	}
}

type tuneStepJSON struct {
	Users      int     `json:"users"`
	Baseline   bool    `json:"baseline"`
	Optimum    bool    `json:"optimum"`
	RPS        float64 `json:"requests_per_second"`
	P50        float64 `json:"p50"`
	P95        float64 `json:"p95"`
	P99        float64 `json:"p99"`
	Requests   int64   `json:"requests"`
	Failures   int64   `json:"failures"`
	Failing    bool    `json:"failing"`
	Efficiency float64 `json:"efficiency"`
}

// tuneListing prints the steps of a search.
var tuneListing = kit.Listing[tuneStepJSON]{
	Columns: []kit.Column{
		{Title: "users", Right: true},
		{Title: "RPS", Right: true},
		{Title: "p50", Right: true},
		{Title: "p95", Right: true},
		{Title: "p99", Right: true},
		{Title: "reqs", Right: true},
		{Title: "efficiency", Right: true},
		{Title: "mark"},
	},
	Row: func(s tuneStepJSON) []kit.Cell {
		mark := ""
		switch {
		case s.Failing || s.Baseline && s.Failures > 0:
			mark = fmt.Sprintf("%.0f%% failed", math.Ceil(100*share(s.Failures, s.Requests)))
		case s.Optimum:
			mark = "optimum"
		case s.Baseline:
			mark = "baseline"
		}

		efficiency := strconv.FormatFloat(100*s.Efficiency, 'f', 0, 64) + "%"
		return []kit.Cell{
			kit.Number(int64(s.Users)), oneDecimal(s.RPS), millis(s.P50), millis(s.P95), millis(s.P99),
			kit.Number(s.Requests),
			{Display: efficiency, Plain: efficiency},
			kit.Text(mark),
		}
	},
}

func runTune(ctx context.Context, o *tuneOptions, args []string) error {
	if err := o.choose(args); err != nil {
		return err
	}

	name, opts, err := o.Target()
	if err != nil {
		return err
	}

	worker, err := infra.FindLoadWorker(ctx, name, &opts)
	if err != nil {
		return kit.StackError(err)
	}
	// The function stops its users when a tenth of its time is left.
	if most := worker.Timeout() * 9 / 10; o.StepDuration > most {
		o.Warn("--step-duration %v is more than 90 %% of the function's timeout of %v, so steps will end after %v",
			o.StepDuration, worker.Timeout(), most)
	}

	const reserve = 30 * time.Second
	o.MaxDuration = max(time.Second, worker.Timeout()-reserve)

	o.Report = func(s loadtest.TuneStep) {
		failures := ""
		if s.Failures > 0 {
			failures = ", " + kit.Count(int(s.Failures), "failure")
		}
		o.Say("  %s: p50 %s ms, %.1f requests/s, efficiency %.0f%%%s", kit.Count(s.Users, "user"),
			milliText(inMillis(s.P50)), s.RPS, 100*s.Efficiency, failures)
	}

	tuning, err := loadtest.Tune(ctx, o.measure(worker, name), &o.TuneOptions)
	if len(tuning.Steps) == 0 {
		return kit.StackError(err)
	}
	// A search that failed shows the steps that it has made.
	if printed := o.printTuning(name, tuning, err == nil); printed != nil {
		return printed
	}

	return err
}

// measure returns a function that runs a number of users in the worker function.
func (o *tuneOptions) measure(
	worker *infra.LoadWorker, name string,
) func(context.Context, int, time.Duration) (loadtest.Measurement, error) {
	return func(ctx context.Context, users int, d time.Duration) (loadtest.Measurement, error) {
		o.Say("measuring %s of %s for %v", kit.Count(users, "user"), o.what(), d)

		began := time.Now()
		stop := follow(o.accountTest.Stack.Console, func() string {
			return fmt.Sprintf("measuring %s: %s of %v", kit.Count(users, "user"),
				tty.Duration(time.Since(began).Truncate(time.Second)), d)
		})
		defer stop()

		f := &functionTest{Stack: o.Stack, worker: worker, table: name, id: loadtest.NewID()}
		summary, err := f.run(ctx, loadtest.InvocationConfig{
			Locustfile: o.scenario, UserClasses: joinClasses(o.classes), Users: users, SpawnRate: o.spawnRate,
			DurationSeconds: d.Seconds(), TestID: f.id,
		})

		if err == nil {
			// A step that was cut short by an interrupt does not count.
			err = ctx.Err()
		}

		return summary.Measurement(), err
	}
}

// printTuning prints the steps and, after a complete search, its result.
func (o *tuneOptions) printTuning(name string, t loadtest.Tuning, complete bool) error {
	shape := tuningJSON{
		Optimum: t.Optimum.Users, RPS: t.Optimum.RPS, P50: inMillis(t.Baseline.P50), P95: inMillis(t.Baseline.P95),
		P99: inMillis(t.Baseline.P99), Complete: complete,
	}

	for i, s := range t.Steps {
		shape.Steps = append(shape.Steps, tuneStepJSON{
			// Two steps may have equal figures, and only one of them is the
			// optimum.
			s.Users, s.Baseline, complete && s == t.Optimum && i == lastStep(t, s), s.RPS, inMillis(s.P50),
			inMillis(s.P95), inMillis(s.P99), s.Requests, s.Failures, s.Failing(), s.Efficiency,
		})
	}

	if o.json {
		return o.PrintJSON(shape)
	}

	if err := tuneListing.Print(o.Console, false, kit.Each(shape.Steps)); err != nil || !complete {
		return err
	}

	o.Done("%s per worker: %.1f requests/s, with a floor of p50 %s ms, p95 %s ms, p99 %s ms",
		kit.Count(t.Optimum.Users, "user"), t.Optimum.RPS,
		milliText(shape.P50), milliText(shape.P95), milliText(shape.P99))

	for _, users := range []int{100, 500, 1000} {
		words := []string{
			"loadtest", "run", "-n", name, "-f", o.scenario, "--users", strconv.Itoa(users), "--workers",
			strconv.Itoa(t.Workers(users)),
		}
		o.Say("  %s", o.Place().Command(append(words, o.classes...)...))
	}

	return nil
}

// lastStep returns the index of the last step that equals s.
func lastStep(t loadtest.Tuning, s loadtest.TuneStep) (last int) {
	for i, other := range t.Steps {
		if other == s {
			last = i
		}
	}

	return last
}

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
