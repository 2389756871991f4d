package infra_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/infra"
)

// again deploys what is there as it is, but for what changes it.
func again(t *testing.T, name string, opts infra.Options, change func(*infra.Stack)) infra.Deployment {
	t.Helper()
	opts.Settle = func(deployed *infra.Stack) infra.Stack {
		change(deployed)
		return *deployed
	}
	return deploy(t, name, opts)
}

func asItIs(*infra.Stack) {}

func TestDeployedIsDeployedAgain(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	c.buckets["mine"] = &bucket{objects: map[string][]byte{}}
	opts := c.options()
	opts.Settle = func(deployed *infra.Stack) infra.Stack {
		if deployed != nil {
			t.Error("there is something")
		}
		return infra.Stack{ArtifactBucket: "mine", PermissionBoundary: "Bound", Tags: map[string]string{"team": "a"}}
	}
	deploy(t, name, opts)
	if d := again(t, name, c.options(), asItIs); d.Action != "unchanged" {
		t.Errorf("%+v", d)
	}
	off := func(s *infra.Stack) { s.NoAggregator, s.NoProvisioner = true, true }
	on := func(s *infra.Stack) { s.NoAggregator, s.NoProvisioner = false, false }
	again(t, name, c.options(), off)
	again(t, name, c.options(), on)
	s := c.find(name)
	if s.parameters["CodeBucket"] != "mine" || s.parameters["PermissionBoundary"] != "Bound" || s.tags["team"] != "a" {
		t.Error(s.parameters, s.tags)
	}
}

// What others change while this one waits, or asks, is not undone.
func TestDeployedMeanwhileStays(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	deploy(t, name, c.options())
	s := c.find(name)
	s.status = "UPDATE_IN_PROGRESS"
	s.steps = []step{{status: "UPDATE_IN_PROGRESS"}, {status: "UPDATE_COMPLETE", do: func() { s.parameters["PermissionBoundary"] = "Bound" }}}
	again(t, name, c.options(), func(s *infra.Stack) { s.LogLevel = "DEBUG" })
	if s.parameters["PermissionBoundary"] != "Bound" || s.parameters["LogLevel"] != "DEBUG" {
		t.Error(s.parameters)
	}

	raced := false
	c.plan = func(asked *cloudCall) *reply {
		if asked.op != "ExecuteChangeSet" || raced {
			return nil
		}
		raced, s.parameters["EnableDeletionProtection"] = true, "true"
		return failed(asked, 400, "InvalidChangeSetStatus", "ChangeSet cannot be executed in its current status")
	}
	again(t, name, c.options(), func(s *infra.Stack) { s.LogLevel = "ERROR" })
	if s.parameters["EnableDeletionProtection"] != "true" || s.parameters["LogLevel"] != "ERROR" {
		t.Error(s.parameters)
	}
}

// What is deployed may be refused, too, and then says that it is.
func TestDeployedMayNotFit(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	deploy(t, name, c.options())
	c.find(name).parameters["SnapshotWindows"] = "hourly,weekly"
	opts := c.options()
	opts.Settle = func(deployed *infra.Stack) infra.Stack { return *deployed }
	_, err := infra.Deploy(t.Context(), name, &opts)
	wants[*limiter.InvalidError](t, err, "hourly,weekly", "as it is deployed")
	opts = c.options()
	opts.Dynamo.AWS = config("http://127.0.0.1:1")
	opts.Stack.RoleNameFormat = "a-format-of-which-names-of-roles-are-all-too-long-{}"
	opts.Settle = func(deployed *infra.Stack) infra.Stack { return *deployed }
	_, err = infra.Deploy(t.Context(), name, &opts)
	wants[*limiter.InvalidError](t, err, "role name format", "could not be asked", "cannot connect")
	if errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
}

// What Python's owner chose stays, and so does where its function began to read.
func TestDeployedByPythonIsDeployedAgain(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	s := pythonStack(t, c, name)
	before := maps.Clone(s.parameters)
	d := again(t, name, c.options(), asItIs)
	if d.Action != "updated" || !d.Complete || s.tags["owner"] != "ops" || s.parameters["StreamStartingPosition"] != "LATEST" {
		t.Errorf("%+v, %v, %v", d, s.tags, s.parameters)
	}
	for key, value := range before {
		if now, known := s.parameters[key]; known && now != value {
			t.Errorf("%s was %q and is %q", key, value, now)
		}
	}
}
