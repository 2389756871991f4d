// Package function is the program as an AWS Lambda function. Its environment
// says which one:
//
//	TABLE_NAME          the table; rate-limits if empty
//	SNAPSHOT_WINDOWS    of hourly, daily and monthly; all if empty
//	SNAPSHOT_TTL_DAYS   how long usage is kept; 90 if empty
//	ENABLE_ARCHIVAL     "true" archives audit events that expire
//	ARCHIVE_BUCKET_NAME where; without one nothing is archived
//	LOG_LEVEL           DEBUG, INFO, WARNING or ERROR; INFO if empty
package function

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/s3files"
)

// Main serves invocations until the process is ended. It returns at once, with
// an exit code, if the environment is wrong.
func Main(getenv func(string) string, out io.Writer) int {
	g, err := newAggregation(getenv, out)
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	lambda.Start(g.handle)
	return 0
}

func newAggregation(env environment, out io.Writer) (*aggregation, error) {
	c, err := readConfig(env)
	if err != nil {
		return nil, err
	}
	log := newLog(out, c.level)
	return &aggregation{config: c, log: log, open: func(ctx context.Context) (*aggregator.Aggregator, error) { return open(ctx, c, log) }}, nil
}

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
	repo, err := dynamo.Connect(ctx, c.table, &dynamo.Options{Namespace: "_"})
	if err != nil {
		return nil, err
	}
	return aggregator.New(notedStore{repo.UsageStore(c.retention), log}, opts)
}
