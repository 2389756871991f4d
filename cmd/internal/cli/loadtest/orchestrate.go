package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func newOrchestrate(c *kit.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "orchestrate",
		Short: "Keep the workers of a distributed load test running",
		Long: `Keep the workers of a distributed load test running. The task of a load stack
runs this beside its Locust master, and there is no other use for it. It invokes
the worker function as often as the users of the master need it, replaces
functions before their time ends, and ends when no test has run for a while.

The environment configures it; times are in seconds:

  WORKER_FUNCTION_NAME  the worker function
  MASTER_PORT           port of the master for workers (5557)
  LOCUST_WEB_PORT       port of the master's web page (8089)
  POLL_INTERVAL         time between two looks at the master, 1 to 3600 (5)
  PENDING_TIMEOUT       time that a worker may take to connect, above
                        POLL_INTERVAL + 5 and at most 900 (30)
  LAMBDA_TIMEOUT        timeout of the worker function, 60 to 900 (300)
  REPLACEMENT_PCT       share of it after which a worker is replaced, above 0
                        and at most 1 (0.8)
  IDLE_TIMEOUT          time without a test after which this ends, 1 to 86400
                        (900)
  USERS_PER_WORKER      users of one worker, 1 to 100000 (10)
  MIN_WORKERS           the fewest workers, 1 to 1000 (1)
  MAX_WORKERS           the most workers, 1 to 1000 (no limit)
  STARTUP_LEAD_TIME     how far ahead workers start, 0 to 120 (20)
  LOCUSTFILE            the scenario
  LOCUST_USER_CLASSES   classes of its users, separated by commas (all)
  BOTO3_MAX_POOL        connections of a worker to DynamoDB (1000)`,
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runOrchestrate(cmd.Context(), c, os.Getenv) },
	}
}

func runOrchestrate(ctx context.Context, c *kit.Console, getenv func(string) string) error {
	settings, err := readOrchestration(getenv)
	if err != nil {
		return err
	}

	o := settings.OrchestrateOptions
	if c.Poll > 0 {
		o.Interval = c.Poll
	}

	function, scenario := getenv("WORKER_FUNCTION_NAME"), getenv("LOCUSTFILE")
	if function == "" || scenario == "" {
		return kit.Usagef("WORKER_FUNCTION_NAME and LOCUSTFILE must be set; the task of a load stack sets them")
	}

	address, err := infra.TaskAddress(ctx, getenv("ECS_CONTAINER_METADATA_URI_V4"))
	if err != nil {
		return err
	}

	worker, err := infra.LoadWorkerByName(ctx, function, nil)
	if err != nil {
		return err
	}

	master := loadtest.Master{URL: fmt.Sprintf("http://127.0.0.1:%d", settings.webPort)}
	config := loadtest.InvocationConfig{
		Mode: loadtest.ModeWorker, Locustfile: scenario, UserClasses: getenv("LOCUST_USER_CLASSES"),
		MasterHost: address, MasterPort: settings.port,
		PoolConnections: settings.pool,
	}

	o.Stats = master.Stats
	o.Invoke = func(ctx context.Context, deadline time.Time) (string, error) {
		return startWorker(ctx, worker, config, deadline)
	}
	o.Report = reportDecisions(c)

	c.Say("keeping workers of %s for the master at %s:%d", function, address, settings.port)
	if err := loadtest.Orchestrate(ctx, o); err != nil {
		return kit.StackError(err)
	}

	c.Done("no test has run for %v", o.IdleTimeout)
	return nil
}

// connectTime is how long a worker takes to connect after its start. A worker that
// starts later than this before its deadline would be too late.
const connectTime = 5 * time.Second

// invokeTimeout limits one invocation with its retries, so that a throttled account
// does not keep the orchestrator from looking at its master.
const invokeTimeout = 10 * time.Second

// startWorker invokes a worker that has to connect before a deadline, and returns
// the ID that it will have at the master.
func startWorker(
	ctx context.Context, worker *infra.LoadWorker, config loadtest.InvocationConfig, deadline time.Time,
) (string, error) {
	config.JoinBefore = deadline.Add(-connectTime).Unix()
	request, err := json.Marshal(loadtest.Invocation{Config: config})
	if err != nil {
		return "", err
	}

	ctx, cancel := context.WithTimeout(ctx, invokeTimeout)
	defer cancel()

	id, err := worker.Start(ctx, request)
	// The orchestrator takes "" for an unknown ID, so it must not become the name
	// of a worker.
	if err != nil || id == "" {
		return "", err
	}

	return loadtest.WorkerID(id), nil
}

// reportDecisions returns a function that reports decisions that differ from the
// one before, and every error once.
func reportDecisions(c *kit.Console) func(loadtest.Decision, error) {
	var last loadtest.Decision
	var lastErr string

	return func(d loadtest.Decision, err error) {
		text := ""
		if err != nil {
			text = kit.Message(err)
		}
		if text != "" && text != lastErr {
			c.Warn("%s", text)
		}
		lastErr = text

		if d != last {
			c.Say("%s: %s, %d of %d workers, %d pending, %d expiring; invoking %d", orDash(d.State),
				kit.Count(d.Users, "user"), d.Connected, d.Desired, d.Pending, d.Expiring, d.Invoke)
		}

		last = d
	}
}

func orDash(state string) string {
	if state == "" {
		return "no master"
	}
	return state
}

// Limits of load tests in an account.
const (
	maxLoadWorkers    = 1000
	maxUsersPerWorker = 100_000
	maxConnections    = 100_000
	maxLead           = 120 * time.Second
)

// orchestration holds the numbers in the environment of an orchestrator.
type orchestration struct {
	loadtest.OrchestrateOptions
	port, webPort int
	pool          int // 0 for the default
}

// readOrchestration reads the environment of an orchestrator.
func readOrchestration(getenv func(string) string) (o orchestration, err error) {
	n := &numbers{getenv: getenv}
	o.Interval, o.Lifetime, o.IdleTimeout = n.seconds("POLL_INTERVAL", 5, 1, 3600), n.seconds("LAMBDA_TIMEOUT", 300,
		60, 900), n.seconds("IDLE_TIMEOUT", 900, 1, 86_400)
	// A worker gets a deadline that is earlier by connectTime, and at least one
	// look at the master must fall into the rest.
	least := o.Interval.Seconds() + connectTime.Seconds()
	o.PendingTimeout = inSeconds(n.read("PENDING_TIMEOUT", 30,
		fmt.Sprintf("must be a number of seconds above POLL_INTERVAL + 5, here %v, and at most 900", least),
		func(f float64) bool { return f > least && f <= 900 }))

	o.Replacement = n.read("REPLACEMENT_PCT", 0.8, "must be a number above 0 and at most 1", func(f float64) bool {
		return f > 0 && f <= 1
	})

	o.UsersPerWorker = n.whole("USERS_PER_WORKER", 10, maxUsersPerWorker)
	o.MinWorkers, o.MaxWorkers = n.whole("MIN_WORKERS", 1, maxLoadWorkers), n.whole("MAX_WORKERS", 0, maxLoadWorkers)

	if o.Lead = n.seconds("STARTUP_LEAD_TIME", 20, 0, maxLead.Seconds()); o.Lead == 0 {
		// In OrchestrateOptions 0 is the default, so -1 stands for none.
		o.Lead = -1
	}

	o.port, o.webPort = n.whole("MASTER_PORT", 5557, math.MaxUint16), n.whole("LOCUST_WEB_PORT", 8089, math.MaxUint16)
	o.pool = n.whole("BOTO3_MAX_POOL", 0, maxConnections)
	// MAX_WORKERS is 0 if it is not set, which is no limit.
	if n.err == nil && o.MaxWorkers > 0 && o.MinWorkers > o.MaxWorkers {
		return o, kit.Usagef("MIN_WORKERS %d is more than MAX_WORKERS %d", o.MinWorkers, o.MaxWorkers)
	}

	return o, n.err
}

// numbers reads numbers from the environment. It keeps the first error.
type numbers struct {
	getenv func(string) string
	err    error
}

// read returns the value of a variable, or fallback if that is empty. The result
// must be valid; rule says when it is.
func (n *numbers) read(name string, fallback float64, rule string, valid func(float64) bool) float64 {
	text := strings.TrimSpace(n.getenv(name))
	if text == "" {
		text = strconv.FormatFloat(fallback, 'f', -1, 64)
	}

	f, err := strconv.ParseFloat(text, 64)
	if err == nil && valid(f) {
		return f
	}

	if n.err == nil {
		n.err = kit.Usagef("invalid %s %q: %s", name, kit.Clip(text), rule)
	}

	return fallback
}

// seconds returns a duration in a range of seconds.
func (n *numbers) seconds(name string, fallback, least, most float64) time.Duration {
	return inSeconds(n.read(name, fallback, fmt.Sprintf("must be a number of seconds from %v to %v", least, most),
		func(f float64) bool {
			return f >= least && f <= most
		}))
}

// whole returns a whole number from 1 to most. A variable that is empty may have
// the fallback 0.
func (n *numbers) whole(name string, fallback, most int) int {
	// The fallback may be 0, which read would reject.
	if strings.TrimSpace(n.getenv(name)) == "" {
		return fallback
	}

	return int(n.read(name, float64(fallback), fmt.Sprintf("must be a whole number from 1 to %d", most),
		func(f float64) bool { return f >= 1 && f <= float64(most) && f == math.Trunc(f) }))
}

func inSeconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
