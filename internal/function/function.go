// Package function runs the program as an AWS Lambda function. The environment
// configures it:
//
//	ZAE_LIMITER_HANDLER aggregator, which counts usage, or provisioner, which
//	                    applies declared limits; aggregator if empty
//	TABLE_NAME          the table; rate-limits if empty
//	LOG_LEVEL           DEBUG, INFO, WARNING or ERROR; INFO if empty
//
// The aggregator also reads:
//
//	SNAPSHOT_WINDOWS    a list of hourly, daily and monthly; all if empty
//	SNAPSHOT_TTL_DAYS   how long usage is kept; 90 if empty
//	ENABLE_ARCHIVAL     "true" archives audit events that expire
//	ARCHIVE_BUCKET_NAME the bucket of the archive; if empty, nothing is archived
package function

import (
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
)

// Main serves invocations until the process ends. If the environment is invalid,
// it writes an error to out and returns the exit code 1.
func Main(getenv func(string) string, out io.Writer) int {
	handler, err := newHandler(getenv, out)
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	lambda.Start(handler)
	return 0
}

// newHandler returns the handler that the environment selects.
func newHandler(env environment, out io.Writer) (any, error) {
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
	default:
		return nil, fmt.Errorf("ZAE_LIMITER_HANDLER %q: unknown handler; must be aggregator or provisioner", name)
	}
}

// tableTimeout limits one call about the table. It is generous, because a new
// function has little processor time for its first connection.
const tableTimeout = 5 * time.Second
