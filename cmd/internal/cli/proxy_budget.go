package cli

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/proxy"
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
