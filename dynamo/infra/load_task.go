package infra

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// LoadTaskOptions configures a task with a Locust master. The zero value of a
// field keeps the setting of the load stack.
type LoadTaskOptions struct {
	Options
	Scenario        string
	Classes         []string // of users; default: all
	MaxWorkers      int
	MinWorkers      int
	UsersPerWorker  int
	StartupLead     *time.Duration
	CPU, Memory     int // units of 1/1024 vCPU, and MiB
	PoolConnections int // of each worker to DynamoDB
	// Standalone runs one worker beside the master, in place of the orchestrator.
	Standalone bool
	// Progress, if not nil, is called with each state that a call waits for.
	Progress func(state string)
}

// overridden reports whether a setting differs from the load stack's.
func (o *LoadTaskOptions) overridden() bool {
	return o.MaxWorkers+o.MinWorkers+o.UsersPerWorker+o.CPU+o.Memory+o.PoolConnections > 0 || o.StartupLead != nil ||
		o.Standalone
}

// LoadTask is a running task with a Locust master.
type LoadTask struct {
	Cluster string
	ID      string
	// Started reports that this process started the task. Otherwise it ran before.
	Started bool
	// Ignored reports that a running task is used, so that settings have no effect.
	Ignored bool

	s       *session
	opts    LoadTaskOptions
	runtime string // of the master's container
}

// newTaskSession returns a session for tasks of the load stack of a limiter.
func newTaskSession(ctx context.Context, op, name string, opts *LoadTaskOptions) (*session, error) {
	s, err := newTestSession(ctx, op, name, &opts.Options)
	if err == nil && opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	return s, err
}

// StartLoadTask starts a task of the load stack of a limiter and waits until its
// master can be reached. On every error it stops the task.
func StartLoadTask(ctx context.Context, name string, opts LoadTaskOptions) (*LoadTask, error) {
	s, err := newTaskSession(ctx, "start a task", name, &opts)
	if err != nil {
		return nil, err
	}
	t, err := s.startTask(ctx, opts)
	return t, translateError(ctx, s.op, err)
}

// OpenLoadTask returns the running task of the load stack of a limiter, or starts
// one as StartLoadTask does. With force it replaces a running task if a setting
// differs from the load stack's.
func OpenLoadTask(ctx context.Context, name string, force bool, opts LoadTaskOptions) (*LoadTask, error) {
	s, err := newTaskSession(ctx, "open a task", name, &opts)
	if err != nil {
		return nil, err
	}
	t, err := s.openTask(ctx, force, opts)
	return t, translateError(ctx, s.op, err)
}

func (s *session) openTask(ctx context.Context, force bool, opts LoadTaskOptions) (*LoadTask, error) {
	running, err := s.runningTask(ctx, opts)
	if err != nil {
		return nil, err
	}

	if running == nil {
		return s.startTask(ctx, opts)
	}

	if force && opts.overridden() {
		opts.Progress("stopping the running task")
		if err := running.stopAndWait(ctx); err != nil {
			return nil, err
		}
		return s.startTask(ctx, opts)
	}

	running.Ignored = opts.overridden()
	if err := running.wait(ctx); err != nil {
		return nil, err
	}
	return running, nil
}

// runningTask returns the running task, or nil if there is none.
func (s *session) runningTask(ctx context.Context, opts LoadTaskOptions) (*LoadTask, error) {
	found, _, err := s.containers.listTasks(ctx, taskFilter{
		Cluster: LoadName(s.name), Family: loadMaster(s.name), DesiredStatus: taskRunning,
	})
	if err != nil {
		return nil, s.clusterError(err)
	}

	if len(found) == 0 {
		return nil, nil
	}

	return &LoadTask{Cluster: LoadName(s.name), ID: path.Base(found[0]), s: s, opts: opts}, nil
}

// clusterError explains the error of a missing cluster.
func (s *session) clusterError(err error) error {
	if isMissingCluster(err) {
		return s.noLoadStack()
	}
	return err
}

// noLoadStack returns the error of a missing load stack.
func (s *session) noLoadStack() error {
	deploy := s.remedy(remedy.DeployLoad, s.name)
	return remedy.With(fmt.Errorf("load stack %q: %w; %v creates it", LoadName(s.name), limiter.ErrNotFound, deploy),
		deploy)
}

// startTask starts a task and waits for it. It stops the task on every error.
func (s *session) startTask(ctx context.Context, opts LoadTaskOptions) (*LoadTask, error) {
	opts.Progress("starting a task")

	service, err := s.masterService(ctx)
	if err != nil {
		return nil, err
	}

	t := &LoadTask{Cluster: LoadName(s.name), Started: true, s: s, opts: opts}
	if t.ID, err = s.runTask(ctx, service, opts); err != nil {
		return nil, err
	}

	if err := t.wait(ctx); err != nil {
		return nil, errors.Join(err, t.Stop(ctx))
	}
	return t, nil
}

// masterService returns the service, whose network and capacity a task copies.
func (s *session) masterService(ctx context.Context) (*ecsService, error) {
	var out struct{ Services []ecsService }
	err := s.containers.call(ctx, "DescribeServices", map[string]any{
		"cluster": LoadName(s.name), "services": []string{loadMaster(s.name)},
	}, &out)
	switch {
	case err != nil:
		return nil, s.clusterError(err)
	case len(out.Services) == 0:
		return nil, s.noLoadStack()
	}
	return &out.Services[0], nil
}

// runTask starts a task and returns its ID. An interrupt does not cancel the
// request, since its outcome would be unknown; a task of unknown outcome is
// stopped.
func (s *session) runTask(ctx context.Context, service *ecsService, opts LoadTaskOptions) (id string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}

	// The mark finds the task if its start is not confirmed. As a client token,
	// it keeps a retry by the SDK from starting a second one.
	mark := "zae-limiter/" + strings.ToLower(rand.Text())[:16]

	whole, cancel := cleanupContext(ctx)
	defer cancel()

	in := taskRequest{
		Cluster: LoadName(s.name), ecsService: *service, EnableExecuteCommand: true,
		StartedBy: mark, ClientToken: mark, Overrides: s.overrides(&opts),
	}

	// ECS rejects a request that has both.
	if len(in.CapacityProviderStrategy) > 0 {
		in.LaunchType = ""
	}

	var out struct {
		Tasks    []ecsTask
		Failures []struct{ Reason, Detail string }
	}

	err = s.containers.call(whole, "RunTask", in, &out)
	switch {
	case err != nil:
		return "", errors.Join(err, s.stopMarked(ctx, mark))
	case len(out.Tasks) == 0 && len(out.Failures) > 0:
		f := out.Failures[0]
		return "", fmt.Errorf("ECS did not start the task: %s %s", f.Reason, f.Detail)
	case len(out.Tasks) == 0:
		return "", errors.New("ECS did not start the task and gave no reason")
	}

	return path.Base(out.Tasks[0].TaskArn), nil
}

// stopMarked stops the tasks that were started with a mark.
func (s *session) stopMarked(ctx context.Context, mark string) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()

	found, _, err := s.containers.listTasks(ctx, taskFilter{Cluster: LoadName(s.name), StartedBy: mark})
	if err != nil {
		// The caller has the first error, which has the reason.
		return nil
	}

	for _, arn := range found {
		t := &LoadTask{Cluster: LoadName(s.name), ID: path.Base(arn), s: s}
		err = errors.Join(err, t.Stop(ctx))
	}
	return err
}

// overrides returns what a task has in place of the settings of its definition.
func (s *session) overrides(o *LoadTaskOptions) *taskOverride {
	// Both containers read the scenario: the master its file, the orchestrator
	// its name for the workers.
	both := environmentOf(map[string]string{
		"LOCUSTFILE": o.Scenario, "LOCUST_USER_CLASSES": strings.Join(o.Classes, ","),
	})

	settings := map[string]string{
		"MAX_WORKERS": number(o.MaxWorkers), "MIN_WORKERS": number(o.MinWorkers),
		"USERS_PER_WORKER": number(o.UsersPerWorker), "BOTO3_MAX_POOL": number(o.PoolConnections),
	}

	if o.StartupLead != nil {
		settings["STARTUP_LEAD_TIME"] = strconv.FormatFloat(o.StartupLead.Seconds(), 'f', -1, 64)
	}

	orchestrator := containerOverride{
		Name: OrchestratorContainer, Environment: append(environmentOf(settings), both...),
	}

	// The worker runs in the container of the orchestrator, whose command it
	// replaces.
	if o.Standalone {
		orchestrator.Command = append(
			[]string{
				"zae-limiter", "loadtest", "worker", "--master", "127.0.0.1", "--name", s.name, "--region",
				s.region, o.Scenario,
			},
			o.Classes...,
		)
	}

	return &taskOverride{
		Containers: []containerOverride{{Name: MasterContainer, Environment: both}, orchestrator},
		CPU:        number(max(0, o.CPU)), Memory: number(max(0, o.Memory)),
	}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
