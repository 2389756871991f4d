package infra

import (
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Suffixes of the names in a load stack, after the name of that stack. The cluster
// has the name of the stack.
const (
	loadSuffix       = "-load"   // of the stack, after the name of the tested one
	masterSuffix     = "-master" // of the task family and the service
	workerSuffix     = "-worker" // of the function
	repositorySuffix = "-locust"
)

// Containers of the task of a load stack.
const (
	MasterContainer       = "locust-master"
	OrchestratorContainer = "worker-orchestrator"
)

// ScenarioVariable is the environment variable with the folder of the user's
// scenarios, in the containers and in the worker function of a load stack.
const ScenarioVariable = "ZAE_LIMITER_SCENARIOS"

// loadRoles are the roles of a load stack.
var loadRoles = []iamName{{component: "exec"}, {component: "task"}, {component: "worker"}}

// LoadName returns the name of the load stack for a stack.
func LoadName(name string) string { return dynamo.TableName(name) + loadSuffix }

// checkLoadName validates the name of a stack to test. Repositories of images have
// stricter names than stacks.
func checkLoadName(target string) error {
	if err := checkStackName(target); err != nil {
		return err
	}

	switch maxLen := maxFunctionName - len(loadSuffix+workerSuffix); {
	case len(target) > maxLen:
		return invalid("name", target,
			fmt.Sprintf("must be at most %d characters for a load test, whose function has the suffix %s", maxLen,
				loadSuffix+workerSuffix))
	case target != strings.ToLower(target):
		return invalid("name", target, "must be in lower case for a load test, because repositories of images are")
	// The appended hyphen also finds one at the end, which the suffixes would
	// double.
	case strings.Contains(target+"-", "--"):
		return invalid("name", target,
			"must have single hyphens, and none at the end, for a load test, because repositories of images do")
	}
	return nil
}
