package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func newLoadtestOrchestrate(c *kit.Console) *cobra.Command {
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
