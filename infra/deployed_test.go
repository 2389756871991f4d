package infra_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/infra"
)

func TestDeployedIsDeployedAgain(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	if _, err := infra.Deployed(t.Context(), name, &opts); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	c.buckets["mine"] = &bucket{objects: map[string][]byte{}}
	opts.Stack = infra.Stack{ArtifactBucket: "mine", PermissionBoundary: "Bound", Tags: map[string]string{"team": "a"}}
	deploy(t, name, opts)
	opts.Stack = infra.Stack{}
	found, err := infra.Deployed(t.Context(), name, &opts)
	must(t, err)
	if found.ArtifactBucket != "mine" || found.PermissionBoundary != "Bound" || found.Tags["team"] != "a" {
		t.Errorf("%+v", found)
	}
	opts.Stack = found
	if d := deploy(t, name, opts); d.Action != "unchanged" {
		t.Errorf("%+v", d)
	}
	s := c.find(name)
	s.steps = []step{{status: "UPDATE_IN_PROGRESS"}, {status: "UPDATE_COMPLETE", do: func() { s.parameters["PermissionBoundary"] = "Other" }}}
	s.status = "UPDATE_IN_PROGRESS"
	if found, err = infra.Deployed(t.Context(), name, &opts); err != nil || found.PermissionBoundary != "Other" {
		t.Errorf("%+v, %v", found, err)
	}
	foreign := stackName()
	c.put(foreign, "CREATE_COMPLETE", nil)
	_, err = infra.Deployed(t.Context(), foreign, &opts)
	wants[*infra.RefusedError](t, err, "belongs to something else")
}

// What Python's owner chose stays, and so does where its function began to read.
func TestDeployedByPythonIsDeployedAgain(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	s := pythonStack(t, c, name)
	before := maps.Clone(s.parameters)
	opts := c.options()
	var err error
	opts.Stack, err = infra.Deployed(t.Context(), name, &opts)
	must(t, err)
	d := deploy(t, name, opts)
	if d.Action != "updated" || !d.Complete || s.tags["owner"] != "ops" || s.parameters["StreamStartingPosition"] != "LATEST" {
		t.Errorf("%+v, %v, %v", d, s.tags, s.parameters)
	}
	for key, value := range before {
		if now, known := s.parameters[key]; known && now != value {
			t.Errorf("%s was %q and is %q", key, value, now)
		}
	}
}
