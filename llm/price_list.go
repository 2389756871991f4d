package llm

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// PriceList holds the prices of models by name and date, as [ParsePrices] reads
// them. It never changes, so it is safe for concurrent use.
type PriceList struct {
	file   string
	names  []string           // as written, in the order of the file
	prices map[string][]Price // by name as written, the earliest first
}

// Price returns the price of a model at a time. The exact name comes before any
// name that ends in "*", and of these the longest that fits. A price applies from
// 00:00 UTC of its date on.
func (l *PriceList) Price(model string, at time.Time) (Price, error) {
	dated, ok := MatchModel(l.prices, model)
	if !ok {
		return Price{}, l.missing(model,
			fmt.Sprintf("has no price in %s; add the model, or a default named \"*\"", l.file))
	}

	for _, p := range slices.Backward(dated) {
		if !at.Before(p.From) {
			return p, nil
		}
	}

	return Price{}, l.missing(model,
		fmt.Sprintf("has no price before %s in %s; add one without a date to its list",
			dated[0].From.Format(time.DateOnly), l.file))
}

// missing returns the error of a model without a price.
func (l *PriceList) missing(model, reason string) error {
	return &limiter.InvalidError{Field: "model", Value: model, Reason: reason, Err: ErrNoPrice}
}

// MatchModel returns the value whose name fits a model best, and reports whether
// there is one. The exact name comes first, then the longest beginning of it that
// has a "*" at its end.
func MatchModel[V any](byName map[string]V, model string) (value V, ok bool) {
	if value, ok = byName[model]; ok && !strings.HasSuffix(model, "*") {
		return value, true
	}
	for n := len(model); n >= 0; n-- {
		if value, ok = byName[model[:n]+"*"]; ok {
			return value, true
		}
	}
	return value, false
}

// All iterates over the names of the file, in its order, each with its prices
// from the earliest to the latest.
func (l *PriceList) All() iter.Seq2[string, Price] {
	return func(yield func(string, Price) bool) {
		for _, name := range l.names {
			for _, p := range l.prices[name] {
				if !yield(name, p) {
					return
				}
			}
		}
	}
}
