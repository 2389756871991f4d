package function

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// response tells a stream mapping where to begin again.
type response struct {
	Failures []failure `json:"batchItemFailures"`
}

type failure struct {
	Sequence string `json:"itemIdentifier"`
}

// aggregation handles batches of a table's stream.
type aggregation struct {
	config
	log  *slog.Logger
	open func(context.Context) (*aggregator.Aggregator, error)

	mu     sync.Mutex
	opened *aggregator.Aggregator
}

// aggregator connects at the first call that finds the table there.
func (g *aggregation) aggregator(ctx context.Context) (*aggregator.Aggregator, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		a, err := g.open(ctx)
		if err != nil {
			return nil, err
		}
		g.opened = a
	}
	return g.opened, nil
}

// handle counts the records of an event. The answer names the first that has to
// come again, because a write failed or time is running out; what can never be
// used is logged and passed by.
func (g *aggregation) handle(ctx context.Context, raw json.RawMessage) (response, error) {
	began := time.Now()
	none := response{[]failure{}}
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return none, fmt.Errorf("the event is not one of a DynamoDB stream: %w", err)
	}
	ctx, cancel := most(ctx, began)
	defer cancel()
	log := g.log.With("request_id", requestID(ctx))
	log.Info("Lambda invocation started", "function_name", lambdacontext.FunctionName, "record_count", len(e.Records),
		"table_name", g.table, "snapshot_windows", g.windows, "enable_archival", g.bucket != "", "archive_bucket", g.bucket)
	records, where, unread := g.records(log, e.Records)
	tally, err := g.aggregate(ctx, records)
	if err != nil {
		log.Error("Error connecting to the table: "+err.Error(), "table_name", g.table)
	}
	for _, skip := range tally.Skipped {
		log.Warn("Error processing record: "+skip.Reason, "record_index", where[skip.Record])
	}
	log.Info("Lambda invocation completed", "processed", len(e.Records), "snapshots_updated", tally.Snapshots,
		"refills_written", tally.Refills, "events_archived", tally.Events, "s3_objects_created", tally.Files,
		"error_count", unread+len(tally.Skipped)+tally.Lost+len(records)-tally.Done, "processing_time_ms", milliseconds(began))
	if tally.Done == len(records) {
		return none, nil
	}
	if first := records[tally.Done].Sequence; first != "" {
		return response{[]failure{{first}}}, nil
	}
	return none, fmt.Errorf("a record that has to come again has no sequence number: %w", errors.Join(err, tally.Err))
}

// aggregate does the work, or nothing if the table cannot be had.
func (g *aggregation) aggregate(ctx context.Context, records []dynamo.StreamRecord) (dynamo.Tally, error) {
	if len(records) == 0 {
		return dynamo.Tally{}, nil
	}
	a, err := g.aggregator(ctx)
	if err != nil {
		return dynamo.Tally{}, err
	}
	began := time.Now()
	g.log.Info("Batch processing started", "record_count", len(records), "windows", g.windows, "table_name", g.table)
	t := dynamo.Aggregate(ctx, a, records)
	g.log.Info("Batch processing completed", "processed_count", t.Records, "deltas_extracted", t.Changes, "snapshots_updated", t.Snapshots,
		"refills_written", t.Refills, "error_count", len(t.Skipped)+t.Lost+t.Records-t.Done, "processing_time_ms", milliseconds(began))
	if g.bucket != "" && t.Events > 0 {
		g.log.Info("Archive processing completed", "events_count", t.Events, "s3_objects_created", t.Files, "bucket", g.bucket)
	}
	return t, nil
}

// records are those that can be read, and where they are in the event.
func (g *aggregation) records(log *slog.Logger, raw []json.RawMessage) (records []dynamo.StreamRecord, where []int, unread int) {
	for i, r := range raw {
		record, err := parseRecord(r)
		if err != nil {
			unread++
			log.Warn("Error processing record: "+err.Error(), "record_index", i)
			continue
		}
		records, where = append(records, record), append(where, i)
	}
	return records, where, unread
}

// most is a context that ends when a tenth of the time is left, to say so.
func most(ctx context.Context, began time.Time) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-end.Sub(began)/10))
}

func requestID(ctx context.Context) string {
	if c, ok := lambdacontext.FromContext(ctx); ok {
		return c.AwsRequestID
	}
	return ""
}

// milliseconds since then, with two decimals.
func milliseconds(began time.Time) float64 {
	return float64(time.Since(began).Microseconds()/10) / 100
}
