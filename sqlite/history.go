package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
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
		// The change is written by now, so that an error has to fail the
		// transaction.
		return tx.fail(err)
	}

	_, err = tx.exec("INSERT INTO audit (ns, entity, id, action, principal, resource, at, details, expires) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.key, ev.Entity, ev.ID, ev.Action, ev.Principal, ev.Resource, ev.At.Unix(), string(details),
		ev.At.Add(r.opts.AuditRetention).Unix())
	return err
}

// AuditEvents iterates over the audit events of an entity, or of all if entity is
// empty, newest first. If after is not empty, it begins with the event that
// follows after in this order.
func (r *Repository) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	return rules.Pages(func(last string) (page []limiter.AuditEvent, next *string, err error) {
		// The first page begins where the caller wants it to.
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

	// As float64, whole numbers above 2^53 would lose digits.
	decoder := json.NewDecoder(bytes.NewReader([]byte(details)))
	decoder.UseNumber()
	if err := decoder.Decode(&ev.Details); err != nil {
		return ev, &limiter.CorruptError{
			Item: fmt.Sprintf("%s: event %s of %s", t.file.path, ev.ID, ev.Entity), Reason: err.Error(),
		}
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
