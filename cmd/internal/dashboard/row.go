package dashboard

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Row is a bucket as JSON.
type Row struct {
	Entity   string     `json:"entity"`
	Name     string     `json:"name"`
	Parent   string     `json:"parent"`
	Cascade  bool       `json:"cascade"`
	Resource string     `json:"resource"`
	Limits   []RowLimit `json:"limits"`
	Source   Source     `json:"source"`
	Updated  *time.Time `json:"updated_at"`
	// Off is the level that refuses the calls of the bucket, because it is off.
	Off *jsonview.Switch `json:"off,omitempty"`
}

// RowLimit is one limit of a bucket as JSON.
type RowLimit struct {
	jsonview.Limit
	jsonview.Bounds
	// Available counts whole tokens. A negative number is debt.
	Available int64 `json:"available"`
	// MissingPercent is the share of the capacity that is missing; above 100 in debt.
	MissingPercent float64 `json:"missing_percent"`
	Debt           int64   `json:"debt"`
	FullAfter      float64 `json:"full_after_seconds"`
	// Dollars holds the numbers of a limit of money in dollars; nil for others.
	Dollars *RowDollars `json:"dollars,omitempty"`
}

// RowDollars holds the numbers of one limit of a bucket in dollars, as JSON.
type RowDollars struct {
	jsonview.LimitDollars
	Available json.Number `json:"available"`
	Debt      json.Number `json:"debt"`
}

func newRowDollars(s limiter.Status) *RowDollars {
	limit := jsonview.NewLimitDollars(s.Limit)
	if limit == nil {
		return nil
	}
	return &RowDollars{*limit, json.Number(figure.Decimal(s.Available)), json.Number(figure.Decimal(jsonview.Debt(s)))}
}

// Source is the level that provides limits, as JSON.
type Source struct {
	Level    string `json:"level"`
	Entity   string `json:"entity"`
	Resource string `json:"resource"`
}

// levelProgram is the level of limits that the store does not hold: a request or
// a program brought them.
const levelProgram = "program"

func newSource(s limiter.Scope) Source { return Source{s.Level(), s.Entity, s.Resource} }

// rows returns buckets as JSON. Names that are missing after patience come with a
// later event.
func (s *space) rows(ctx context.Context, buckets []limiter.Bucket, patience time.Duration) []Row {
	labels := s.labels(ctx, s.idsOf(buckets), patience)
	rows, off := make([]Row, 0, len(buckets)), s.off(ctx)
	// Where nothing is off, rows need no ancestors.
	if len(off) > 0 {
		labels = s.withAncestors(ctx, labels, patience)
	}

	for _, b := range buckets {
		// BucketsAt returns an empty bucket for a key that has none.
		if b.Account != nil {
			rows = append(rows, newRow(b, labels, off))
		}
	}

	return rows
}

// idsOf returns the entities of buckets, and notes their resources.
func (s *space) idsOf(buckets []limiter.Bucket) []string {
	ids := make([]string, 0, len(buckets))
	for _, b := range buckets {
		if b.Account != nil {
			ids = append(ids, b.Account.Entity)
			s.seen.add(b.Account.Resource)
		}
	}
	return ids
}

func newRow(b limiter.Bucket, labels map[string]label, off switchSet) Row {
	a := b.Account
	l := labels[a.Entity]
	return Row{
		a.Entity, l.display(a.Entity), l.parent, l.cascade, a.Resource, newRowLimits(b), sourceOf(a),
		jsonview.TimeOrNull(time.UnixMilli(b.Updated).UTC()), off.refusing(a.Entity, a.Resource, labels),
	}
}

func newRowLimits(b limiter.Bucket) []RowLimit {
	limits := make([]RowLimit, len(b.Tokens))
	for i, s := range b.Statuses() {
		limits[i] = RowLimit{
			jsonview.NewLimit(s.Limit), jsonview.NewBounds(s), s.Available, missingPercent(s.Limit, b.Tokens[i]),
			jsonview.Debt(s), jsonview.Seconds(s.FullAfter), newRowDollars(s),
		}
	}

	return limits
}

// missingPercent returns the share of a capacity that is missing, above 100 in debt.
// It is rounded down to hundredths, so that 79.999 % is 79.99 and not yet the 80 at
// which the page shows red.
func missingPercent(l limiter.Limit, tokens int64) float64 {
	capacity := float64(bucket.Thousandths(l.Capacity))
	share := (capacity - float64(tokens)) / capacity
	return max(0, math.Floor(share*10_000)/100)
}

// sourceOf returns the level of an account's limits.
func sourceOf(a *limiter.Account) Source {
	if a.Default {
		return Source{Level: levelProgram}
	}
	return newSource(a.Source)
}

// readConfig returns the limits stored at a level, and their life.
func (s *space) readConfig(ctx context.Context, scope limiter.Scope) (limiter.Config, time.Duration, error) {
	cfg, err := s.repo.Config(ctx, scope)
	cfg.Scope = scope
	if err != nil {
		return cfg, 0, outage(err)
	}
	return cfg, s.pace.configFor, nil
}

// tightness returns the least share of a capacity that a bucket has left. Debt is
// below 0. Shadow limits do not count, since they never refuse.
func tightness(b limiter.Bucket) float64 {
	least := math.Inf(1)
	// A shadow limit never refuses.
	for i, l := range b.Account.Limits {
		if l.IsShadow {
			continue
		}
		least = min(least, float64(b.Tokens[i])/float64(bucket.Thousandths(l.Capacity)))
	}

	return least
}
