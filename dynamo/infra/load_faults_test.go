package infra_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// loadCycle has every call that changes a load stack, and whether it needs one.
var loadCycle = map[string]struct {
	deployed bool
	run      func(context.Context, *loadWorld) error
}{
	"deploy": {false, func(ctx context.Context, w *loadWorld) error {
		_, err := infra.DeployLoad(ctx, w.name, w.loadOptions())
		return err
	}},
	"update": {true, func(ctx context.Context, w *loadWorld) error {
		opts := w.loadOptions()
		opts.Load.MaxWorkers = 7
		_, err := infra.DeployLoad(ctx, w.name, opts)
		return err
	}},
	"push": {true, func(ctx context.Context, w *loadWorld) error {
		opts := w.loadOptions()
		opts.Program = fakeaws.Program(w.tb, 62, 1)
		_, err := infra.PushLoad(ctx, w.name, opts)
		return err
	}},
	"delete": {true, func(ctx context.Context, w *loadWorld) error {
		_, err := infra.DeleteLoad(ctx, w.name, &infra.LoadDeleteOptions{Options: w.options()})
		return err
	}},
}

// loadOutcome is the state after a call about a load stack.
type loadOutcome struct {
	Status           string
	Parameters, Tags map[string]string
	Buckets          []string
	Objects, Pending int
	Clusters, Tasks  int
}

func (w *loadWorld) outcome() loadOutcome {
	w.Lock()
	defer w.Unlock()
	neutral := func(text string) string { return strings.ReplaceAll(text, w.name, "NAME") }
	o := loadOutcome{Clusters: len(w.Clusters)}
	if s := w.stack(); s != nil {
		o.Status, o.Pending, o.Parameters, o.Tags = s.Status, len(s.ChangeSets), map[string]string{}, map[string]string{}
		for key, value := range s.Parameters {
			o.Parameters[key] = neutral(value)
		}
		for key, value := range s.Tags {
			o.Tags[key] = neutral(value)
		}
	}
	for bucket := range w.Buckets {
		o.Buckets = append(o.Buckets, neutral(bucket))
		o.Objects += len(w.Buckets[bucket].Objects)
	}
	for _, task := range w.Tasks {
		if task.Status != "STOPPED" {
			o.Tasks++
		}
	}
	return o
}

// prepared returns a world for a call, with a running task if the stack is there.
func prepared(t *testing.T, deployed bool) *loadWorld {
	t.Helper()
	w := newLoadWorld(t)
	if deployed {
		w.deploy(t, w.loadOptions())
		w.AddTask(infra.LoadName(w.name), "run-by-hand")
	}
	return w
}

func TestLoadCallsMayBeRepeated(t *testing.T) {
	for op, o := range loadCycle {
		t.Run(op, func(t *testing.T) {
			w := prepared(t, o.deployed)
			must(t, o.run(t.Context(), w))
			once := w.outcome()
			must(t, o.run(t.Context(), w))
			if diff := cmp.Diff(once, w.outcome()); diff != "" || once.Pending > 0 {
				t.Error(once.Pending, diff)
			}
			w.checkClean(t)
		})
	}
}

// TestLoadCallsSurviveAnInterruptionAnywhere cancels the context at each request in
// turn, and then repeats the call.
func TestLoadCallsSurviveAnInterruptionAnywhere(t *testing.T) {
	for op, o := range loadCycle {
		t.Run(op, func(t *testing.T) {
			w := prepared(t, o.deployed)
			must(t, o.run(t.Context(), w))
			want := w.outcome()
			for n := 0; ; n++ {
				if testing.Short() && n%5 != 0 {
					continue
				}
				w := prepared(t, o.deployed)
				if !interrupted(t, w, n, o.run) {
					if n < 3 {
						t.Errorf("it takes only %d requests", n)
					}
					break
				}
				must(t, o.run(t.Context(), w))
				if diff := cmp.Diff(want, w.outcome()); diff != "" {
					t.Fatalf("request %d: %s", n, diff)
				}
			}
		})
	}
}

// interrupted runs a call, and reports whether it cancelled it at request n.
func interrupted(t *testing.T, w *loadWorld, n int, run func(context.Context, *loadWorld) error) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.Intercept = func(*fakeaws.Request) *fakeaws.Reply {
		if n == 0 {
			cancel()
		}
		n--
		return nil
	}
	err := run(ctx, w)
	w.checkClean(t)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("%d requests left: %v", n, err)
	}
	return err != nil
}

// Whatever docker fails at, nothing of ours stays in it, and the call can be
// repeated.
func TestDockerFails(t *testing.T) {
	for _, at := range []string{"version", "build", "tag", "push"} {
		t.Run(at, func(t *testing.T) {
			w := newLoadWorld(t)
			must(t, os.WriteFile(filepath.Join(w.bin, "fail"), []byte(at+"\n"), 0o600))
			_, err := infra.DeployLoad(t.Context(), w.name, w.loadOptions())
			checkError[*infra.RefusedError](t, err, "docker "+at+" failed: ", "docker says why", infra.LoadName(w.name))
			w.checkClean(t)
			if made := w.stack() != nil; made != slices.Contains([]string{"tag", "push"}, at) {
				t.Errorf("the stack exists: %t", made)
			}
			must(t, os.Remove(filepath.Join(w.bin, "fail")))
			if d := w.deploy(t, w.loadOptions()); !d.Pushed {
				t.Errorf("%+v", d)
			}
		})
	}
}

// An interruption while docker runs ends docker, and cleans up.
func TestDockerIsInterrupted(t *testing.T) {
	w := newLoadWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	const waiting = "#!/bin/sh\ncase $1 in build) trap 'echo ended >\"${0%/*}/ended\"; exit 1' INT; echo " +
		"building >\"${0%/*}/building\"; while :; do sleep 0.05; done ;; esac\n"
	must(t, os.WriteFile(filepath.Join(w.bin, "docker"), []byte(waiting), 0o700)) //nolint:gosec // it is a program
	building := filepath.Join(w.bin, "building")
	must(t, exec.CommandContext(t.Context(), "mkfifo", building).Run())
	go func() {
		_, _ = os.ReadFile(building) // returns once docker has written to it
		cancel()
	}()
	_, err := infra.DeployLoad(ctx, w.name, w.loadOptions())
	cancel()
	if !errors.Is(err, context.Canceled) || w.recorded("ended") == "" || w.stack() != nil {
		t.Errorf("%v, docker %q", err, w.recorded("ended"))
	}
}

func TestDockerIsMissing(t *testing.T) {
	w := newLoadWorld(t)
	t.Setenv("PATH", t.TempDir())
	_, err := infra.DeployLoad(t.Context(), w.name, w.loadOptions())
	checkError[*infra.RefusedError](t, err,
		"docker builds the image of load tests, and is not installed; install Docker")
	if w.stack() != nil || len(w.Buckets) > 0 {
		t.Error("something was made")
	}
}

// Each refusal comes before anything changes.
func TestLoadRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*loadWorld, *infra.LoadOptions)
		want    string
	}{
		"no target": {func(w *loadWorld, _ *infra.LoadOptions) { w.Stacks = nil }, "infra.Deploy(app"},
		"no policies": {func(w *loadWorld, _ *infra.LoadOptions) {
			w.Find(w.name).Outputs = nil
		}, "it exports no policies"},
		"one policy": {func(w *loadWorld, _ *infra.LoadOptions) {
			delete(w.Find(w.name).Outputs, "AcquireOnlyPolicyArn")
		}, "it exports no policies"},
		"unknown subnet": {func(w *loadWorld, _ *infra.LoadOptions) {
			delete(w.Network.Subnets, subnetB)
		}, "must exist in region eu-west-1"},
		"other VPC": {func(w *loadWorld, _ *infra.LoadOptions) {
			w.Network.Subnets[subnetB] = "vpc-2"
		}, "must be in " + testVPC + ", and is in vpc-2"},
		"long roles": {func(w *loadWorld, _ *infra.LoadOptions) {
			w.Find(w.name).Outputs["RoleNameFormat"] = strings.Repeat("a", 50) + "{}"
		}, "exceeds the maximum"},
		"foreign stack": {func(w *loadWorld, _ *infra.LoadOptions) {
			w.AddStack(infra.LoadName(w.name), "CREATE_COMPLETE", nil)
		}, "it is not a load test"},
		"failed creation": {func(w *loadWorld, _ *infra.LoadOptions) {
			w.addLoad("ROLLBACK_COMPLETE")
		}, "infra.DeleteLoad(app"},
		"Python's": {func(w *loadWorld, _ *infra.LoadOptions) {
			w.addLoad("CREATE_COMPLETE")
		}, "the Python tool deployed it"},
		"newer":      {func(w *loadWorld, o *infra.LoadOptions) { w.addNewer() }, "version 9.9.9 deployed it"},
		"no program": {func(_ *loadWorld, o *infra.LoadOptions) { o.Program = "none" }, "cannot be read"},
		"wrong program": {func(w *loadWorld, o *infra.LoadOptions) {
			o.Program = fakeaws.Program(w.tb, 183)
		}, "it is for arm64, but the functions are for x86_64"},
		"no folder": {func(_ *loadWorld, o *infra.LoadOptions) {
			o.Dir = "none"
		}, `invalid folder "none": cannot be read`},
		"a file": {func(_ *loadWorld, o *infra.LoadOptions) { o.Dir = "load.yaml" }, "must be a folder"},
		"no VPC": {func(_ *loadWorld, o *infra.LoadOptions) { o.Load.VPC = "" }, "must be the ID of a VPC"},
		"one subnet": {func(_ *loadWorld, o *infra.LoadOptions) {
			o.Load.Subnets = []string{subnetA}
		}, "must be 2 to 16"},
		"same subnet": {func(_ *loadWorld, o *infra.LoadOptions) {
			o.Load.Subnets = []string{subnetA, subnetA}
		}, "must occur once"},
		"too many": {func(_ *loadWorld, o *infra.LoadOptions) {
			o.Load.MaxWorkers = 1001
		}, "must be from 1 to 1000"},
		"more than most": {func(_ *loadWorld, o *infra.LoadOptions) {
			o.Load.MinWorkers = 101
		}, "must be from 1 to 100"},
		"provider": {func(_ *loadWorld, o *infra.LoadOptions) {
			o.Load.CapacityProvider = "EC2"
		}, "must be FARGATE_SPOT or FARGATE"},
		"timeout": {func(_ *loadWorld, o *infra.LoadOptions) { o.Load.Timeout = 1 }, "from 60 to 900"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoadWorld(t)
			opts := w.loadOptions()
			test.prepare(w, opts)
			before := w.outcome()
			_, err := infra.DeployLoad(t.Context(), w.name, opts)
			if err == nil || !strings.Contains(dynamotest.Said(err), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if _, isOutage := errors.AsType[*limiter.UnavailableError](err); isOutage {
				t.Error("it looks like an outage")
			}
			if diff := cmp.Diff(before, w.outcome()); diff != "" || w.recorded("log") != "" {
				t.Error(diff, w.recorded("log"))
			}
		})
	}
}

// addLoad adds a load stack that another tool deployed.
func (w *loadWorld) addLoad(status string) *fakeaws.Stack {
	return w.AddStack(infra.LoadName(w.name), status, map[string]string{
		"ManagedBy": "zae-limiter", "zae-limiter:name": w.name, "zae-limiter:type": "load-test",
	})
}

// addNewer adds a load stack of a newer version.
func (w *loadWorld) addNewer() {
	s := w.addLoad("CREATE_COMPLETE")
	s.Parameters = map[string]string{"CodeKey": "key"}
	maps.Copy(s.Tags, map[string]string{"zae-limiter:version": "9.9.9"})
}

func TestLoadNames(t *testing.T) {
	for name, want := range map[string]string{
		"my_app": "underscores", "App": "lower case", "a--b": "single hyphens", "app-": "none at the end",
		strings.Repeat("a", 53): "at most 52",
	} {
		_, err := infra.DeployLoad(t.Context(), name, nil)
		checkError[*limiter.InvalidError](t, err, want)
	}
}

// Each call that AWS denies is named, and delete works without the rights on ECS
// that it does not need.
func TestDeniedLoadCalls(t *testing.T) {
	for _, op := range []string{
		"DescribeSubnets", "DescribeRouteTables", "DescribeVpcEndpoints", "GetAuthorizationToken",
	} {
		w := newLoadWorld(t)
		w.Deny(op)
		_, err := infra.DeployLoad(t.Context(), w.name, w.loadOptions())
		checkError[*limiter.UnavailableError](t, err, "access denied", ":"+op)
		w.checkClean(t)
	}
	w := prepared(t, true)
	w.Deny("UpdateService")
	_, err := infra.DeleteLoad(t.Context(), w.name, &infra.LoadDeleteOptions{Options: w.options()})
	must(t, err)
}

// Deploy retries calls of EC2 like those of other services.
func TestNetworkCallsAreRetried(t *testing.T) {
	w := newLoadWorld(t)
	w.FailFirst(2, "DescribeSubnets", 503, "RequestLimitExceeded", "slow down")
	w.deploy(t, w.loadOptions())
}

func TestAFailedLoadStackIsExplained(t *testing.T) {
	w := newLoadWorld(t)
	w.Failing[fakeaws.WorkerID] = "no memory left"
	_, err := infra.DeployLoad(t.Context(), w.name, w.loadOptions())
	checkError[*infra.FailedError](t, err, "WorkerFunction CREATE_FAILED: no memory left")
	_, err = infra.DeleteLoad(t.Context(), w.name, &infra.LoadDeleteOptions{Options: w.options()})
	must(t, err)
	delete(w.Failing, fakeaws.WorkerID)
	w.deploy(t, w.loadOptions())
	w.Failing[fakeaws.WorkerID] = "no memory left"
	opts := w.loadOptions()
	opts.Load.Memory = 10_000
	_, err = infra.DeployLoad(t.Context(), w.name, opts)
	checkError[*infra.FailedError](t, err, "WorkerFunction UPDATE_FAILED: no memory left")
	w.checkClean(t)
}
