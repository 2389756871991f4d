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

// record reads a bucket from a row. The first columns go to leading. It returns nil
// if a join found no bucket, and the names of a bucket with the *CorruptError about
// it.
func (t *tx) record(scan func(...any) error, leading ...any) (*record, error) {
	var r record
	var id *int64 // like all columns NULL if a join found no bucket
	var entity, resource, parent, limits, tokens, used, starts, spared *string
	var generation, level, at, idle, expires, hour, events, pulled *int64
	if err := scan(append(leading, &id, &entity, &resource, &generation, &parent, &limits, &level, &tokens,
		&at, &idle, &expires, &hour, &used, &events, &pulled, &starts, &spared)...); err != nil || id == nil {
		return nil, err
	}
	r.id, r.generation, r.parent = *id, *generation, *parent
	r.At, r.Idle, r.Expires, r.Hour, r.Events, r.Pulled = *at, *idle, *expires, *hour, *events, *pulled
	r.detailed = starts != nil || spared != nil
	list, err := t.file.parsed.limits(*limits)
	if err == nil {
		r.Tokens, err = parseInts(*tokens)
	}
	if err == nil {
		r.Used, err = parseInts(*used)
	}
	if err == nil && (len(r.Tokens) != len(list) || len(r.Used) != len(list)) {
		err = errors.New("must have one balance and one counter for each limit")
	}
	if err == nil && (r.detailed || slices.ContainsFunc(list, limiter.Limit.IsQuota)) {
		err = r.parseDetails(list, starts, spared)
	}
	if err == nil && (*level < 0 || *level > 3) {
		err = fmt.Errorf("has level %d; it must be 0 to 3", *level)
	}
	r.Account = &limiter.Account{Entity: *entity, Resource: *resource}
	if err != nil {
		return &r, &limiter.CorruptError{Item: fmt.Sprintf("%s: bucket of %s and %s", t.file.path, *entity, *resource), Reason: err.Error()}
	}
	r.Account = &limiter.Account{
		Entity: *entity, Resource: *resource, Limits: list,
		Source: limiter.Precedence(*entity, *resource)[*level], Ref: r.id,
	}
	return &r, nil
}

// parseDetails sets the columns that plain buckets do not have.
func (r *record) parseDetails(limits []limiter.Limit, starts, spared *string) (err error) {
	if starts != nil {
		r.Starts, err = parseInts(*starts)
	}
	if err == nil && spared != nil {
		r.Spared, err = parseInts(*spared)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(limits, limiter.Limit.IsQuota) != (r.Starts != nil) {
		return errors.New("must have the starts of windows exactly if a limit is a quota")
	}
	if r.Starts != nil && len(r.Starts) != len(limits) || r.Spared != nil && len(r.Spared) != len(limits) {
		return errors.New("must have one start of a window and one count of spared charges for each limit")
	}
	return nil
}

// save stores the columns that a charge or a credit changes, or all columns if all
// is set.
func (t *tx) save(ns int64, r *record, all bool) (err error) {
	tokens, used := formatInts(r.Tokens), formatInts(r.Used)
	if !all && (r.detailed || r.Starts != nil || r.Spared != nil) {
		_, err = t.exec(`UPDATE buckets SET tokens = ?, at = ?, expires = ?, hour = ?, used = ?, events = ?, pulled = ?,
			starts = ?, spared = ? WHERE id = ?`,
			tokens, r.At, r.Expires, r.Hour, used, r.Events, r.Pulled, optionalInts(r.Starts), optionalInts(r.Spared), r.id)
		return err
	}
	if !all {
		_, err = t.exec("UPDATE buckets SET tokens = ?, at = ?, expires = ?, hour = ?, used = ?, events = ?, pulled = ? WHERE id = ?",
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
		optionalInts(r.Starts), optionalInts(r.Spared),
	}
	if r.id != 0 {
		_, err = t.exec(`UPDATE buckets SET facts = ?, parent = ?, limits = ?, level = ?, tokens = ?, at = ?, idle = ?, expires = ?,
			hour = ?, used = ?, events = ?, pulled = ?, starts = ?, spared = ? WHERE id = ?`, append(row, r.id)...)
		return err
	}
	r.id, err = t.insert(`INSERT INTO buckets (facts, parent, limits, level, tokens, at, idle, expires, hour, used, events, pulled, starts, spared, ns, entity, resource)
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
