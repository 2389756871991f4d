// Package function is the program as an AWS Lambda function. Its environment
// says which one, and with what:
//
//	ZAE_LIMITER_HANDLER aggregator, which counts usage, or provisioner, which
//	                    applies declared limits; aggregator if empty
//	TABLE_NAME          the table; rate-limits if empty
//	LOG_LEVEL           DEBUG, INFO, WARNING or ERROR; INFO if empty
//
// and for the aggregator:
//
//	SNAPSHOT_WINDOWS    of hourly, daily and monthly; all if empty
//	SNAPSHOT_TTL_DAYS   how long usage is kept; 90 if empty
//	ENABLE_ARCHIVAL     "true" archives audit events that expire
//	ARCHIVE_BUCKET_NAME where; without one nothing is archived
package function

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/s3files"
)

// Main serves invocations until the process is ended. It returns at once, with
// an exit code, if the environment is wrong.
func Main(getenv func(string) string, out io.Writer) int {
	handler, err := newHandler(getenv, out)
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	lambda.Start(handler)
	return 0
}

// newHandler is the function that the environment names.
func newHandler(env environment, out io.Writer) (any, error) {
	switch name := env.get("ZAE_LIMITER_HANDLER", "aggregator"); name {
	case "aggregator":
		g, err := newAggregation(env, out)
		if err != nil {
			return nil, err
		}
		return g.handle, nil
	case "provisioner":
		p, err := newProvision(env, out)
		if err != nil {
			return nil, err
		}
		return p.handle, nil
	default:
		return nil, fmt.Errorf("ZAE_LIMITER_HANDLER has to be aggregator or provisioner, not %q", name)
	}
}

func newAggregation(env environment, out io.Writer) (*aggregation, error) {
	c, err := readConfig(env)
	if err != nil {
		return nil, err
	}
	log := newLog(out, c.level, "aggregator")
	return &aggregation{config: c, log: log, open: func(ctx context.Context) (*aggregator.Aggregator, error) { return open(ctx, c, log) }}, nil
}

// tableTimeout is the time for one call about the table: a function that has just
// started has little of a processor for its first connection.
const tableTimeout = 5 * time.Second

// open connects to the table and, if there is one, the archive.
func open(ctx context.Context, c config, log *slog.Logger) (*aggregator.Aggregator, error) {
	opts := &aggregator.Options{Windows: c.windows}
	if c.bucket != "" {
		files, err := s3files.Open(ctx, s3files.Scheme+c.bucket, "")
		if err != nil {
			return nil, err
		}
		opts.Archive = notedFiles{files, c.bucket, log}
	}
	repo, err := dynamo.Connect(ctx, c.table, &dynamo.Options{Namespace: "_", Timeout: tableTimeout})
	if err != nil {
		return nil, err
	}
	return aggregator.New(notedStore{repo.UsageStore(c.retention), log}, opts)
}
