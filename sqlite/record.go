package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// record is a bucket and the row it is in.
type record struct {
	rules.Bucket
	id int64 // 0 until it is stored
	// generation is the generation that the namespace had when limits and parent
	// were looked up, and 0 for never. The column is named facts.
	generation int64
	parent     string
	detailed   bool // the row has starts, spared or limits that have left
}

// columns returns the columns of a record. An older file that is opened read-only
// lacks some.
func (t *tx) columns() string {
	const always = "b.id, b.entity, b.resource, b.facts, b.parent, b.limits, b.level, b.tokens, b.at, " +
		"b.idle, b.expires, b.hour, b.used, b.events, "
	switch {
	case t.schema >= peaksSince:
		return always + "b.pulled, b.starts, b.spared, b.peaks, b.left_limits, b.left_levels, b.keep"
	case t.schema >= quotasSince:
		return always + "b.pulled, b.starts, b.spared, NULL, NULL, NULL, 0"
	case t.schema >= pulledSince:
		return always + "b.pulled, NULL, NULL, NULL, NULL, NULL, 0"
	}
	return always + "0, NULL, NULL, NULL, NULL, NULL, 0"
}

// bucketRow holds the columns of a record. All are NULL if a join found no bucket.
type bucketRow struct {
	id                                                                                            *int64
	entity, resource, parent, limits, tokens, used, starts, spared, peaks, leftLimits, leftLevels *string
	generation, level, at, idle, expires, hour, events, pulled, keep                              *int64
}

// record reads a bucket from a row. The first columns go to leading. It returns nil
// if a join found no bucket, and the names of a bucket with the *CorruptError about
// it.
func (t *tx) record(scan func(...any) error, leading ...any) (*record, error) {
	var row bucketRow
	if err := scan(append(leading, &row.id, &row.entity, &row.resource, &row.generation, &row.parent, &row.limits,
		&row.level, &row.tokens,
		&row.at, &row.idle, &row.expires, &row.hour, &row.used, &row.events, &row.pulled, &row.starts, &row.spared,
		&row.peaks,
		&row.leftLimits, &row.leftLevels, &row.keep)...); err != nil || row.id == nil {
		return nil, err
	}

	r := &record{
		id: *row.id, generation: *row.generation, parent: *row.parent,
		detailed: row.starts != nil || row.spared != nil || row.leftLimits != nil,
	}
	r.At, r.Idle, r.Expires, r.Hour, r.Events, r.Pulled, r.Keep = *row.at, *row.idle,
		*row.expires, *row.hour, *row.events, *row.pulled, *row.keep

	list, err := t.file.parsed.limits(*row.limits)
	if err == nil {
		err = r.parseLists(&row, list)
	}
	if err == nil && row.leftLimits != nil && row.leftLevels != nil {
		err = r.parseLeft(t, &row, list)
	}

	if err == nil && (*row.level < 0 || *row.level > 3) {
		err = fmt.Errorf("has level %d; it must be 0 to 3", *row.level)
	}

	// Even a damaged row has names, so that a page can list the bucket that it
	// leaves out.
	r.Account = &limiter.Account{Entity: *row.entity, Resource: *row.resource}
	if err != nil {
		return r, &limiter.CorruptError{
			Item:   fmt.Sprintf("%s: bucket of %s and %s", t.file.path, *row.entity, *row.resource),
			Reason: err.Error(),
		}
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

		// A process of an older version has replaced the quotas, and left their
		// starts.
		if !slices.ContainsFunc(limits, limiter.Limit.IsQuota) {
			r.Starts = nil
		}

		if err = r.parsePeaks(row.peaks, limits); err != nil {
			return err
		}
	}

	if row.spared != nil {
		if r.Spared, err = parseInts(*row.spared); err != nil {
			return err
		}

		// The same process has left the counters of other limits.
		if len(r.Spared) != len(limits) {
			r.Spared = nil
		}
	}

	return r.checkLists(limits)
}

// parsePeaks parses the peaks of quotas and their hidden use. A list that does not fit
// counts as absent: a process of an older version changes the limits and leaves it.
// Version 5 stored, after the starts, what was spent above capacities that were
// lowered.
func (r *record) parsePeaks(peaks *string, limits []limiter.Limit) (err error) {
	n := len(limits)

	// If 150 were used when a quota of 300 became 100, version 5 stored 0
	// tokens and 50 after the starts. That is a balance of -50 and a peak of
	// 150: the boundary then fills the bucket to 100.
	if len(r.Starts) == 2*n && len(r.Tokens) == n {
		above := r.Starts[n:]
		r.Starts, r.Peaks = r.Starts[:n:n], make([]int64, n)
		for i, l := range limits {
			if above[i] > 0 {
				r.Tokens[i] = bucket.Sub(r.Tokens[i], above[i])
				r.Peaks[i] = bucket.Add(l.Capacity*bucket.Milli, above[i])
			}
		}
		return nil
	}

	if peaks == nil || r.Starts == nil {
		return nil
	}

	both, err := parseInts(*peaks)
	if len(both) == 2*n {
		r.Peaks, r.Hidden = both[:n:n], both[n:]
	}

	return err
}

// peaksColumn reverts parsePeaks. The column is NULL if the bucket has neither.
func (r *record) peaksColumn() any {
	if r.Peaks == nil && r.Hidden == nil {
		return nil
	}

	n := len(r.Tokens)
	both := make([]int64, 2*n)
	copy(both, r.Peaks)
	copy(both[n:], r.Hidden)
	return formatInts(both)
}

// numbersPerLevel is how many numbers the row has for a limit that has left.
const numbersPerLevel = 5

// parseLeft parses the limits that have left. A limit that is back, after a process of
// an older version has changed the limits, has not left.
func (r *record) parseLeft(t *tx, row *bucketRow, limits []limiter.Limit) error {
	left, err := t.file.parsed.limits(*row.leftLimits)
	if err != nil {
		return err
	}

	numbers, err := parseInts(*row.leftLevels)
	if err != nil {
		return err
	}

	if len(numbers) != numbersPerLevel*len(left) {
		return fmt.Errorf("must have %d numbers for each limit that has left", numbersPerLevel)
	}

	for i, l := range left {
		if slices.ContainsFunc(limits, func(present limiter.Limit) bool { return present.Name == l.Name }) {
			continue
		}
		n := numbers[numbersPerLevel*i:]
		r.Left = append(r.Left, rules.Level{Limit: l, Tokens: n[0], At: n[1], Start: n[2], Peak: n[3], Hidden: n[4]})
	}
	return nil
}

// leftColumns returns the columns of the limits that have left, NULL for none.
func (r *record) leftColumns() (limits, levels any, err error) {
	if len(r.Left) == 0 {
		return nil, nil, nil
	}

	var list []limiter.Limit
	var numbers []int64
	for _, v := range r.Left {
		list, numbers = append(list, v.Limit), append(numbers, v.Tokens, v.At, v.Start, v.Peak, v.Hidden)
	}

	text, err := json.Marshal(list)
	return string(text), formatInts(numbers), err
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

	leftLimits, leftLevels, err := r.leftColumns()
	if err != nil {
		return err
	}

	details := []any{optionalInts(r.Starts), optionalInts(r.Spared), r.peaksColumn(), leftLimits, leftLevels}

	// A row that has any of these columns gets them all, so that none keeps an
	// old value. Other rows, which are most, are written without them.
	if !all && (r.detailed || r.Starts != nil || r.Spared != nil || r.Left != nil) {
		_, err = t.exec(
			`UPDATE buckets_v7 SET tokens = ?, at = ?, expires = ?, hour = ?, used = ?, events = ?, pulled = ?,
			starts = ?, spared = ?, peaks = ?, left_limits = ?, left_levels = ? WHERE id = ?`,
			append(append([]any{tokens, r.At, r.Expires, r.Hour, used, r.Events, r.Pulled}, details...), r.id)...,
		)
		return err
	}

	if !all {
		_, err = t.exec("UPDATE buckets_v7 SET tokens = ?, at = ?, expires = ?, hour = ?, used = ?, events = "+
			"?, pulled = ? WHERE id = ?",
			tokens, r.At, r.Expires, r.Hour, used, r.Events, r.Pulled, r.id)
		return err
	}

	limits, err := json.Marshal(r.Account.Limits)
	if err != nil {
		return err
	}

	level := slices.Index(precedence(r.Account), r.Account.Source)
	row := append([]any{
		r.generation, r.parent, string(limits), level, tokens, r.At, r.Idle, r.Expires, r.Hour, used, r.Events,
		r.Pulled, r.Keep,
	}, details...)

	if r.id != 0 {
		_, err = t.exec(`UPDATE buckets_v7 SET facts = ?, parent = ?, limits = ?, level = ?, tokens = ?, at = ?,
			idle = ?, expires = ?, hour = ?, used = ?, events = ?, pulled = ?, keep = ?, starts = ?, spared = ?,
			peaks = ?, left_limits = ?, left_levels = ? WHERE id = ?`,
			append(row, r.id)...)
		return err
	}

	r.id, err = t.insert(`INSERT INTO buckets_v7 (facts, parent, limits, level, tokens, at, idle, expires, hour, used,
		events, pulled, keep, starts, spared, peaks, left_limits, left_levels, ns, entity, resource)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		append(row, ns, r.Account.Entity, r.Account.Resource)...)
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
