package jsonview

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// Tokens is one limit of a bucket as JSON.
type Tokens struct {
	Resource string      `json:"resource" doc:"resource of the bucket"`
	Limit    string      `json:"limit_name" doc:"name of the limit"`
	Tokens   json.Number `json:"tokens" doc:"tokens left, to the thousandth; negative is debt"`
	Capacity int64       `json:"capacity" doc:"maximum number of tokens"`
	Refill   int64       `json:"refill_amount" doc:"tokens refilled every period; 0 for a quota"`
	Seconds  int64       `json:"refill_period_seconds" doc:"length of the period; 0 for a quota"`
	Source   string      `json:"source"`
	Kind
	Bounds
	Dollars  *TokensDollars `json:"dollars,omitempty"`
	Disabled *Switch        `json:"disabled,omitempty" doc:"level that is off and refuses its calls; absent if none is"`
}

// FieldDocs returns the texts that are too long for tags.
func (Tokens) FieldDocs() map[string]string {
	return map[string]string{
		"source":  sourceDoc,
		"dollars": "tokens, capacity and refill_amount of a limit of money in dollars; absent for other limits",
	}
}

// BucketLimit is one limit of a bucket.
type BucketLimit struct {
	Resource, Source string
	Limit            limiter.Limit
	Tokens           int64          // in thousandths
	Status           limiter.Status // has the window of a quota
	Off              *limiter.Switch
}

// NewTokens returns one limit of a bucket as JSON.
func NewTokens(b BucketLimit) Tokens {
	l := NewLimit(b.Limit)
	left := strings.ReplaceAll(tty.Thousandths(b.Tokens), ",", "")
	return Tokens{
		b.Resource, l.Name, json.Number(left), l.Capacity, l.Refill, l.Seconds, b.Source, l.Kind,
		NewBounds(b.Status), newTokensDollars(b.Limit, b.Tokens), SwitchOrNull(b.Off),
	}
}

// ReadBuckets iterates over the limits of an entity's buckets, of one resource or
// of all if resource is "".
func ReadBuckets(
	ctx context.Context, now time.Time, lim *limiter.RateLimiter, repo limiter.Repository, id, resource string,
) iter.Seq2[BucketLimit, error] {
	return func(yield func(BucketLimit, error) bool) {
		// Status corrects the sources of limits that no level holds, which the store
		// cannot know.
		statuses, err := lim.Status(ctx, id)
		if err != nil {
			yield(BucketLimit{}, err)
			return
		}

		chain, err := lim.Chain(ctx, id)
		if err != nil {
			yield(BucketLimit{}, err)
			return
		}

		off, err := allSwitches(lim.Switches(ctx))
		if err != nil {
			yield(BucketLimit{}, err)
			return
		}

		sources := map[[2]string]string{}
		for _, s := range statuses {
			sources[[2]string{s.Resource, s.Limit.Name}] = s.Source
		}

		for b, err := range repo.Buckets(ctx, now, limiter.Scope{Entity: id, Resource: resource}) {
			if err != nil {
				yield(BucketLimit{}, err)
				return
			}
			for i, s := range b.Statuses() {
				source := cmp.Or(sources[[2]string{s.Resource, s.Limit.Name}], s.Source)
				one := BucketLimit{s.Resource, source, s.Limit, b.Tokens[i], s, Refusing(off, s.Resource, chain...)}
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}
