package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/zeroae/zae-limiter-go/cmd/internal/s3files"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// response names the first record of a batch that the event source mapping must
// retry.
type response struct {
	Failures []failure `json:"batchItemFailures"`
}

type failure struct {
	Sequence string `json:"itemIdentifier"`
}

// aggregateHandler handles batches of a table's stream.
type aggregateHandler struct {
	config
	log *slog.Logger

	mu     sync.Mutex
	opened *aggregator.Aggregator // nil until open succeeds
}

func newAggregateHandler(env environment, out io.Writer) (*aggregateHandler, error) {
	c, err := readConfig(env)
	if err != nil {
		return nil, err
	}
	return &aggregateHandler{config: c, log: newLog(out, c.level, "aggregator")}, nil
}

// handle counts the records of an event. The response names the first record to
// retry, because a write failed or the time is running out. Records that can
// never be used are logged and skipped.
func (h *aggregateHandler) handle(ctx context.Context, raw json.RawMessage) (response, error) {
	began := time.Now()
	none := response{[]failure{}}

	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return none, fmt.Errorf("decode event of a DynamoDB stream: %w", err)
	}

	ctx, cancel := withReserve(ctx, began)
	defer cancel()

	log := h.log.With("request_id", requestID(ctx))
	log.Info("Lambda invocation started", "function_name", lambdacontext.FunctionName, "record_count", len(e.Records),
		"table_name", h.table, "snapshot_windows", h.windows, "enable_archival", h.bucket != "", "archive_bucket",
		h.bucket)

	records, indexes, unread := parseRecords(log, e.Records)
	tally, err := h.aggregate(ctx, records)
	if err != nil {
		log.Error("Error connecting to the table: "+err.Error(), "table_name", h.table)
	}

	for _, skip := range tally.Skipped {
		log.Warn("Error processing record: "+skip.Reason, "record_index", indexes[skip.Record])
	}

	log.Info("Lambda invocation completed", "processed", len(e.Records), "snapshots_updated", tally.Snapshots,
		"refills_written", tally.Refills, "events_archived", tally.Events, "s3_objects_created", tally.Files,
		"error_count", unread+len(tally.Skipped)+tally.Lost+len(records)-tally.Done, "processing_time_ms",
		milliseconds(began))

	// Done stops before the first record that failed. The mapping delivers that
	// one again, and all after it.
	if tally.Done == len(records) {
		return none, nil
	}

	if first := records[tally.Done].Sequence; first != "" {
		return response{[]failure{{first}}}, nil
	}

	// Only a failed invocation makes the mapping deliver a record again that it
	// cannot name.
	return none, fmt.Errorf("retry a record without a sequence number: %w", errors.Join(err, tally.Err))
}

// aggregate aggregates records. It returns an error if it cannot connect.
func (h *aggregateHandler) aggregate(ctx context.Context, records []dynamo.StreamRecord) (dynamo.Tally, error) {
	if len(records) == 0 {
		return dynamo.Tally{}, nil
	}
	a, err := h.aggregator(ctx)
	if err != nil {
		return dynamo.Tally{}, err
	}

	began := time.Now()
	h.log.Info("Batch processing started", "record_count", len(records), "windows", h.windows, "table_name", h.table)

	t := dynamo.Aggregate(ctx, a, records)
	h.log.Info("Batch processing completed", "processed_count", t.Records, "deltas_extracted", t.Changes,
		"snapshots_updated", t.Snapshots,
		"refills_written", t.Refills, "error_count", len(t.Skipped)+t.Lost+t.Records-t.Done, "processing_time_ms",
		milliseconds(began))

	if h.bucket != "" && t.Events > 0 {
		h.log.Info("Archive processing completed", "events_count", t.Events, "s3_objects_created", t.Files,
			"bucket", h.bucket)
	}
	return t, nil
}

// aggregator returns the aggregator, and connects it until that succeeds once.
func (h *aggregateHandler) aggregator(ctx context.Context) (*aggregator.Aggregator, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened == nil {
		a, err := h.open(ctx)
		if err != nil {
			return nil, err
		}
		h.opened = a
	}
	return h.opened, nil
}

// open connects to the table and, if configured, the archive.
func (h *aggregateHandler) open(ctx context.Context) (*aggregator.Aggregator, error) {
	opts := &aggregator.Options{Windows: h.windows}
	if h.bucket != "" {
		files, err := s3files.Open(ctx, s3files.Scheme+h.bucket, "")
		if err != nil {
			return nil, err
		}
		opts.Archive = loggingFiles{files, h.bucket, h.log}
	}

	// The namespace _ stands for the table, since the function counts for all
	// namespaces.
	repo, err := dynamo.Connect(ctx, h.table, &dynamo.Options{Namespace: "_", Timeout: tableTimeout})
	if err != nil {
		return nil, err
	}
	return aggregator.New(loggingStore{repo.UsageStore(h.retention), h.log}, opts)
}

// parseRecords returns the readable records, their indexes in the event, and the
// number of unreadable ones.
func parseRecords(log *slog.Logger, raw []json.RawMessage) (records []dynamo.StreamRecord, indexes []int, unread int) {
	for i, r := range raw {
		record, err := parseRecord(r)
		if err != nil {
			unread++
			log.Warn("Error processing record: "+err.Error(), "record_index", i)

			continue
		}
		records, indexes = append(records, record), append(indexes, i)
	}
	return records, indexes, unread
}

// withReserve returns a context that ends when a tenth of the time is left, so
// that the function can still respond.
func withReserve(ctx context.Context, began time.Time) (context.Context, context.CancelFunc) {
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

// milliseconds returns the time since began, with two decimals.
func milliseconds(began time.Time) float64 {
	return float64(time.Since(began).Microseconds()/10) / 100
}
