package function

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
)

// notedStore logs what an aggregator writes.
type notedStore struct {
	aggregator.Store
	log *slog.Logger
}

// AddUsage is that of the store.
func (s notedStore) AddUsage(ctx context.Context, a aggregator.Addition) error {
	err := s.Store.AddUsage(ctx, a)
	log := s.log.With("entity_id", a.Bucket.Entity, "resource", a.Bucket.Resource, "window", a.Window)
	if err != nil {
		log.Warn("Error updating snapshot: " + err.Error())
		return err
	}
	if s.log.Enabled(ctx, slog.LevelDebug) {
		for limit, n := range tokens(a.Entries) {
			log.Debug("Snapshot updated", "limit_name", limit, "window_key", a.Start.UTC().Format(time.RFC3339), "tokens_delta", n)
		}
	}
	return nil
}

func tokens(entries []aggregator.Entry) map[string]int64 {
	sums := map[string]int64{}
	for _, e := range entries {
		for limit, n := range e.Used {
			sums[limit] += n
		}
	}
	return sums
}

// Refill is that of the store.
func (s notedStore) Refill(ctx context.Context, now time.Time, bucket aggregator.ID, state *aggregator.State) (bool, error) {
	done, err := s.Store.Refill(ctx, now, bucket, state)
	log := s.log.With("entity_id", bucket.Entity, "resource", bucket.Resource)
	switch {
	case err != nil:
		log.Warn("Error refilling bucket: " + err.Error())
	case done:
		log.Debug("Bucket refilled", "limits_refilled", names(state.Limits))
	default:
		log.Debug("Refill skipped - concurrent rf update")
	}
	return done, err
}

func names(limits []limiter.Limit) []string {
	var all []string
	for _, l := range limits {
		all = append(all, l.Name)
	}
	return all
}

// notedFiles logs what goes into the archive.
type notedFiles struct {
	aggregator.Files
	bucket string
	log    *slog.Logger
}

// Read is that of the files.
func (f notedFiles) Read(ctx context.Context, name string) ([]byte, string, error) {
	content, version, err := f.Files.Read(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Error("Error reading from S3: "+err.Error(), "bucket", f.bucket, "key", name)
	}
	return content, version, err
}

// Write is that of the files.
func (f notedFiles) Write(ctx context.Context, name, version string, content []byte) error {
	err := f.Files.Write(ctx, name, version, content)
	switch {
	case err == nil:
		f.log.Info("S3 object created", "bucket", f.bucket, "key", name, "size_bytes", len(content))
	case !errors.Is(err, aggregator.ErrChanged):
		f.log.Error("Error writing to S3: "+err.Error(), "bucket", f.bucket, "key", name)
	}
	return err
}
