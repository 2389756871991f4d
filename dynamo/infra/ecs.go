package infra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Statuses of a task of ECS.
const (
	taskRunning = "RUNNING"
	taskStopped = "STOPPED"
)

// ecsTask is what responses say about a task.
type ecsTask struct {
	TaskArn, LastStatus, DesiredStatus, StoppedReason string
	Containers                                        []ecsContainer
}

// ecsContainer is a container of a task.
type ecsContainer struct {
	Name, Reason, RuntimeID string
	ExitCode                *int // of a container that has ended
	ManagedAgents           []struct{ Name, LastStatus string }
}

// container returns the container of that name, or the zero value.
func (t *ecsTask) container(name string) ecsContainer {
	for _, c := range t.Containers {
		if c.Name == name {
			return c
		}
	}
	return ecsContainer{}
}

// hasAgent reports whether the exec agent of a container runs.
func (c ecsContainer) hasAgent() bool {
	// Sessions address a container by its runtime ID, which it gets last.
	return c.RuntimeID != "" && slices.Contains(c.ManagedAgents, struct{ Name, LastStatus string }{
		"ExecuteCommandAgent", taskRunning,
	})
}

// ecsService is what a task copies from a service.
type ecsService struct {
	CapacityProviderStrategy []any  `json:"capacityProviderStrategy,omitempty"`
	LaunchType               string `json:"launchType,omitempty"`
	NetworkConfiguration     any    `json:"networkConfiguration,omitempty"`
	PlatformVersion          string `json:"platformVersion,omitempty"`
	TaskDefinition           string `json:"taskDefinition,omitempty"`
}

// taskRequest is the request of RunTask.
type taskRequest struct {
	ecsService
	ClientToken          string        `json:"clientToken"`
	Cluster              string        `json:"cluster"`
	EnableExecuteCommand bool          `json:"enableExecuteCommand"`
	Overrides            *taskOverride `json:"overrides"`
	StartedBy            string        `json:"startedBy"`
}

// taskOverride is what a task has in place of the settings of its definition.
type taskOverride struct {
	Containers []containerOverride `json:"containerOverrides"`
	CPU        string              `json:"cpu,omitempty"`
	Memory     string              `json:"memory,omitempty"`
}

type containerOverride struct {
	Command     []string `json:"command,omitempty"`
	Environment []pair   `json:"environment,omitempty"`
	Name        string   `json:"name"`
}

type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// environmentOf returns the variables with a value, sorted.
func environmentOf(all map[string]string) (pairs []pair) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			pairs = append(pairs, pair{name, all[name]})
		}
	}
	return pairs
}

// taskFilter is the request of ListTasks.
type taskFilter struct {
	Cluster       string `json:"cluster"`
	DesiredStatus string `json:"desiredStatus,omitempty"`
	Family        string `json:"family,omitempty"`
	NextToken     string `json:"nextToken,omitempty"`
	StartedBy     string `json:"startedBy,omitempty"`
}

// listTasks returns the ARNs of a page of tasks, and the token of the next page or "".
func (c *client) listTasks(ctx context.Context, in taskFilter) (arns []string, next string, err error) {
	var out struct {
		TaskArns  []string
		NextToken string
	}
	err = c.call(ctx, "ListTasks", in, &out)
	return out.TaskArns, out.NextToken, err
}

// describeTasks returns those of the tasks that ECS has not forgotten.
func (c *client) describeTasks(ctx context.Context, cluster string, ids ...string) ([]ecsTask, error) {
	var out struct{ Tasks []ecsTask }
	err := c.call(ctx, "DescribeTasks", map[string]any{"cluster": cluster, "tasks": ids}, &out)
	return out.Tasks, err
}

// stopTask stops a task. It succeeds if ECS has forgotten the task, which happens some
// time after it has stopped.
func (c *client) stopTask(ctx context.Context, cluster, id, reason string) error {
	err := c.call(ctx, "StopTask", map[string]string{"cluster": cluster, "reason": reason, "task": id}, nil)
	if errorCode(err) == "InvalidParameterException" {
		return nil
	}
	return err
}

// isMissingCluster reports whether err says that a cluster does not exist.
func isMissingCluster(err error) bool { return errorCode(err) == "ClusterNotFoundException" }

// TaskAddress returns the private IPv4 address of this container from the
// metadata of ECS, whose URL is the value of ECS_CONTAINER_METADATA_URI_V4.
func TaskAddress(ctx context.Context, metadata string) (string, error) {
	if metadata == "" {
		return "", errors.New("ECS_CONTAINER_METADATA_URI_V4 is not set; run this in a task of ECS")
	}

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metadata, nil)
	if err != nil {
		return "", fmt.Errorf("read the metadata of the task: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("read the metadata of the task: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var container struct {
		Networks []struct {
			IPv4Addresses []string
		}
	}

	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&container); err != nil ||
		response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("read the metadata of the task: %s: no container", response.Status)
	}

	for _, n := range container.Networks {
		if len(n.IPv4Addresses) > 0 {
			return n.IPv4Addresses[0], nil
		}
	}

	return "", errors.New("the metadata of the task has no IPv4 address; its network mode must be awsvpc")
}
