package examples

import (
	"strconv"
	"testing"
	"time"
)

// TestPrograms runs the examples that need nothing but Go.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"basic", "hierarchy", "llm-streaming", "multi-tenant", "spend-budget", "worker-queue",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, name, run(t, nil, program(t, name, buildPrograms)))
		})
	}
}

// TestPythonAndGo runs both programs on one table.
func TestPythonAndGo(t *testing.T) {
	t.Parallel()
	python := setup(t, "python-peer")
	table := "shared-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	compare(t, "python-and-go",
		run(t, append(account(dynamo.URL(t)), "PYTHON="+python, "TABLE="+table), "python-and-go/run.sh"))
}

// TestDynamoDBDeploy deploys a stack, uses it again, and deletes it.
func TestDynamoDBDeploy(t *testing.T) {
	t.Parallel()
	deploy, env := program(t, "dynamodb-deploy", buildPrograms), account(moto.URL(t))
	out := "The first start:\n" + run(t, env, deploy) + "\nThe second start:\n" + run(t, env, deploy) +
		"\nWith -delete:\n" + run(t, env, deploy, "-delete")
	compare(t, "dynamodb-deploy", out)
}
