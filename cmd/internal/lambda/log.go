package lambda

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// newLog returns a logger that writes one JSON object per line, with the field
// names that dashboards of the Python library expect.
func newLog(out io.Writer, level slog.Level, name string) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out,
		&slog.HandlerOptions{Level: level, ReplaceAttr: renameAttr})).With("logger", "zae_limiter."+name)
}

// renameAttr converts the standard attributes to those of the Python library.
func renameAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}

	switch a.Key {
	case slog.TimeKey:
		return slog.String("timestamp", a.Value.Time().UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		// Dashboards look for Python's name of the level.
		if a.Value.Any() == slog.LevelWarn {
			a.Value = slog.StringValue("WARNING")
		}
	}
	return a
}

// loggingStore is a store that logs its writes.
type loggingStore struct {
	aggregator.Store
	log *slog.Logger
}

// AddUsage calls the store and logs the result.
func (s loggingStore) AddUsage(ctx context.Context, a aggregator.Addition) error {
	err := s.Store.AddUsage(ctx, a)

	log := s.log.With("entity_id", a.Bucket.Entity, "resource", a.Bucket.Resource, "window", a.Window)
	if err != nil {
		log.Warn("Error updating snapshot: " + err.Error())
		return err
	}

	// Summing costs time for every snapshot, and most functions log no details.
	if s.log.Enabled(ctx, slog.LevelDebug) {
		for limit, n := range sumTokens(a.Entries) {
			log.Debug("Snapshot updated", "limit_name", limit, "window_key", a.Start.UTC().Format(time.RFC3339),
				"tokens_delta", n)
		}
	}
	return nil
}

// sumTokens returns the tokens of entries by limit.
func sumTokens(entries []aggregator.Entry) map[string]int64 {
	sums := map[string]int64{}
	for _, e := range entries {
		for limit, n := range e.Used {
			sums[limit] += n
		}
	}
	return sums
}

// Refill calls the store and logs the result.
func (s loggingStore) Refill(
	ctx context.Context, now time.Time, bucket aggregator.ID, state *aggregator.State,
) (bool, error) {
	done, err := s.Store.Refill(ctx, now, bucket, state)

	log := s.log.With("entity_id", bucket.Entity, "resource", bucket.Resource)

	switch {
	case err != nil:
		log.Warn("Error refilling bucket: " + err.Error())
	case done:
		log.Debug("Bucket refilled", "limits_refilled", limitNames(state.Limits))
	default:
		// Dashboards look for this text, which is Python's.
		log.Debug("Refill skipped - concurrent rf update")
	}
	return done, err
}

func limitNames(limits []limiter.Limit) []string {
	var all []string
	for _, l := range limits {
		all = append(all, l.Name)
	}
	return all
}

// loggingFiles is an archive that logs its writes and errors.
type loggingFiles struct {
	aggregator.Files
	bucket string
	log    *slog.Logger
}

// Read calls the archive and logs an error.
func (f loggingFiles) Read(ctx context.Context, name string) ([]byte, string, error) {
	content, version, err := f.Files.Read(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Error("Error reading from S3: "+err.Error(), "bucket", f.bucket, "key", name)
	}
	return content, version, err
}

// Write calls the archive and logs the result.
func (f loggingFiles) Write(ctx context.Context, name, version string, content []byte) error {
	err := f.Files.Write(ctx, name, version, content)
	switch {
	case err == nil:
		f.log.Info("S3 object created", "bucket", f.bucket, "key", name, "size_bytes", len(content))
	case !errors.Is(err, aggregator.ErrChanged):
		f.log.Error("Error writing to S3: "+err.Error(), "bucket", f.bucket, "key", name)
	}
	return err
}
