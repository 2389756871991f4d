package infra_test

import (
	"debug/elf"
	"errors"
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// redeploy deploys the deployed settings with a change.
func redeploy(t *testing.T, name string, opts infra.Options, change func(*infra.Stack)) infra.Deployment {
	t.Helper()
	opts.Resolve = func(deployed *infra.Stack) infra.Stack {
		change(deployed)
		return *deployed
	}
	return deploy(t, name, opts)
}

func noChange(*infra.Stack) {}

func TestRedeployKeepsSettings(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	c.Buckets["mine"] = &fakeaws.Bucket{Objects: map[string][]byte{}}
	opts := c.options()
	opts.Resolve = func(deployed *infra.Stack) infra.Stack {
		if deployed != nil {
			t.Error("there is a deployed stack")
		}
		return infra.Stack{ArtifactBucket: "mine", PermissionBoundary: "Bound", Tags: map[string]string{"team": "a"}}
	}
	deploy(t, name, opts)
	if d := redeploy(t, name, c.options(), noChange); d.Action != "unchanged" {
		t.Errorf("%+v", d)
	}
	off := func(s *infra.Stack) { s.NoAggregator, s.NoProvisioner = true, true }
	on := func(s *infra.Stack) { s.NoAggregator, s.NoProvisioner = false, false }
	redeploy(t, name, c.options(), off)
	redeploy(t, name, c.options(), on)
	s := c.Find(name)
	if s.Parameters["CodeBucket"] != "mine" || s.Parameters["PermissionBoundary"] != "Bound" || s.Tags["team"] != "a" {
		t.Error(s.Parameters, s.Tags)
	}
}

// Deploy keeps changes that others make while it waits or before it executes.
func TestConcurrentChangesAreKept(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	deploy(t, name, c.options())
	s := c.Find(name)
	s.Status = "UPDATE_IN_PROGRESS"
	s.Steps = []fakeaws.Step{{Status: "UPDATE_IN_PROGRESS"}, {Status: "UPDATE_COMPLETE", Do: func() {
		s.Parameters["PermissionBoundary"] = "Bound"
	}}}
	redeploy(t, name, c.options(), func(s *infra.Stack) { s.LogLevel = "DEBUG" })
	if s.Parameters["PermissionBoundary"] != "Bound" || s.Parameters["LogLevel"] != "DEBUG" {
		t.Error(s.Parameters)
	}

	raced := false
	c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
		if r.Op != "ExecuteChangeSet" || raced {
			return nil
		}
		raced, s.Parameters["EnableDeletionProtection"] = true, "true"
		return fakeaws.ErrorReply(r, 400, "InvalidChangeSetStatus",
			"ChangeSet cannot be executed in its current status")
	}
	redeploy(t, name, c.options(), func(s *infra.Stack) { s.LogLevel = "ERROR" })
	if s.Parameters["EnableDeletionProtection"] != "true" || s.Parameters["LogLevel"] != "ERROR" {
		t.Error(s.Parameters)
	}
}

// The error for an invalid deployed setting says that it is deployed.
func TestDeployedSettingsMayBeInvalid(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	deploy(t, name, c.options())
	c.Find(name).Parameters["SnapshotWindows"] = "hourly,weekly"
	opts := c.options()
	opts.Resolve = func(deployed *infra.Stack) infra.Stack { return *deployed }
	_, err := infra.Deploy(t.Context(), name, &opts)
	checkError[*limiter.InvalidError](t, err, "hourly,weekly", "keep their deployed value")
	opts = c.options()
	opts.Dynamo.AWS = fakeaws.Config("http://127.0.0.1:1")
	opts.Stack.RoleNameFormat = "a-format-whose-names-for-the-roles-are-all-too-long-{}"
	opts.Resolve = func(deployed *infra.Stack) infra.Stack { return *deployed }
	_, err = infra.Deploy(t.Context(), name, &opts)
	checkError[*limiter.InvalidError](t, err, "role name format", "could not be read", "cannot connect")
	if errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
}

// Deploy keeps the settings of a Python stack, and its starting position.
func TestRedeployKeepsPythonSettings(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	s := pythonStack(t, c, name)
	before := maps.Clone(s.Parameters)
	d := redeploy(t, name, c.options(), noChange)
	if d.Action != "updated" || !d.Complete || s.Tags["owner"] != "ops" ||
		s.Parameters["StreamStartingPosition"] != "LATEST" {
		t.Errorf("%+v, %v, %v", d, s.Tags, s.Parameters)
	}
	for key, value := range before {
		if now, known := s.Parameters[key]; known && now != value {
			t.Errorf("%s was %q and is %q", key, value, now)
		}
	}
}

// A new stack has the architecture of its code. A deployed one keeps its architecture
// until Stack has another.
func TestArchitectureOfAStack(t *testing.T) {
	t.Parallel()
	arm, x86 := functionZip(t), fakeaws.FunctionZip(t, elf.EM_X86_64)
	keep := func(deployed *infra.Stack) infra.Stack { // like the command
		if deployed == nil {
			return infra.Stack{}
		}
		return *deployed
	}
	for name, resolve := range map[string]func(*infra.Stack) infra.Stack{"stack": nil, "resolve": keep} {
		c, stack := newCloud(t), stackName()
		opts := c.options()
		opts.Resolve, opts.Zip = resolve, x86
		is := func(want string) {
			t.Helper()
			if got := c.Find(stack).Parameters["Architecture"]; got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		deploy(t, stack, opts)
		is(infra.X8664)
		opts.Zip = arm
		_, err := infra.Deploy(t.Context(), stack, &opts)
		checkError[*limiter.InvalidError](t, err, "it is for arm64, but the functions are for x86_64")
		_, err = infra.Upgrade(t.Context(), stack, &infra.UpgradeOptions{Options: opts})
		checkError[*limiter.InvalidError](t, err, "it is for arm64, but the functions are for x86_64")
		is(infra.X8664)
		opts.Resolve, opts.Stack.Architecture = nil, infra.ARM64
		deploy(t, stack, opts)
		is(infra.ARM64)
	}
}

// A stack without functions has no architecture to keep.
func TestArchitectureOfAStackWithoutFunctions(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.NoIAM = true
	deploy(t, name, opts)
	opts.Stack.NoIAM, opts.Zip = false, fakeaws.FunctionZip(t, elf.EM_X86_64)
	deploy(t, name, opts)
	if got := c.Find(name).Parameters["Architecture"]; got != infra.X8664 {
		t.Error(got)
	}
}
