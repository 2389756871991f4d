package cli

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/proxy"
	"github.com/zeroae/zae-limiter-go/internal/figure"
	"github.com/zeroae/zae-limiter-go/llm"
)

// applyPrices reads the prices of models, and follows changes of their file.
func (o *proxyOptions) applyPrices(ctx context.Context, opts *proxy.Options) error {
	if o.budget.prices == "" {
		if opts.Limits.Cost != "" {
			return kit.Usagef("--charge cost=%s needs --prices, the file with the prices of models", opts.Limits.Cost)
		}
		return nil
	}

	files, err := listen.WatchFiles(
		ctx, func(content ...[]byte) (*llm.PriceList, error) { return llm.ParsePrices(o.budget.prices, content[0]) },
		func(err error) {
			if err != nil {
				o.Warn("%s: the prices stay as they were: %v", o.budget.prices, err)
				return
			}
			o.Say("%s: the prices were read again", o.budget.prices)
		}, o.budget.prices)
	if err != nil {
		return kit.Usagef("--prices: %v", err)
	}

	opts.Prices = func(model string, at time.Time) (llm.Price, error) { return files.Get().Price(model, at) }
	return nil
}

// Bounds of the search for a limit of cost when the proxy starts: the number of
// levels, and the time for all of them.
const (
	budgetReads   = 100
	budgetTimeout = 2 * time.Second
)

// warnWithoutBudget warns if prices have no effect, because no level stores the
// limit of cost called name. It does not search all of a large store.
func (o *proxyOptions) warnWithoutBudget(ctx context.Context, lim *limiter.RateLimiter, name string) {
	if o.budget.prices == "" {
		return
	}

	name = cmp.Or(name, llm.Spend)
	ctx, cancel := context.WithTimeout(ctx, budgetTimeout)
	defer cancel()

	// An error, or a store that is too large to search, proves nothing, so
	// neither causes a warning.
	seen := 0
	for limits, err := range storedLimits(ctx, lim) {
		if seen++; err != nil || seen > budgetReads || hasLimit(limits, name) {
			return
		}
	}

	if !hasLimit(o.limits.All, name) {
		o.Warn("no limit named %s is in force, so no call is refused for its cost; set one, such as -l %s", name,
			budgetExample(name))
	}
}

func hasLimit(limits []limiter.Limit, name string) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool { return l.Name == name })
}

// storedLimits iterates over the limits of every level, the common ones first.
func storedLimits(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[[]limiter.Limit, error] {
	return func(yield func([]limiter.Limit, error) bool) {
		limits, _, err := lim.SystemDefaults(ctx)
		if !yield(limits, err) {
			return
		}

		resources, err := lim.ResourcesWithDefaults(ctx)
		for _, resource := range resources {
			if limits, err := lim.ResourceDefaults(ctx, resource); !yield(limits, err) {
				return
			}
		}

		own, second := lim.ResourcesWithLimits(ctx)
		if err := errors.Join(err, second); err != nil {
			yield(nil, err)
			return
		}

		for _, resource := range own {
			for entity, err := range lim.EntitiesWithLimits(ctx, resource) {
				if err == nil {
					limits, err = lim.Limits(ctx, entity, resource)
				}
				if !yield(limits, err) {
					return
				}
			}
		}
	}
}

// budgetExample returns a limit of $50 a month in the form of --limit, quoted for a
// shell. Only some names accept dollars.
func budgetExample(name string) string {
	if figure.IsMoney(name) {
		return "'" + name + ":$50@month'"
	}
	return name + ":50M@month for $50 a month"
}
