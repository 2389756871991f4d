// Package lambda runs the program as an AWS Lambda function. The environment
// configures it:
//
//	ZAE_LIMITER_HANDLER aggregator, which counts usage; provisioner, which
//	                    applies declared limits; or loadworker, which
//	                    generates load; aggregator if empty
//	TABLE_NAME          the table; rate-limits if empty
//	LOG_LEVEL           DEBUG, INFO, WARNING or ERROR; INFO if empty
//
// The aggregator also reads:
//
//	SNAPSHOT_WINDOWS    a list of hourly, daily and monthly; all if empty
//	SNAPSHOT_TTL_DAYS   how long usage is kept; 90 if empty
//	ENABLE_ARCHIVAL     "true" archives audit events that expire
//	ARCHIVE_BUCKET_NAME the bucket of the archive; if empty, nothing is archived
//
// The load worker also reads, where a request has no value:
//
//	TARGET_STACK_NAME   the table, in place of TABLE_NAME
//	TARGET_REGION       its region; the function's if empty
//	LOCUSTFILE          the scenario
//	LOCUST_USER_CLASSES a list of its classes; all if empty
//	BOTO3_MAX_POOL      the number of connections to keep; 1000 if empty
package lambda

import (
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// Main serves invocations until the process ends. The load worker also knows the
// given scenarios. If the environment is invalid, Main writes an error to out and
// returns the exit code 1.
func Main(getenv func(string) string, out io.Writer, scenarios ...loadtest.Scenario) int {
	handler, err := newHandler(getenv, out, scenarios)
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	lambda.Start(handler)
	return 0
}

// newHandler returns the handler that the environment selects.
func newHandler(env environment, out io.Writer, scenarios []loadtest.Scenario) (any, error) {
	switch name := env.get("ZAE_LIMITER_HANDLER", "aggregator"); name {
	case "aggregator":
		h, err := newAggregateHandler(env, out)
		if err != nil {
			return nil, err
		}
		return h.handle, nil
	case "provisioner":
		h, err := newProvisionHandler(env, out)
		if err != nil {
			return nil, err
		}
		return h.handle, nil
	case "loadworker":
		h, err := newLoadHandler(env, out, scenarios)
		if err != nil {
			return nil, err
		}
		return h.handle, nil
	default:
		return nil, fmt.Errorf("ZAE_LIMITER_HANDLER %q: unknown handler; must be aggregator, provisioner or loadworker",
			name)
	}
}

// tableTimeout limits one call about the table. It is generous, because a new
// function has little processor time for its first connection.
const tableTimeout = 5 * time.Second
