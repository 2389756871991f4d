package fakeaws

import (
	"maps"
	"slices"
	"strings"
)

// Logical IDs of the resources of a load stack.
const (
	ClusterID    = "Cluster"
	WorkerID     = "WorkerFunction"
	RepositoryID = "LocustRepository"
	EndpointID   = "DynamoDBEndpoint"
)

// isLoad reports whether the stack is a load test.
func (s *Stack) isLoad() bool { return s.Tags["zae-limiter:type"] == "load-test" }

// function returns the logical ID of the stack's first function.
func (s *Stack) function() string {
	if s.isLoad() {
		return WorkerID
	}
	return FunctionID
}

// createLoad creates the resources of a load test, with the permissions of its
// target.
func (c *Cloud) createLoad(r *Request, s *Stack) *Reply {
	reply := xmlResult(r.Op, "<StackId>"+s.ID+"</StackId>")
	fail := func(resource, why string) *Reply {
		s.Steps = []Step{
			{
				Status: "ROLLBACK_IN_PROGRESS",
				Events: []Event{{Resource: resource, Status: "CREATE_FAILED", Reason: why}},
			},
			{Status: "ROLLBACK_COMPLETE"},
		}
		return reply
	}

	target := c.Find(s.Parameters["TargetStackName"])
	// The template imports the policy from an export of the target, so
	// CloudFormation fails on the first resource that needs it.
	if target == nil || target.Outputs["FullAccessPolicyArn"] == "" {
		return fail("TaskRole", "No export named "+s.Parameters["TargetStackName"]+"-FullAccessPolicyArn found.")
	}

	for _, resource := range []string{RepositoryID, ClusterID, WorkerID} {
		if why := c.Failing[resource]; why != "" {
			return fail(resource, why)
		}
	}

	made := map[string]string{RepositoryID: s.Name + "-locust", ClusterID: s.Name, WorkerID: s.Name + "-worker"}
	if s.Parameters["PrivateRouteTableIds"] != "" {
		made[EndpointID] = "vpce-" + s.Name
	}

	s.Steps = []Step{
		{Status: "CREATE_IN_PROGRESS", Events: []Event{{Resource: ClusterID, Status: "CREATE_COMPLETE"}}},
		{Status: "CREATE_COMPLETE", Do: func() { c.addLoad(s, made) }},
	}

	return reply
}

// addLoad adds the resources of a load test.
func (c *Cloud) addLoad(s *Stack, made map[string]string) {
	maps.Copy(s.Resources, made)
	c.Clusters = append(c.Clusters, s.Name)
	c.Services = append(c.Services, &Service{
		Cluster: s.Name, Name: s.Name + "-master",
		Tasks: "arn:aws:ecs:" + Region + ":" + AccountID + ":task-definition/" + s.Name + "-master:1",
		Network: `{"awsvpcConfiguration":{"assignPublicIp":"DISABLED","subnets":["` + strings.ReplaceAll(
			s.Parameters["PrivateSubnetIds"], ",", `","`,
		) + `"],"securityGroups":["sg-0123456789abcdef0"]}}`,
	})

	c.Images[s.Name+"-locust"] = nil

	if id := made[EndpointID]; id != "" {
		c.Network.Endpoints = append(c.Network.Endpoints, Endpoint{
			ID: id, VPC: s.Parameters["VpcId"], Service: "com.amazonaws." + Region + ".dynamodb",
			State: "available",
		})
	}

	s.Outputs = map[string]string{
		"ClusterArn": clusterARN(s.Name), "MasterServiceName": s.Name + "-master",
		"LocustRepositoryUri":   Registry + "/" + s.Name + "-locust",
		"WorkerFunctionArn":     "arn:aws:lambda:" + Region + ":" + AccountID + ":function:" + s.Name + "-worker",
		"MasterSecurityGroupId": "sg-0123456789abcdef0",
	}
}

// deleteLoad deletes a load test, unless its cluster has tasks.
func (c *Cloud) deleteLoad(r *Request, s *Stack) *Reply {
	s.Steps = []Step{{Status: s.Status}, {Status: "DELETE_IN_PROGRESS"}}
	// AWS refuses to delete a cluster with tasks.
	if slices.ContainsFunc(c.Tasks, func(t *Task) bool { return t.Cluster == s.Name && t.Status != "STOPPED" }) {
		s.Steps = append(s.Steps, Step{
			Status: "DELETE_FAILED",
			Events: []Event{{
				Resource: ClusterID, Status: "DELETE_FAILED",
				Reason: "The Cluster cannot be deleted while Tasks are active.",
			}},
		})
		return xmlResult(r.Op, "")
	}

	s.Steps = append(s.Steps, Step{Status: "DELETE_COMPLETE", Do: func() {
		c.Clusters = slices.DeleteFunc(c.Clusters, func(name string) bool { return name == s.Name })
		c.Services = slices.DeleteFunc(c.Services, func(one *Service) bool { return one.Cluster == s.Name })
		c.Network.Endpoints = slices.DeleteFunc(c.Network.Endpoints, func(e Endpoint) bool {
			return e.ID == s.Resources[EndpointID]
		})
		delete(c.Images, s.Name+"-locust")
	}})

	return xmlResult(r.Op, "")
}
