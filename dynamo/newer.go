package dynamo

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// Releases of Python's library after 0.10.0 keep a bucket under a key of its own,
// with the number of a shard. They read no bucket of this package and this package
// reads none of theirs, so each would admit the whole limit. Opening a table does
// not always change its version record, but every such bucket is in the index of
// its namespace, with a sort key that no item of this package has.

const (
	connectLook = 25    // newer buckets that Connect looks at
	checkLook   = 1_000 // newer buckets that CheckBuckets looks at in each namespace
)

// checkLayout returns a *limiter.VersionError if the namespace has buckets of a
// newer release of Python's library.
func (s *store) checkLayout(ctx context.Context, ns, name string) error {
	found, err := s.hasNewerBucket(ctx, ns, connectLook)
	if err != nil || !found {
		return err
	}
	return s.newerBuckets([]string{name})
}

// newerBuckets returns the error for namespaces that a newer release uses.
func (s *store) newerBuckets(namespaces []string) error {
	which := "namespace " + strconv.Quote(namespaces[0]) + " has"
	if more := len(namespaces) - 1; more > 0 {
		which = fmt.Sprintf("namespace %q and %d more have", namespaces[0], more)
	}

	deletion := s.remedy(remedy.DeleteNewerBuckets)
	return remedy.With(&limiter.VersionError{
		Store: "table " + s.table, Schema: "0.9.0 or newer", Client: schemaVersion,
		Reason: fmt.Sprintf("%s buckets of Python's zae-limiter 0.10.1 or newer, which admits the same "+
			"limits a second time; "+
			"run exactly %s on this table, then delete those buckets with %v",
			which, clientVersion, deletion),
	}, deletion)
}

// hasNewerBucket reports whether one of the first look newer buckets of a
// namespace has not expired. It reports false if the caller may not query the
// index, or the table has none: then only someone else can look.
func (s *store) hasNewerBucket(ctx context.Context, ns string, look int) (bool, error) {
	// The table has answered already, and a program that starts has time.
	ctx = withoutTryTimeout(ctx)

	var keys []key
	for it, err := range s.query(ctx, ns, newerQuery(ns, look)) {
		if code := errorCode(err); code == "AccessDeniedException" || code == "ValidationException" {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if keys = append(keys, it.key()); len(keys) == look {
			break
		}
	}

	now := s.clock().Unix()
	for batch := range slices.Chunk(keys, connectLook) {
		found, err := s.getLagging(ctx, batch)
		if err != nil {
			return false, err
		}
		for _, it := range found {
			// An expired bucket does not count, so that a brief mistake heals by
			// itself.
			if ends, err := it.number(attrTTL); err != nil || ends == 0 || ends > now {
				return true, nil
			}
		}
	}
	return false, nil
}

// newerQuery returns a query for the newer buckets of a namespace, at most page in
// one reply unless page is 0.
func newerQuery(ns string, page int) *dynamodb.QueryInput {
	in := queryIndex(indexNamespace, ns, bucketGSIPrefix)
	if page > 0 {
		in.Limit = aws.Int32(int32(page)) //nolint:gosec // at most checkLook
	}
	return in
}

// CheckBuckets returns a *limiter.VersionError if a namespace of the table has
// buckets of Python's zae-limiter 0.10.1 or newer. Such a release admits the limits
// of the namespace a second time, and Connect refuses the namespace. CheckBuckets
// leaves out buckets that have expired, and looks at 1,000 in each namespace at
// most.
func (r *Repository) CheckBuckets(ctx context.Context) error {
	var namespaces []string
	err := r.eachActive(ctx, func(n limiter.Namespace) error {
		found, err := r.hasNewerBucket(ctx, n.ID, checkLook)
		if found {
			namespaces = append(namespaces, n.Name)
		}
		return err
	})
	if err != nil || len(namespaces) == 0 {
		return err
	}
	return r.newerBuckets(namespaces)
}

// DeleteNewerBuckets deletes the buckets of Python's zae-limiter 0.10.1 or newer
// in all namespaces, and returns their number. Stop its services first: they would
// create their buckets again.
func (r *Repository) DeleteNewerBuckets(ctx context.Context) (int, error) {
	ctx = withoutTryTimeout(ctx)
	deleted := 0
	err := r.eachActive(ctx, func(n limiter.Namespace) error {
		for batch, err := range inBatches(r.query(ctx, n.ID, newerQuery(n.ID, 0)), maxWrites) {
			if err != nil {
				return err
			}

			keys := make([]key, len(batch))
			for i, it := range batch {
				keys[i] = it.key()
			}

			if err := r.deleteAll(ctx, keys); err != nil {
				return err
			}
			deleted += len(keys)
		}
		return nil
	})
	return deleted, err
}

// eachActive calls do with every active namespace, until it returns an error.
func (r *Repository) eachActive(ctx context.Context, do func(limiter.Namespace) error) error {
	for n, err := range r.Namespaces(ctx) {
		if err != nil {
			return err
		}
		if !n.DeletedAt.IsZero() || n.Purging {
			continue
		}

		if err := do(n); err != nil {
			return err
		}
	}
	return nil
}
