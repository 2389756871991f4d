package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// record is a bucket and the row it is in.
type record struct {
	rules.Bucket
	id         int64 // 0 until it is stored
	generation int64 // of the namespace when limits and parent were looked up; 0 for never; the column facts
	parent     string
	detailed   bool // the row has starts or spared
}

// columns returns the columns of a record. An older file that is opened read-only
// lacks some.
func (t *tx) columns() string {
	const always = "b.id, b.entity, b.resource, b.facts, b.parent, b.limits, b.level, b.tokens, b.at, b.idle, b.expires, b.hour, b.used, b.events, "
	switch {
	case t.schema >= quotasSince:
		return always + "b.pulled, b.starts, b.spared"
	case t.schema >= pulledSince:
		return always + "b.pulled, NULL, NULL"
	}
	return always + "0, NULL, NULL"
}

// bucketRow holds the columns of a record. All are NULL if a join found no bucket.
type bucketRow struct {
	id                                                             *int64
	entity, resource, parent, limits, tokens, used, starts, spared *string
	generation, level, at, idle, expires, hour, events, pulled     *int64
}

// record reads a bucket from a row. The first columns go to leading. It returns nil
// if a join found no bucket, and the names of a bucket with the *CorruptError about
// it.
func (t *tx) record(scan func(...any) error, leading ...any) (*record, error) {
	var row bucketRow
	if err := scan(append(leading, &row.id, &row.entity, &row.resource, &row.generation, &row.parent, &row.limits, &row.level, &row.tokens,
		&row.at, &row.idle, &row.expires, &row.hour, &row.used, &row.events, &row.pulled, &row.starts, &row.spared)...); err != nil || row.id == nil {
		return nil, err
	}
	r := &record{id: *row.id, generation: *row.generation, parent: *row.parent, detailed: row.starts != nil || row.spared != nil}
	r.At, r.Idle, r.Expires, r.Hour, r.Events, r.Pulled = *row.at, *row.idle, *row.expires, *row.hour, *row.events, *row.pulled
	list, err := t.file.parsed.limits(*row.limits)
	if err == nil {
		err = r.parseLists(&row, list)
	}
	if err == nil && (*row.level < 0 || *row.level > 3) {
		err = fmt.Errorf("has level %d; it must be 0 to 3", *row.level)
	}
	r.Account = &limiter.Account{Entity: *row.entity, Resource: *row.resource}
	if err != nil {
		return r, &limiter.CorruptError{Item: fmt.Sprintf("%s: bucket of %s and %s", t.file.path, *row.entity, *row.resource), Reason: err.Error()}
	}
	r.Account.Limits, r.Account.Ref = list, r.id
	r.Account.Source = limiter.Precedence(*row.entity, *row.resource)[*row.level]
	return r, nil
}

// parseLists parses the columns that have a number for each limit. Counters of
// spared limits that do not fit, and starts without a quota, count as absent: a
// process of an older version changes the limits and leaves both.
func (r *record) parseLists(row *bucketRow, limits []limiter.Limit) (err error) {
	if r.Tokens, err = parseInts(*row.tokens); err != nil {
		return err
	}
	if r.Used, err = parseInts(*row.used); err != nil {
		return err
	}
	if row.starts != nil {
		if r.Starts, err = parseInts(*row.starts); err != nil {
			return err
		}
		if n := len(limits); len(r.Starts) == 2*n {
			r.Starts, r.Excess = r.Starts[:n:n], r.Starts[n:]
		}
		if !slices.ContainsFunc(limits, limiter.Limit.IsQuota) {
			r.Starts, r.Excess = nil, nil
		}
	}
	if row.spared != nil {
		if r.Spared, err = parseInts(*row.spared); err != nil {
			return err
		}
		if len(r.Spared) != len(limits) {
			r.Spared = nil
		}
	}
	return r.checkLists(limits)
}

// checkLists checks that the lists fit the limits.
func (r *record) checkLists(limits []limiter.Limit) error {
	n := len(limits)
	switch {
	case len(r.Tokens) != n || len(r.Used) != n:
		return errors.New("must have one balance and one counter for each limit")
	case len(r.Starts) != n && (r.Starts != nil || slices.ContainsFunc(limits, limiter.Limit.IsQuota)):
		return errors.New("must have the start of a window for each limit if one is a quota")
	}
	return nil
}

// save stores the columns that a charge or a credit changes, or all columns if all
// is set.
func (t *tx) save(ns int64, r *record, all bool) (err error) {
	tokens, used := formatInts(r.Tokens), formatInts(r.Used)
	if !all && (r.detailed || r.Starts != nil || r.Spared != nil) {
		_, err = t.exec(`UPDATE buckets_v5 SET tokens = ?, at = ?, expires = ?, hour = ?, used = ?, events = ?, pulled = ?,
			starts = ?, spared = ? WHERE id = ?`,
			tokens, r.At, r.Expires, r.Hour, used, r.Events, r.Pulled, optionalInts(slices.Concat(r.Starts, r.Excess)), optionalInts(r.Spared), r.id)
		return err
	}
	if !all {
		_, err = t.exec("UPDATE buckets_v5 SET tokens = ?, at = ?, expires = ?, hour = ?, used = ?, events = ?, pulled = ? WHERE id = ?",
			tokens, r.At, r.Expires, r.Hour, used, r.Events, r.Pulled, r.id)
		return err
	}
	limits, err := json.Marshal(r.Account.Limits)
	if err != nil {
		return err
	}
	level := slices.Index(precedence(r.Account), r.Account.Source)
	row := []any{
		r.generation, r.parent, string(limits), level, tokens, r.At, r.Idle, r.Expires, r.Hour, used, r.Events, r.Pulled,
		optionalInts(slices.Concat(r.Starts, r.Excess)), optionalInts(r.Spared),
	}
	if r.id != 0 {
		_, err = t.exec(`UPDATE buckets_v5 SET facts = ?, parent = ?, limits = ?, level = ?, tokens = ?, at = ?, idle = ?, expires = ?,
			hour = ?, used = ?, events = ?, pulled = ?, starts = ?, spared = ? WHERE id = ?`, append(row, r.id)...)
		return err
	}
	r.id, err = t.insert(`INSERT INTO buckets_v5 (facts, parent, limits, level, tokens, at, idle, expires, hour, used, events, pulled, starts, spared, ns, entity, resource)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(row, ns, r.Account.Entity, r.Account.Resource)...)
	return err
}

// scopeCondition returns the condition for rows of an entity, a resource or both.
func scopeCondition(ns int64, of limiter.Scope) (string, []any) {
	where, args := "ns = ?", []any{ns}
	if of.Entity != "" {
		where, args = where+" AND entity = ?", append(args, of.Entity)
	}
	if of.Resource != "" {
		where, args = where+" AND resource = ?", append(args, of.Resource)
	}
	return where, args
}

func precedence(a *limiter.Account) []limiter.Scope {
	levels := limiter.Precedence(a.Entity, a.Resource)
	return levels[:]
}

// optionalInts returns a JSON list, or NULL for nil.
func optionalInts(ns []int64) any {
	if ns == nil {
		return nil
	}
	return formatInts(ns)
}

// formatInts returns a JSON list.
func formatInts(ns []int64) string {
	b := make([]byte, 0, 64)
	b = append(b, '[')
	for i, n := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}

// parseInts parses a JSON list of integers.
func parseInts(s string) ([]int64, error) {
	inner, ok := strings.CutPrefix(s, "[")
	if ok {
		inner, ok = strings.CutSuffix(inner, "]")
	}
	if !ok {
		return nil, fmt.Errorf("%q is not a list", s)
	}
	if inner == "" {
		return nil, nil
	}
	out := make([]int64, 0, 1+strings.Count(inner, ","))
	for part := range strings.SplitSeq(inner, ",") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of whole numbers", s)
		}
		out = append(out, n)
	}
	return out, nil
}
