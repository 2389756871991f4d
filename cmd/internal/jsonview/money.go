package jsonview

import (
	"encoding/json"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// LimitDollars holds the numbers of a limit of money in dollars.
type LimitDollars struct {
	Capacity json.Number `json:"capacity" doc:"the same in dollars"`
	Refill   json.Number `json:"refill_amount" doc:"the same in dollars"`
}

// StatusDollars holds the numbers of one limit of a bucket in dollars.
type StatusDollars struct {
	LimitDollars
	Available json.Number  `json:"available" doc:"the same in dollars"`
	Missing   json.Number  `json:"missing" doc:"the same in dollars"`
	Debt      json.Number  `json:"debt" doc:"the same in dollars"`
	Requested json.Number  `json:"requested" doc:"the same in dollars"`
	Used      *json.Number `json:"used,omitempty" doc:"the same in dollars"`
}

// TokensDollars holds the numbers of one limit of a bucket in dollars.
type TokensDollars struct {
	LimitDollars
	Tokens json.Number `json:"tokens" doc:"the same in dollars, to the millionth"`
}

func dollars(n int64) json.Number { return json.Number(figure.Decimal(n)) }

// NewLimitDollars returns the numbers of a limit in dollars, or nil if it does not
// count money.
func NewLimitDollars(l limiter.Limit) *LimitDollars {
	if !l.IsMoney() {
		return nil
	}
	return &LimitDollars{dollars(l.Capacity), dollars(l.Refill)}
}

func newStatusDollars(s limiter.Status, used Used) *StatusDollars {
	limit := NewLimitDollars(s.Limit)
	if limit == nil {
		return nil
	}

	object := StatusDollars{
		*limit, dollars(s.Available), dollars(Missing(s)), dollars(Debt(s)), dollars(s.Requested), nil,
	}

	if !used.Since.IsZero() {
		n := dollars(used.Tokens)
		object.Used = &n
	}

	return &object
}

func newTokensDollars(l limiter.Limit, thousandths int64) *TokensDollars {
	limit := NewLimitDollars(l)
	if limit == nil {
		return nil
	}
	return &TokensDollars{*limit, dollars(thousandths / 1000)}
}

// dollarsOf returns the amounts of money among counters, in dollars by limit.
func dollarsOf(counters map[string]int64) map[string]json.Number {
	var money map[string]json.Number
	for limit, n := range counters {
		if !figure.IsMoney(limit) {
			continue
		}
		if money == nil {
			money = map[string]json.Number{}
		}
		money[limit] = dollars(n)
	}

	return money
}

// usedOrNull returns what was used and since when, nil if nothing was counted.
func usedOrNull(u Used) (*int64, *time.Time) {
	if u.Since.IsZero() {
		return nil, nil
	}
	return &u.Tokens, TimeOrNull(u.Since)
}
