package limiter

import (
	"context"
	"time"
)

// BucketPager is an optional interface of a [Repository] that reads buckets in
// pages and by key, so that a caller can show some of very many.
type BucketPager interface {
	// BucketPage returns the next buckets of the entities whose IDs start with
	// q.Prefix, by entity, then resource, both in the order of their bytes, with
	// the limits in force at now. A page may be short, even empty, with Next set,
	// since a store bounds the work for a page. A bucket that exists throughout
	// appears exactly once. The error is an *InvalidError if q.After is not a Next
	// of the store, or if q.Prefix is too long.
	BucketPage(ctx context.Context, now time.Time, q BucketQuery) (BucketPage, error)
	// BucketsAt returns the bucket of each key, in the order of keys, with the
	// limits in force at now. Account is nil where there is no bucket. A key names
	// an entity and a resource, and may repeat.
	BucketsAt(ctx context.Context, now time.Time, keys []Scope) ([]Bucket, error)
}

// BucketQuery selects a page of buckets.
type BucketQuery struct {
	Prefix string // of the entity's ID, at most 256 bytes; "" for all entities
	After  string // the Next of the page before, with the same Prefix; "" for the first page
	Max    int    // buckets at most; 0 means 100, and more than 1000 counts as 1000
}

// BucketPage is a part of the buckets of a namespace.
type BucketPage struct {
	Buckets []Bucket // by entity, then resource
	// Next is an opaque cursor of printable ASCII without spaces, and "" after the
	// last page. It stays valid while buckets come and go.
	Next string
	// Scanned counts the buckets that the page passes, including expired ones that
	// are still stored.
	Scanned int
	// Damaged has the keys of buckets that the page leaves out, because their data
	// or the limits in force cannot be read. BucketsAt returns a *CorruptError for
	// them.
	Damaged []Scope
}

// ReadBudgeter is an optional interface of a [Repository] whose service bills
// reads.
type ReadBudgeter interface {
	// NewReadBudget starts a budget of read units a second; fewer than 1 count as 1.
	// spend adds it to the context of a call that reads, on any view of the store.
	// Calls with such contexts use together at most that many units a second on
	// average: a read waits until earlier ones are paid, or until its context ends.
	// At most one second's units accumulate. Calls without the budget never wait for
	// it, as charges, credits and changes should not. spent returns the units used so
	// far, and the rate over the last seconds. It does no I/O.
	NewReadBudget(units float64) (spend func(context.Context) context.Context, spent func() (units, rate float64))
}
