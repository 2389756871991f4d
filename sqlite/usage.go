package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// book returns a Book that adds usage to the snapshots of the three windows.
func (t *tx) book(ns int64) rules.Book {
	return func(account *limiter.Account, u rules.Usage) error {
		for _, part := range rules.Snapshots(account, u) {
			if err := t.addUsage(ns, part); err != nil {
				return err
			}
		}
		return nil
	}
}

func (t *tx) addUsage(ns int64, part limiter.UsageSnapshot) error {
	key := []any{ns, part.Entity, part.Resource, string(part.Window), part.Start.Unix()}
	var counters string
	var wouldRefuse *string
	err := t.row(
		"SELECT counters, would_refuse FROM usage WHERE ns = ? AND entity = ? AND resource = ? AND window = "+
			"? AND start = ?",
		key...,
	).
		scan(&counters, &wouldRefuse)
	switch {
	case errors.Is(err, errNoRow):
	case err != nil:
		return err
	default:
		stored := part
		if err := t.parseCounters(&stored, counters, wouldRefuse); err != nil {
			// A part of the charge may be written, so that an error has to fail
			// the transaction.
			return t.fail(err)
		}
		addCounters(&part, stored)
	}

	expires := part.End.Add(t.file.opts.UsageRetention).Unix()
	_, err = t.exec(`INSERT INTO usage (ns, entity, resource, window, start, counters, would_refuse, events, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET counters = excluded.counters, would_refuse = excluded.would_refuse,
			events = events + excluded.events`,
		append(key, formatCounts(part.Counters), optionalCounts(part.WouldRefuse), part.Events, expires)...)
	return err
}

// addCounters adds the counters of one snapshot to another.
func addCounters(to *limiter.UsageSnapshot, from limiter.UsageSnapshot) {
	for limit, n := range from.Counters {
		to.Counters[limit] = bucket.Add(to.Counters[limit], n)
	}
	for limit, n := range from.WouldRefuse {
		to.WouldRefuse = rules.AddCount(to.WouldRefuse, limit, n)
	}
}

// formatCounts returns a JSON object.
func formatCounts(counts map[string]int64) string {
	text, _ := json.Marshal(counts) // never fails
	return string(text)
}

// optionalCounts returns a JSON object, or NULL for nil.
func optionalCounts(counts map[string]int64) any {
	if counts == nil {
		return nil
	}
	return formatCounts(counts)
}

// parseCounters sets the counters of a snapshot.
func (t *tx) parseCounters(u *limiter.UsageSnapshot, counters string, wouldRefuse *string) error {
	u.Counters, u.WouldRefuse = nil, nil
	err := json.Unmarshal([]byte(counters), &u.Counters)
	if err == nil && wouldRefuse != nil {
		err = json.Unmarshal([]byte(*wouldRefuse), &u.WouldRefuse)
	}

	if err != nil {
		return &limiter.CorruptError{
			Item: fmt.Sprintf("%s: %s usage of %s and %s from %s", t.file.path, u.Window, u.Entity, u.Resource,
				u.Start.Format(time.RFC3339)),
			Reason: err.Error(),
		}
	}
	return nil
}

// Usage iterates over the snapshots that match a query, newest first.
func (r *Repository) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return rules.Sequence(func() (all []limiter.UsageSnapshot, err error) {
		err = r.read(ctx, func(tx *tx) error {
			if _, err := r.requireActive(tx); err != nil {
				return err
			}
			all, err = r.usage(tx, q)
			return err
		})

		for _, u := range all {
			// A counter is 0 if all was given back.
			maps.DeleteFunc(u.Counters, func(_ string, n int64) bool { return n == 0 })
		}

		slices.SortFunc(all, rules.NewestFirst)
		return all, err
	})
}

// usage returns the stored snapshots, with the usage that buckets have not booked
// yet.
func (r *Repository) usage(tx *tx, q limiter.UsageQuery) ([]limiter.UsageSnapshot, error) {
	var all []limiter.UsageSnapshot
	at := map[string]int{}
	add := func(u limiter.UsageSnapshot) {
		if !q.Match(u) {
			return
		}

		key := fmt.Sprintf("%s#%s#%s#%d", u.Entity, u.Resource, u.Window, u.Start.Unix())
		i, ok := at[key]
		if !ok {
			at[key] = len(all)
			all = append(all, u)
			return
		}

		addCounters(&all[i], u)
		all[i].Events += u.Events
	}

	where, args := scopeCondition(r.key, limiter.Scope{Entity: q.Entity, Resource: q.Resource})
	during, times := usageCondition(q)
	err := tx.query(func(scan func(...any) error) error {
		u, err := tx.snapshot(scan)
		add(u)
		return err
	}, "SELECT entity, resource, window, start, counters, "+tx.wouldRefuse()+", events FROM usage WHERE "+where+
		during, slices.Concat(args, times)...)
	if err != nil {
		return nil, err
	}

	// Buckets hold the usage of their current hour until they book it.
	during, times = hourCondition(q)
	err = tx.query(func(scan func(...any) error) error {
		b, err := tx.record(scan)
		if err != nil {
			return err
		}
		for _, u := range rules.Snapshots(b.Account, b.Bucket.Usage) {
			add(u)
		}
		return nil
	}, "SELECT "+tx.columns()+" FROM buckets_v7 b WHERE "+where+" AND events > 0"+during, slices.Concat(args, times)...)
	return all, err
}

// usageCondition returns a condition that the rows of the snapshots of a query
// meet. Others may meet it too.
func usageCondition(q limiter.UsageQuery) (during string, args []any) {
	if q.Window != "" {
		during, args = " AND window = ?", []any{string(q.Window)}
	}
	if !q.From.IsZero() {
		during, args = during+" AND start >= ?", append(args, q.From.Unix())
	}
	if !q.To.IsZero() {
		during, args = during+" AND start <= ?", append(args, q.To.Unix())
	}
	return during, args
}

// hourCondition returns a condition that buckets with usage for a query meet. A
// window starts no later than the hour that a bucket counts.
func hourCondition(q limiter.UsageQuery) (during string, args []any) {
	if !q.From.IsZero() {
		during, args = " AND hour >= ?", []any{q.From.Truncate(time.Second).UnixMilli()}
	}
	if !q.To.IsZero() && q.Window == limiter.Hourly {
		during, args = during+" AND hour <= ?", append(args, q.To.UnixMilli())
	}
	return during, args
}

func (t *tx) snapshot(scan func(...any) error) (u limiter.UsageSnapshot, err error) {
	var start int64
	var counters string
	var wouldRefuse *string
	if err := scan(&u.Entity, &u.Resource, &u.Window, &start, &counters, &wouldRefuse, &u.Events); err != nil {
		return u, err
	}

	u.Start, u.End = u.Window.Bounds(time.Unix(start, 0))
	err = t.parseCounters(&u, counters, wouldRefuse)
	return u, err
}

// wouldRefuse returns the column of that name, which an older file that is opened
// read-only lacks.
func (t *tx) wouldRefuse() string {
	if t.schema < quotasSince {
		return "NULL"
	}
	return "would_refuse"
}
