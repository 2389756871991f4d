package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

type localOptions struct {
	*kit.Connection
	choice          scenarioChoice
	users           int
	spawnRate, rate float64
	duration        time.Duration
	shape           string
	seed            uint64
	failIf          []loadtest.Condition
	html            string
	json            bool
	loadUI
	chat   chatLoad
	output kit.Format

	usersGiven, durationGiven bool
}

func newLocal(c *kit.Console, p Program) *cobra.Command {
	o := &localOptions{
		Connection: &kit.Connection{Console: c, Temporary: true}, choice: scenarioChoice{program: p},
		users: loadtest.DefaultUsers, spawnRate: loadtest.DefaultSpawnRate, duration: loadtest.DefaultDuration,
		seed: rand.Uint64N(1e6) + 1,
	}
	cmd := &cobra.Command{
		Use:   "local SCENARIO [CLASS...]",
		Short: "Run a scenario in this process",
		Long: `Run a scenario in this process: with all its classes of users, or with the
classes given. SCENARIO is a name that "loadtest scenarios" lists, or a YAML
file.

In the closed model, --users take turns: each waits for its call to end before
it starts the next one. In the open model, --rate tasks start each second,
however long earlier ones take, and latency counts from the time at which a task
should have started. So a store that stalls cannot hide it.

On a terminal a table shows the test as it runs, elsewhere lines on stderr do.
At the end comes a report on stdout, and --html writes it as a page with charts.
The test checks every admission against the limits while it runs, and fails if
more was admitted than they allow. Ctrl-C ends the test early; the report covers
the time until then. With --fail-if the exit code is 1 if one of the conditions
holds. They compare p50, p95, p99, avg, min, max, failures, refused or rps.

The store is --store, else --name, else $ZAEL_STORE, else $ZAEL_STACK (a table,
like --name), else a temporary file. The test removes what it stored.

With --url, the test has no scenario and no store: a few users call the chat
completions of a server, such as "zae-limiter demo --web", with the API keys in
turn. It counts answers, refusals (status 429) and failures, and stores nothing.`,
		Example: `  zae-limiter loadtest local simple
  zae-limiter loadtest local max_rps MaxRpsUser --users 100 --html report.html
  zae-limiter loadtest local llm_gateway --rate 500 --fail-if 'p99>50ms'
  zae-limiter loadtest local chat.yaml --shape Morning --name my-app
  zae-limiter loadtest local --url http://127.0.0.1:8080`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.chat.check(cmd, args); err != nil {
				return err
			}

			o.usersGiven, o.durationGiven = cmd.Flags().Changed("users"), cmd.Flags().Changed("duration")
			if o.chat.url != nil {
				return runChat(cmd.Context(), o)
			}

			return runLocal(cmd.Context(), o, args)
		},
	}

	o.AddStore(cmd)
	o.choice.addFlags(cmd)
	o.addLoad(cmd)

	flags := cmd.Flags()
	flags.StringVar(&o.html, "html", "", "`file` for the report as a page with charts")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON, same as -o json")
	o.loadUI.addFlags(cmd)
	o.chat.addFlags(cmd)

	kit.AddFlag(cmd, &o.failIf, "fail-if", "conditions", "",
		"exit with 1 if one of these holds, such as p99>50ms,failures>0.1%", loadtest.ParseConditions)
	kit.AddFlagP(cmd, &o.output, kit.OutputFlag, "o", "format", "",
		"output format: json, table (the default), or tsv with a line for each call", parseReportFormat(&o.json))

	_ = cmd.RegisterFlagCompletionFunc(kit.OutputFlag,
		kit.CompleteWords(kit.FormatJSON, kit.FormatTable, kit.FormatTSV))
	cmd.Annotations = map[string]string{}
	kit.DocumentFields[loadJSON](cmd, "`--json` prints "+kit.AnObject)
	kit.DocumentFields[chatLoadJSON](cmd, "With `--url`, `--json` prints "+kit.AnObject)

	return cmd
}

// addLoad adds the flags that describe the load.
func (o *localOptions) addLoad(cmd *cobra.Command) {
	kit.AddFlag(cmd, &o.users, "users", "number", "20",
		"users of the closed model, or the most at once of the open model (there 1000 if not given; 3 with --url)",
		parseUsers)
	kit.AddFlag(cmd, &o.spawnRate, "spawn-rate", "number", "10", "users started a second", parsePositive)
	kit.AddFlag(cmd, &o.rate, "rate", "number", "",
		"tasks started a second, which selects the open model", parsePositive)
	kit.AddFlag(cmd, &o.duration, "duration", "duration", "1m0s",
		"length of the test; a shape has one of its own, and with --url it is 30s if not given", kit.ParseDuration)
	cmd.Flags().StringVar(&o.shape, "shape", "",
		"`name` of a shape of the scenario, which changes the number of users over time")
	kit.AddFlag(cmd, &o.seed, "seed", "number", "", "seed of random choices (default: random)", kit.ParseSeed)
}

func parseReportFormat(asJSON *bool) func(string) (kit.Format, error) {
	return func(text string) (kit.Format, error) {
		f, err := kit.OneOf(kit.FormatJSON, kit.FormatTable, kit.FormatTSV)(text)
		if f == kit.FormatJSON {
			*asJSON = true
		}
		return f, err
	}
}

func parseUsers(text string) (int, error) {
	const most = 1_000_000
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("must be a whole number from 1 to %d", most)
	}
	return n, nil
}

func parsePositive(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)

	const most = 1_000_000

	// The comparison is negated, since NaN is not above zero, nor is it below.
	if err != nil || f > most || !(f > 0) {
		return 0, fmt.Errorf("must be a number above zero and at most %d, such as 10 or 0.5", most)
	}

	return f, nil
}

// check rejects flags that exclude each other, before the store is opened.
func (o *localOptions) check(s loadtest.Scenario) error {
	if o.rate > 0 && o.shape != "" {
		return kit.Usagef("--rate and --shape exclude each other; give one of them")
	}
	if o.shape == "" {
		return nil
	}

	if o.usersGiven {
		return kit.Usagef(
			"--users and --shape exclude each other, since the shape sets the number of users; give one of them",
		)
	}

	if _, err := s.Shape(o.shape); err != nil {
		return kit.Usagef("%v", err)
	}
	return nil
}

func runLocal(ctx context.Context, o *localOptions, args []string) error {
	s, classes, err := o.choice.find(o.Console, args)
	if err != nil {
		return err
	}
	if err := o.check(s); err != nil {
		return err
	}

	if o.ui {
		return runUI(ctx, o, s, classes)
	}

	page, err := createPage(o.html)
	if err != nil {
		return err
	}

	defer page.discard()
	return o.run(ctx, s, classes, page)
}

// run runs the test and prints its report.
func (o *localOptions) run(ctx context.Context, s loadtest.Scenario, classes []string, page *page) error {
	report, err := o.measure(ctx, s, classes)

	// The settings of a scenario come from the environment, and a wrong one is
	// a usage error.
	if report.Elapsed == 0 && kit.Is[*limiter.InvalidError](err) {
		return kit.Usagef("%v", err)
	}

	if report.Total.Requests == 0 && ctx.Err() != nil {
		return errors.Join(err, fmt.Errorf("the test ended before its first call: %w", ctx.Err()))
	}
	// A test that never ran has no report.
	if report.Elapsed == 0 {
		return err
	}

	if ctx.Err() != nil {
		o.Warn("interrupted; the report covers the time until then")
	}

	if report.Cancelled {
		o.Warn("tasks that had not ended some seconds after the test were cancelled")
	}

	err = errors.Join(err, o.printReport(report))
	if page != nil {
		err = errors.Join(err, page.write(report))
		if err == nil {
			o.Done("wrote %s", o.html)
		}
	}

	return errors.Join(err, failure(report))
}

// measure runs the test on its store.
func (o *localOptions) measure(
	ctx context.Context, s loadtest.Scenario, classes []string,
) (report loadtest.Report, err error) {
	repo, err := o.OpenAs(ctx, kit.OpenOptions{Access: kit.Create, PurgeWait: noPurgeWait, CountCapacity: true})
	if err != nil {
		return report, err
	}

	defer func() { err = errors.Join(err, repo.Close()) }()
	report = loadtest.Report{
		Classes: classes, Load: o.load(), Store: o.storeName(), Version: o.Version, Seed: o.seed,
		Started: time.Now(), Conditions: o.failIf,
	}

	view := o.newLoadView(report, s)
	defer view.close()
	defer context.AfterFunc(ctx, func() {
		// A second interrupt ends the program at once, before the namespace is
		// removed.
		view.Say(
			"interrupted: ending the tasks and removing the namespace; another interrupt would leave it in the store",
		)
	})()

	report.Result, err = loadtest.Run(ctx, repo, s, o.options(classes, repo, view))
	return report, err
}

// noPurgeWait removes a namespace without waiting for callers that know its old
// state: the only callers were users of the test, and they have ended.
const noPurgeWait = -1

// tableSlack is the share of a capacity that a table may admit in excess.
const tableSlack = 0.02

// options returns the options of the test.
func (o *localOptions) options(classes []string, repo limiter.Repository, view *view) *loadtest.Options {
	opts := loadtest.Options{
		Classes: classes, Users: o.users, SpawnRate: o.spawnRate, Rate: o.rate, Shape: o.shape,
		Duration: o.duration, Seed: o.seed,
		Report: view.show, Phase: view.begin, Interval: view.interval, Meter: meterOf(repo),
	}
	// The default of --users belongs to the closed model. With 0 the library
	// uses its default for the open one.
	if o.rate > 0 && !o.usersGiven {
		opts.Users = 0
	}
	// With 0 the library uses the length of the shape.
	if o.shape != "" && !o.durationGiven {
		opts.Duration = 0
	}
	// A plain write on DynamoDB may admit up to this share in excess, which
	// breaks no promise.
	if o.Selected.Dynamo {
		opts.Slack = tableSlack
	}

	return &opts
}

// load describes the load of the test.
func (o *localOptions) load() string {
	switch {
	case o.rate > 0:
		return loadtest.Rate(o.rate) + " tasks a second (open model)"
	case o.shape != "":
		return "shape " + o.shape
	}

	return fmt.Sprintf("%s, %s started a second", kit.Count(o.users, "user"), loadtest.Rate(o.spawnRate))
}

// length returns the planned length of the test.
func (o *localOptions) length(s loadtest.Scenario) time.Duration {
	if shape, err := s.Shape(o.shape); o.shape != "" && err == nil && !o.durationGiven {
		return shape.Length()
	}

	return o.duration
}

// storeName returns the store with its endpoint.
func (o *localOptions) storeName() string {
	name := o.Selected.Name
	if at := o.TableEndpoint(); at != "" && o.Selected.Dynamo {
		name += " at " + at
	}

	return name
}

// failure returns an error if a condition holds or the promise is broken.
func failure(r loadtest.Report) error {
	var failed []error
	for _, c := range r.Conditions {
		if c.Holds(r.Result) {
			failed = append(failed, fmt.Errorf("--fail-if %s holds: %s is %s", c, c.Metric, c.Describe(r.Result)))
		}
	}

	if r.Promise.Broken > 0 {
		failed = append(failed, errors.New("more was admitted than the limits allow"))
	}

	return errors.Join(failed...)
}

// meterOf returns a function that counts the requests to a table, or nil if repo
// is another store.
func meterOf(repo limiter.Repository) func() loadtest.Usage {
	table, ok := repo.(*dynamo.Repository)
	if !ok {
		return nil
	}

	return func() loadtest.Usage {
		s := table.Stats()
		return loadtest.Usage{Requests: s.Requests, ReadUnits: s.ReadUnits, WriteUnits: s.WriteUnits}
	}
}
