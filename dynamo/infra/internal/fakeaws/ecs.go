package fakeaws

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
)

// Task is an ECS task. Each DescribeTasks moves its status one step towards the
// desired one.
type Task struct {
	Cluster, Family, ID string
	Status, Desired     string // such as RUNNING
	StartedBy, Group    string
	Overrides           json.RawMessage // as RunTask received them
	NoAgent             bool            // its exec agent never starts
}

// Service is an ECS service.
type Service struct {
	Cluster, Name string
	Desired       int
	Network       string // JSON of its network configuration
	Tasks         string // JSON of its task definition's ARN
}

// lives lists the statuses of a task, in order.
var lives = []string{"PROVISIONING", "PENDING", "RUNNING", "DEPROVISIONING", "STOPPED"}

// ARN returns the ARN of the task.
func (t *Task) ARN() string {
	return fmt.Sprintf("arn:aws:ecs:%s:%s:task/%s/%s", Region, AccountID, t.Cluster, t.ID)
}

// Containers of every task.
var containers = []string{"locust-master", "worker-orchestrator"}

// AddTask adds a running task.
func (c *Cloud) AddTask(cluster, family string) *Task {
	t := &Task{
		Cluster: cluster, Family: family, ID: fmt.Sprintf("%032x", len(c.Tasks)+1), Status: "RUNNING",
		Desired: "RUNNING",
	}
	c.Tasks = append(c.Tasks, t)
	return t
}

// ecsRequest has the fields of all requests to ECS.
type ecsRequest struct {
	Cluster, Family, Service, Task   string
	Tasks, Services                  []string
	DesiredStatus, NextToken, Reason string
	TaskDefinition, StartedBy, Group string
	DesiredCount                     *int
	Overrides                        json.RawMessage
}

// serveECS answers ECS.
func (c *Cloud) serveECS(r *Request) *Reply {
	var in ecsRequest
	if err := json.Unmarshal(r.Body, &in); err != nil {
		c.tb.Errorf("%s: %v", r.Op, err)
	}

	// A cluster has a name and an ARN, and requests may have either.
	in.Cluster = path.Base(in.Cluster)
	if !slices.Contains(c.Clusters, in.Cluster) {
		return ErrorReply(r, 400, "ClusterNotFoundException", "Cluster not found.")
	}

	switch r.Op {
	case "ListTasks":
		return c.listTasks(in)
	case "DescribeTasks":
		return c.describeTasks(in)
	case "RunTask":
		return c.runTask(in)
	case "StopTask":
		return c.stopTask(r, in)
	case "DescribeServices", "UpdateService":
		return c.serveServices(r, in)
	}

	c.tb.Errorf("no handler for %s", r.Op)
	return ErrorReply(r, 400, "InvalidAction", r.Op)
}

// listTasks returns one task per page.
func (c *Cloud) listTasks(in ecsRequest) *Reply {
	var first int
	// Without a token, first stays 0, which is the first page.
	_, _ = fmt.Sscan(in.NextToken, &first)

	desired := in.DesiredStatus
	// AWS lists running tasks unless the request says otherwise.
	if desired == "" {
		desired = "RUNNING"
	}

	for i, t := range c.Tasks {
		if i >= first && t.Cluster == in.Cluster && (in.Family == "" || t.Family == in.Family) && (in.StartedBy == "" ||
			t.StartedBy == in.StartedBy) && t.Desired == desired {
			return jsonReply(map[string]any{"taskArns": []string{t.ARN()}, "nextToken": fmt.Sprint(i + 1)})
		}
	}

	return jsonReply(map[string]any{"taskArns": []string{}})
}

// findTask returns the task with an ID or ARN, or nil.
func (c *Cloud) findTask(cluster, id string) *Task {
	for _, t := range c.Tasks {
		if t.Cluster == cluster && t.ID == path.Base(id) {
			return t
		}
	}
	return nil
}

func (c *Cloud) describeTasks(in ecsRequest) *Reply {
	found, failures := []any{}, []any{}
	for _, id := range in.Tasks {
		t := c.findTask(in.Cluster, id)
		if t == nil {
			failures = append(failures, Tree{"arn": id, "reason": "MISSING"})
			continue
		}

		// Each look moves the task, so that callers have to wait for each
		// status.
		if now := slices.Index(lives, t.Status); now < slices.Index(lives, t.Desired) {
			t.Status = lives[now+1]
		}

		found = append(found, t.json())
	}

	return jsonReply(Tree{"tasks": found, "failures": failures})
}

// json returns the task as DescribeTasks does.
func (t *Task) json() Tree {
	agent := "PENDING"
	if t.Status == "RUNNING" && !t.NoAgent {
		agent = "RUNNING"
	}

	var all []any
	for _, name := range containers {
		all = append(all, Tree{
			"name": name, "runtimeId": t.ID + "-" + name, "lastStatus": t.Status,
			"managedAgents": []any{Tree{"name": "ExecuteCommandAgent", "lastStatus": agent}},
		})
	}

	return Tree{
		"taskArn": t.ARN(), "clusterArn": clusterARN(t.Cluster), "lastStatus": t.Status, "desiredStatus": t.Desired,
		"group": t.Group, "startedBy": t.StartedBy, "overrides": t.Overrides, "containers": all,
		"taskDefinitionArn": fmt.Sprintf("arn:aws:ecs:%s:%s:task-definition/%s:1", Region, AccountID, t.Family),
	}
}

func clusterARN(name string) string {
	return fmt.Sprintf("arn:aws:ecs:%s:%s:cluster/%s", Region, AccountID, name)
}

func (c *Cloud) runTask(in ecsRequest) *Reply {
	t := c.AddTask(in.Cluster, path.Base(in.TaskDefinition))
	t.Status, t.Overrides, t.StartedBy, t.Group = lives[0], in.Overrides, in.StartedBy, in.Group
	return jsonReply(Tree{"tasks": []any{t.json()}, "failures": []any{}})
}

func (c *Cloud) stopTask(r *Request, in ecsRequest) *Reply {
	t := c.findTask(in.Cluster, in.Task)
	if t == nil {
		return ErrorReply(r, 400, "InvalidParameterException", "The referenced task was not found.")
	}
	t.Desired = "STOPPED"
	return jsonReply(Tree{"task": t.json()})
}

// serveServices answers DescribeServices and UpdateService.
func (c *Cloud) serveServices(r *Request, in ecsRequest) *Reply {
	names := in.Services
	if r.Op == "UpdateService" {
		names = []string{in.Service}
	}

	found, failures := []any{}, []any{}
	for _, name := range names {
		i := slices.IndexFunc(c.Services, func(s *Service) bool {
			return s.Cluster == in.Cluster && s.Name == path.Base(name)
		})

		if i < 0 {
			failures = append(failures, Tree{"arn": name, "reason": "MISSING"})
			continue
		}

		s := c.Services[i]
		if in.DesiredCount != nil {
			s.Desired = *in.DesiredCount
		}

		found = append(found, Tree{
			"serviceName": s.Name, "status": "ACTIVE", "desiredCount": s.Desired, "taskDefinition": s.Tasks,
			"networkConfiguration": json.RawMessage(s.Network),
		})
	}

	switch {
	case r.Op == "DescribeServices":
		return jsonReply(Tree{"services": found, "failures": failures})
	case len(found) == 0:
		return ErrorReply(r, 400, "ServiceNotFoundException", "Service not found.")
	}
	return jsonReply(Tree{"service": found[0]})
}

// jsonReply returns a response of a JSON service.
func jsonReply(v any) *Reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &Reply{200, map[string]string{"Content-Type": "application/x-amz-json-1.1"}, body}
}
