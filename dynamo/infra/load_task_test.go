package infra_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// newLoadCloud returns a cloud with the cluster and the service of a load stack.
// No test of it needs a table.
func newLoadCloud(t *testing.T) (c *cloud, name string, opts infra.LoadTaskOptions) {
	t.Helper()
	c, name = &cloud{fakeaws.New(t, ""), t}, "app"
	c.Clusters = []string{"app-load"}
	c.Services = []*fakeaws.Service{{
		Cluster: "app-load", Name: "app-load-master",
		Tasks:   "arn:aws:ecs:eu-west-1:123456789012:task-definition/app-load-master",
		Network: `{"awsvpcConfiguration":{"subnets":["subnet-1","subnet-2"],"securityGroups":["sg-1"],"assignPublicIp":"DISABLED"}}`,
	}}
	opts.Options = c.options()
	opts.Scenario = "max_rps"
	return c, name, opts
}

// running returns the tasks of a cloud that run.
func (c *cloud) running() (ids []string) {
	c.Lock()
	defer c.Unlock()
	for _, t := range c.Tasks {
		if t.Desired == "RUNNING" {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

func TestStartLoadTask(t *testing.T) {
	t.Parallel()
	c, name, opts := newLoadCloud(t)
	lead := 1500 * time.Millisecond
	opts.Classes, opts.MaxWorkers, opts.MinWorkers, opts.UsersPerWorker, opts.StartupLead = []string{"A", "B"}, 7, 7, 3, &lead
	opts.CPU, opts.Memory, opts.PoolConnections = 2048, 4096, 50
	var states []string
	opts.Progress = func(s string) { states = append(states, s) }
	var network string
	c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
		if r.Op == "RunTask" {
			var in struct{ NetworkConfiguration json.RawMessage }
			must(t, json.Unmarshal(r.Body, &in))
			network = string(in.NetworkConfiguration)
		}
		return nil
	}
	task, err := infra.StartLoadTask(t.Context(), name, opts)
	must(t, err)
	if !task.Started || task.Cluster != "app-load" || !slices.Equal(c.running(), []string{task.ID}) {
		t.Errorf("%+v, %v", task, c.running())
	}
	if !strings.Contains(network, "subnet-2") || !strings.Contains(network, "sg-1") {
		t.Errorf("network %s; want the one of the service", network)
	}
	both := `{"name":"LOCUSTFILE","value":"max_rps"},{"name":"LOCUST_USER_CLASSES","value":"A,B"}`
	want := `{"containerOverrides":[{"environment":[` + both + `],"name":"locust-master"},{"environment":[` +
		`{"name":"BOTO3_MAX_POOL","value":"50"},{"name":"MAX_WORKERS","value":"7"},{"name":"MIN_WORKERS","value":"7"},` +
		`{"name":"STARTUP_LEAD_TIME","value":"1.5"},{"name":"USERS_PER_WORKER","value":"3"},` + both +
		`],"name":"worker-orchestrator"}],"cpu":"2048","memory":"4096"}`
	if diff := cmp.Diff(want, string(c.Tasks[0].Overrides)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"starting a task", "task is pending"}, slices.Compact(states)); diff != "" {
		t.Error(diff)
	}
	must(t, task.Stop(t.Context()))
	if left := c.running(); len(left) > 0 {
		t.Errorf("%v still run", left)
	}
	must(t, task.Stop(t.Context())) // again
}

func TestStandaloneLoadTask(t *testing.T) {
	t.Parallel()
	c, name, opts := newLoadCloud(t)
	opts.Standalone, opts.Classes = true, []string{"MaxRpsUser"}
	_, err := infra.StartLoadTask(t.Context(), name, opts)
	must(t, err)
	if text := string(c.Tasks[0].Overrides); !strings.Contains(
		text,
		`"command":["zae-limiter","loadtest","worker","--master","127.0.0.1","--name","app","--region","eu-west-1","max_rps","MaxRpsUser"]`,
	) {
		t.Error(text)
	}
}

func TestOpenLoadTask(t *testing.T) {
	t.Parallel()
	c, name, opts := newLoadCloud(t)
	first, err := infra.OpenLoadTask(t.Context(), name, false, opts)
	must(t, err)
	again, err := infra.OpenLoadTask(t.Context(), name, true, opts) // nothing differs, so force changes nothing
	must(t, err)
	if !first.Started || again.Started || again.Ignored || again.ID != first.ID {
		t.Errorf("%+v, then %+v; want the same task", first, again)
	}
	opts.MaxWorkers = 3
	ignoring, err := infra.OpenLoadTask(t.Context(), name, false, opts)
	must(t, err)
	if !ignoring.Ignored || ignoring.ID != first.ID {
		t.Errorf("%+v; want the running task, with its settings", ignoring)
	}
	forced, err := infra.OpenLoadTask(t.Context(), name, true, opts)
	must(t, err)
	if !forced.Started || !slices.Equal(c.running(), []string{forced.ID}) || c.Tasks[0].Status != "STOPPED" {
		t.Errorf("%+v, %v; want a new task and no other", forced, c.running())
	}
}

func TestLoadTaskFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		prepare func(*cloud)
		want    string
	}{
		{"no cluster", func(c *cloud) {
			c.Clusters = nil
		}, `load stack "app-load": not found; infra.DeployLoad(app `},
		{"no service", func(c *cloud) { c.Services = nil }, `load stack "app-load": not found`},
		{"denied", func(c *cloud) { c.Deny("RunTask") }, "the caller's policy must allow ecs:RunTask"},
		{"no capacity", func(c *cloud) {
			c.Intercept = reply("RunTask", `{"tasks":[],"failures":[{"reason":"RESOURCE:MEMORY","detail":"full"}]}`)
		}, "ECS did not start the task: RESOURCE:MEMORY full"},
		{"it stops at once", func(c *cloud) {
			c.Intercept = reply("DescribeTasks",
				`{"tasks":[{"lastStatus":"STOPPED","stoppedReason":"Essential container in task exited",
				"containers":[{"name":"locust-master","exitCode":1},{"name":"worker-orchestrator","reason":"CannotPullContainerError"}]}]}`)
		}, "stopped: Essential container in task exited; locust-master exited with 1; worker-orchestrator: " +
			"CannotPullContainerError"},
		{"it is never pulled", func(c *cloud) {
			c.Intercept = reply("DescribeTasks", `{"tasks":[{"lastStatus":"PENDING"}]}`)
		}, "is not RUNNING after 2m0s; its status is PENDING"},
		{"no agent", func(c *cloud) {
			c.Intercept = reply("DescribeTasks",
				`{"tasks":[{"lastStatus":"RUNNING","containers":[{"name":"locust-master"}]}]}`)
		}, "is not reachable after 1m0s; its status is RUNNING"},
		{"a lost response", func(c *cloud) {
			next := 0
			c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
				if r.Op != "RunTask" {
					return nil
				}
				if next++; next == 1 {
					var in struct{ StartedBy string }
					_ = json.Unmarshal(r.Body, &in)
					c.AddTask("app-load", "app-load-master").StartedBy = in.StartedBy
				}
				return fakeaws.ErrorReply(r, 500, "ServerException", "lost")
			}
		}, "lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, name, opts := newLoadCloud(t)
			test.prepare(c)
			_, err := infra.StartLoadTask(t.Context(), name, opts)
			if err == nil || !strings.Contains(dynamotest.Said(err), test.want) {
				t.Errorf("%v; want %s", err, test.want)
			}
			if left := c.running(); len(left) > 0 {
				t.Errorf("%v still run", left)
			}
		})
	}
}

// reply answers an operation with a text.
func reply(op, text string) func(*fakeaws.Request) *fakeaws.Reply {
	return func(r *fakeaws.Request) *fakeaws.Reply {
		if r.Op != op {
			return nil
		}
		return &fakeaws.Reply{
			Status: 200, Header: map[string]string{"Content-Type": "application/x-amz-json-1.1"},
			Body: []byte(text),
		}
	}
}

// An interrupt at any request leaves no task behind.
func TestInterruptedLoadTaskIsStopped(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		c, name, opts := newLoadCloud(t)
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		c.Intercept = func(*fakeaws.Request) *fakeaws.Reply {
			if n++; n == at {
				cancel()
			}
			return nil
		}
		_, err := infra.StartLoadTask(ctx, name, opts)
		cancel()
		if err == nil {
			if at < 4 {
				t.Errorf("only %d requests", at)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("request %d: %v", at, err)
		}
		if left := c.running(); len(left) > 0 {
			t.Errorf("interrupted at request %d: %v still run", at, left)
		}
	}
}

func TestLoadWorker(t *testing.T) {
	t.Parallel()
	c, name, opts := newLoadCloud(t)
	if _, err := infra.FindLoadWorker(t.Context(), name, &opts.Options); !errors.Is(err, limiter.ErrNotFound) ||
		!strings.Contains(err.Error(), `function "app-load-worker"`) {
		t.Error(err)
	}
	answer, failed, runs := `{"total_requests":1}`, false, 0
	c.Workers = map[string]*fakeaws.Worker{"app-load-worker": {Timeout: 300, Run: func(request []byte) (string, bool) {
		runs++
		return strings.ReplaceAll(answer, "REQUEST", string(request)), failed
	}}}
	w, err := infra.FindLoadWorker(t.Context(), name, &opts.Options)
	must(t, err)
	if w.Timeout() != 5*time.Minute {
		t.Error(w.Timeout())
	}
	if got, err := w.Run(t.Context(), []byte("{}")); string(got) != answer || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	failed, answer = true, `{"errorMessage":"no table"}`
	_, err = w.Run(t.Context(), []byte("{}"))
	if bad, ok := errors.AsType[*infra.LoadFunctionError](err); !ok || !strings.Contains(bad.Error(), "no table") {
		t.Error(err)
	}
	c.FailFirst(1, "Invoke", 500, "ServiceException", "lost")
	runs = 0
	if _, err := w.Run(t.Context(), []byte("{}")); err == nil || runs > 0 {
		t.Errorf("%v after %d runs; a load must not be generated twice", err, runs)
	}
	starter, err := infra.LoadWorkerByName(t.Context(), "app-load-worker", &opts.Options)
	must(t, err)
	id, err := starter.Start(t.Context(), []byte(`{"config":{}}`))
	if err != nil || id != "00000001-request" || !slices.Equal(
		c.Workers["app-load-worker"].Started, []string{`{"config":{}}`},
	) {
		t.Errorf("%q, %v, %q", id, err, c.Workers["app-load-worker"].Started)
	}
}

func TestTaskAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"DockerId":"x","Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["10.0.2.106"]}]}`: "10.0.2.106",
		`{"DockerId":"x","Networks":[]}`: "!the metadata of the task has no IPv4 address",
		`none`:                           "!read the metadata of the task: 200 OK",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
		}))
		got, err := infra.TaskAddress(t.Context(), server.URL+"/v4/x")
		server.Close()
		if reason, fails := strings.CutPrefix(want, "!"); fails {
			if err == nil || !strings.HasPrefix(err.Error(), reason) {
				t.Errorf("%s: %v; want %s", text, err, reason)
			}
		} else if got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	if _, err := infra.TaskAddress(t.Context(), ""); err == nil {
		t.Error("an empty URL has an address")
	}
}
