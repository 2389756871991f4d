package lambda

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

// loadHandler generates load, by itself or for a Locust master.
type loadHandler struct {
	env       environment
	scenarios []loadtest.Scenario // beside the compiled-in ones
	log       *slog.Logger
	open      func(ctx context.Context, t loadTarget) (limiter.Repository, error)
	work      func(
		ctx context.Context, master string, open func(locust.Test) (locust.Swarm, error), opts *locust.Options,
	) (locust.Totals, error)
	interval time.Duration // between two looks for the namespace that stops a test
}

// stopInterval is the time between two looks for the namespace that stops a test.
const stopInterval = 5 * time.Second

func newLoadHandler(env environment, out io.Writer, scenarios []loadtest.Scenario) (*loadHandler, error) {
	level, err := parseLevel(env.get("LOG_LEVEL", "INFO"))
	if err != nil {
		return nil, err
	}
	return &loadHandler{env, scenarios, newLog(out, level, "loadworker"), openTarget, locust.Work, stopInterval}, nil
}

// handle runs a test, or the users of a Locust master.
func (h *loadHandler) handle(ctx context.Context, raw json.RawMessage) (any, error) {
	log := h.log.With("request_id", requestID(ctx))

	ctx, cancel := withReserve(ctx, time.Now())
	defer cancel()

	answer, err := h.run(ctx, raw, log)
	if err != nil {
		log.Error("Error running the load test: " + err.Error())
		return nil, err
	}

	log.Info("Lambda invocation completed")
	return answer, nil
}

func (h *loadHandler) run(ctx context.Context, raw json.RawMessage, log *slog.Logger) (any, error) {
	job, err := h.parse(raw)
	if err != nil {
		return nil, err
	}

	worker := loadtest.WorkerID(requestID(ctx))
	log.Info("Lambda invocation started", "function_name", lambdacontext.FunctionName, "mode", job.Mode, "scenario",
		job.scenario.Name,
		"classes", job.classes, "table_name", job.target.table)

	if job.JoinBefore > 0 && time.Now().Unix() > job.JoinBefore {
		log.Warn("This worker began too late and has a successor")
		return loadtest.WorkerEnd{Status: "worker_expired", Worker: worker}, nil
	}

	repo, err := h.open(ctx, job.target)
	if err != nil {
		return nil, err
	}
	defer func() { _ = repo.Close() }() // nothing is buffered

	if job.Mode == loadtest.ModeWorker {
		return h.serveMaster(ctx, repo, job, worker, log)
	}
	return h.runHeadless(ctx, repo, job, log)
}

// loadJob is a parsed invocation.
type loadJob struct {
	loadtest.InvocationConfig
	scenario loadtest.Scenario
	classes  []string // empty for all
	target   loadTarget
	getenv   func(string) string
}

// parse parses an invocation and fills in its defaults.
func (h *loadHandler) parse(raw json.RawMessage) (*loadJob, error) {
	var in loadtest.Invocation
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("decode the request for a load test: %w", err)
	}

	if err := in.Config.Validate(); err != nil {
		return nil, err
	}

	job := &loadJob{InvocationConfig: in.Config}
	job.Mode = cmp.Or(job.Mode, loadtest.ModeHeadless)
	job.UserClasses = cmp.Or(job.UserClasses, h.env.get("LOCUST_USER_CLASSES", ""))
	job.classes = job.Classes()

	job.target = loadTarget{
		table:       cmp.Or(job.TargetStackName, h.env.get("TARGET_STACK_NAME", "")),
		region:      cmp.Or(job.Region, h.env.get("TARGET_REGION", "")),
		connections: h.env.get("BOTO3_MAX_POOL", ""),
	}

	if job.PoolConnections > 0 {
		job.target.connections = strconv.Itoa(job.PoolConnections)
	}

	if job.target.table == "" {
		return nil, errors.New("there is no target; set target_stack_name in the request, or TARGET_STACK_NAME")
	}

	var err error
	job.scenario, err = loadtest.Find(cmp.Or(job.Locustfile, h.env.get("LOCUSTFILE", "locustfile.py")),
		h.env.get("ZAE_LIMITER_SCENARIOS", "."), h.scenarios...)
	if err != nil {
		return nil, err
	}

	if job.scenario, err = job.scenario.Select(job.classes); err != nil {
		return nil, err
	}

	job.getenv = job.environment(h.env)
	return job, nil
}

// environment returns the settings of a scenario: those of the request, else the
// environment.
func (j *loadJob) environment(env environment) func(string) string {
	given := map[string]string{"TARGET_STACK_NAME": j.target.table, "TARGET_REGION": j.target.region}

	for name, value := range map[string]*float64{
		"BASELINE_RPM": j.BaselineRPM, "SPIKE_RPM": j.SpikeRPM, "SPIKE_PROBABILITY": j.SpikeProbability,
	} {
		// A setting of 0 differs from none.
		if value != nil {
			given[name] = strconv.FormatFloat(*value, 'f', -1, 64)
		}
	}
	return func(name string) string { return cmp.Or(given[name], env(name)) }
}

// runHeadless runs a test in this process.
func (h *loadHandler) runHeadless(
	ctx context.Context, repo limiter.Repository, job *loadJob, log *slog.Logger,
) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// Lambda cannot end an invocation, so the test asks whether it shall end.
	go h.watchStop(ctx, repo, job.TestID, cancel)

	result, err := loadtest.Run(ctx, repo, job.scenario, &loadtest.Options{
		ID: job.TestID, Users: cmp.Or(job.Users, 10), SpawnRate: cmp.Or(job.SpawnRate, 5), Duration: job.Duration(),
		Getenv:      job.getenv,
		StopTimeout: tableTimeout,
	})

	switch {
	// A test that made requests has statistics worth reporting, even if its end
	// failed.
	case err != nil && result.Total.Requests == 0:
		return nil, err
	case err != nil:
		log.Error("Error ending the load test: " + err.Error())
	}
	return result.Summary(), nil
}

// watchStop calls stop once the caller of the test has registered the namespace
// that stops it. It ends with ctx.
func (h *loadHandler) watchStop(ctx context.Context, repo limiter.Repository, testID string, stop func()) {
	if testID == "" {
		return
	}

	tick := time.NewTicker(h.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := repo.Namespace(ctx, loadtest.StopNamespace(testID)); err == nil {
				stop()
				return
			}
		}
	}
}

// serveMaster runs users for a Locust master until it ends, or time does.
func (h *loadHandler) serveMaster(
	ctx context.Context, repo limiter.Repository, job *loadJob, worker string, log *slog.Logger,
) (any, error) {
	master := net.JoinHostPort(job.MasterHost, strconv.Itoa(cmp.Or(job.MasterPort, 5557)))
	var names []string
	for _, c := range job.scenario.Classes {
		names = append(names, c.Name)
	}

	totals, err := h.work(ctx, master, func(test locust.Test) (locust.Swarm, error) {
		o := loadtest.SwarmOptions{ID: test.ID, Worker: test.Worker, Record: test.Record, Getenv: job.getenv}
		// Each worker would make up an ID of its own, and they would not share
		// the limits of the test.
		if test.ID == "" {
			o.Namespace = "loadtest-" + job.scenario.Name
			log.Warn("The master names no test, so its namespace stays", "namespace", o.Namespace)
		}
		return loadtest.NewSwarm(repo, job.scenario, &o)
	}, &locust.Options{ID: worker, Scenario: job.scenario.Name, Classes: names, Log: func(text string) {
		log.Info(text)
	}})
	if err != nil {
		return nil, err
	}
	log.Info("The worker has left the master", "requests", totals.Requests, "failures", totals.Failures)
	return loadtest.WorkerEnd{Status: "worker_completed", Worker: worker}, nil
}
