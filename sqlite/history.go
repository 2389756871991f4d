package sqlite

import (
	"bytes"
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

// detach returns a copy of an event that shares no memory with the caller's. The
// details are in their stored form.
func detach(ev limiter.AuditEvent) (limiter.AuditEvent, error) {
	details := make(map[string]any, len(ev.Details))
	for name, value := range ev.Details {
		text, err := json.Marshal(value)
		if err != nil {
			return ev, err
		}
		details[name] = json.RawMessage(text)
	}
	if ev.Details != nil {
		ev.Details = details
	}
	return ev, nil
}

// record stores an event in the transaction of its change.
func (r *Repository) record(tx *tx, ev limiter.AuditEvent) error {
	details, err := json.Marshal(ev.Details)
	if err != nil {
		return tx.fail(err) // the change is already written
	}
	_, err = tx.exec("INSERT INTO audit (ns, entity, id, action, principal, resource, at, details, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.key, ev.Entity, ev.ID, ev.Action, ev.Principal, ev.Resource, ev.At.Unix(), string(details), ev.At.Add(r.opts.AuditRetention).Unix())
	return err
}

// AuditEvents iterates over the audit events of an entity, or of all if entity is
// empty, newest first. If after is not empty, it begins with the event that
// follows after in this order.
func (r *Repository) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	return rules.Pages(func(last string) (page []limiter.AuditEvent, next *string, err error) {
		if last == "" {
			last = after
		}
		where, args := scopeCondition(r.key, limiter.Scope{Entity: entity})
		err = r.read(ctx, func(tx *tx) error {
			if _, err := r.requireActive(tx); err != nil {
				return err
			}
			return tx.query(func(scan func(...any) error) error {
				ev, err := tx.event(scan)
				page = append(page, ev)
				return err
			}, `SELECT id, entity, action, principal, resource, at, details FROM audit
				WHERE `+where+` AND (? = '' OR id < ?) ORDER BY id DESC LIMIT ?`, append(args, last, last, pageSize)...)
		})
		if err != nil {
			return nil, nil, err
		}
		if len(page) == pageSize {
			next = &page[len(page)-1].ID
		}
		return page, next, nil
	})
}

func (t *tx) event(scan func(...any) error) (ev limiter.AuditEvent, err error) {
	var at int64
	var details string
	if err := scan(&ev.ID, &ev.Entity, &ev.Action, &ev.Principal, &ev.Resource, &at, &details); err != nil {
		return ev, err
	}
	ev.At = time.Unix(at, 0).UTC()
	decoder := json.NewDecoder(bytes.NewReader([]byte(details)))
	decoder.UseNumber()
	if err := decoder.Decode(&ev.Details); err != nil {
		return ev, &limiter.CorruptError{Item: fmt.Sprintf("%s: event %s of %s", t.file.path, ev.ID, ev.Entity), Reason: err.Error()}
	}
	ev.Details, _ = numbers(ev.Details).(map[string]any)
	return ev, nil
}

// numbers converts whole numbers to int64 and others to float64, recursively.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

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
	var text string
	err := t.row("SELECT counters FROM usage WHERE ns = ? AND entity = ? AND resource = ? AND window = ? AND start = ?", key...).scan(&text)
	switch {
	case errors.Is(err, errNoRow):
	case err != nil:
		return err
	default:
		counters, err := t.counters(part, text)
		if err != nil {
			return t.fail(err) // part of the charge may be written
		}
		for limit, n := range counters {
			part.Counters[limit] = bucket.Add(part.Counters[limit], n)
		}
	}
	merged, err := json.Marshal(part.Counters)
	if err != nil {
		return t.fail(err)
	}
	expires := part.End.Add(t.file.opts.UsageRetention).Unix()
	_, err = t.exec(`INSERT INTO usage (ns, entity, resource, window, start, counters, events, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET counters = excluded.counters, events = events + excluded.events`,
		append(key, string(merged), part.Events, expires)...)
	return err
}

func (t *tx) counters(of limiter.UsageSnapshot, text string) (counters map[string]int64, err error) {
	if err := json.Unmarshal([]byte(text), &counters); err != nil {
		return nil, &limiter.CorruptError{
			Item:   fmt.Sprintf("%s: %s usage of %s and %s from %s", t.file.path, of.Window, of.Entity, of.Resource, of.Start.Format(time.RFC3339)),
			Reason: err.Error(),
		}
	}
	return counters, nil
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
			maps.DeleteFunc(u.Counters, func(_ string, n int64) bool { return n == 0 }) // 0 if all was given back
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
		for limit, n := range u.Counters {
			all[i].Counters[limit] = bucket.Add(all[i].Counters[limit], n)
		}
		all[i].Events += u.Events
	}
	where, args := scopeCondition(r.key, limiter.Scope{Entity: q.Entity, Resource: q.Resource})
	during, times := usageCondition(q)
	err := tx.query(func(scan func(...any) error) error {
		u, err := tx.snapshot(scan)
		add(u)
		return err
	}, "SELECT entity, resource, window, start, counters, events FROM usage WHERE "+where+during, slices.Concat(args, times)...)
	if err != nil {
		return nil, err
	}
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
	}, "SELECT "+tx.columns()+" FROM buckets b WHERE "+where+" AND events > 0"+during, slices.Concat(args, times)...)
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
	var text string
	if err := scan(&u.Entity, &u.Resource, &u.Window, &start, &text, &u.Events); err != nil {
		return u, err
	}
	u.Start, u.End = u.Window.Bounds(time.Unix(start, 0))
	u.Counters, err = t.counters(u, text)
	return u, err
}
