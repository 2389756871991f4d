package programs

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/proxy"
	"github.com/zeroae/zae-limiter-go/internal/figure"
	"github.com/zeroae/zae-limiter-go/llm"
)

// proxyBudget chooses how the proxy bounds what a call can cost.
type proxyBudget struct {
	prices    string // a file
	maxOutput int64
	// rewrite is rewriteOn, rewriteOff, or the name of a field.
	rewrite    string
	background string
	follow     time.Duration
}

// Values of --max-tokens-rewrite and --background.
const (
	rewriteOn         = "on"
	rewriteOff        = "off"
	backgroundCharge  = "charge"
	backgroundRefuse  = "refuse"
	fieldMaxTokens    = "max_tokens"
	fieldMaxComplete  = "max_completion_tokens"
	largestMaxOutput  = 1 << 20
	defaultFollowTime = time.Minute
)

func (b *proxyBudget) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.prices, "prices", "",
		"YAML `file` with the prices of models, to charge calls what they cost; reread when it changes")

	addDefault(cmd, &b.maxOutput, 8192, "max-output-tokens", "tokens",
		"longest answer to a request that sets no maximum, where money is limited", parseMaxOutput)

	rewrites := []string{rewriteOn, rewriteOff, fieldMaxTokens, fieldMaxComplete}
	addDefault(cmd, &b.rewrite, rewriteOn, "max-tokens-rewrite", "mode",
		"write a maximum into requests without one, where money is limited: on, off, or the field of chats, "+
			"max_tokens or max_completion_tokens", kit.OneOf(rewrites...))
	_ = cmd.RegisterFlagCompletionFunc("max-tokens-rewrite", kit.CompleteWords(rewrites...))

	addDefault(cmd, &b.background, backgroundCharge, "background", "mode",
		"charge responses with background what they reserve, or refuse them: charge or refuse",
		kit.OneOf(backgroundCharge, backgroundRefuse))
	_ = cmd.RegisterFlagCompletionFunc("background", kit.CompleteWords(backgroundCharge, backgroundRefuse))

	addDefault(cmd, &b.follow, defaultFollowTime, "follow-timeout", "duration",
		"time to read an answer on after its client left, to learn what it cost; 0s ends it and charges what "+
			"it reserved", kit.ParseDelay)
}

func parseMaxOutput(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > largestMaxOutput {
		return 0, errors.New("must be a whole number of tokens from 1 to " + strconv.Itoa(largestMaxOutput))
	}
	return n, nil
}

// apply sets the options of the proxy.
func (b *proxyBudget) apply(opts *proxy.Options) {
	opts.MaxOutput, opts.KeepRequests = b.maxOutput, b.rewrite == rewriteOff

	// On lets the proxy choose the field by its upstream, and off writes none.
	if b.rewrite != rewriteOn && b.rewrite != rewriteOff {
		opts.MaximumField = b.rewrite
	}

	opts.RefuseBackground = b.background == backgroundRefuse

	// For the proxy, 0 is the default, and a negative time is none.
	if opts.FollowTimeout = b.follow; b.follow == 0 {
		opts.FollowTimeout = -1
	}
}

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
