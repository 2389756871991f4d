package cli

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/figure"
	"github.com/zeroae/zae-limiter-go/llm"
)

// costJSON is the cost of a call as JSON.
type costJSON struct {
	Model string  `json:"model" doc:"name of the model"`
	From  *string `json:"from" doc:"first day of the price; null if it always applied"`
	Cost  int64   `json:"cost" doc:"millionths of a dollar"`
	// Dollars is exact: a millionth has six decimals.
	Dollars json.Number `json:"dollars" doc:"the same in dollars"`
}

type costOptions struct {
	pricesOptions
	model string
	at    time.Time
	usage llm.Usage
}

func newPricesCost(c *kit.Console) *cobra.Command {
	o := costOptions{pricesOptions: pricesOptions{Console: c}}
	cmd := &cobra.Command{
		Use:   "cost FILE MODEL",
		Short: "Show what a call costs",
		Long: `Show what a call of a model costs with the prices of a file, in millionths of a
dollar. The cost of all tokens is added up and rounded up once. FILE may be -
for stdin.`,
		Example: `  zae-limiter prices cost prices.yaml large --input-tokens 900 --json
  zae-limiter prices cost prices.yaml large --output-tokens 300 --at 2027-01-31`,
		Args: kit.Arguments(priceFileArg(&o.file), kit.Argument{Name: "MODEL", Set: func(s string) error {
			o.model = s
			return nil
		}}),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(*cobra.Command, []string) error { return runPricesCost(o) },
	}

	kit.AddFlag(cmd, &o.usage.Input, "input-tokens", "tokens", "", "tokens of the prompt, cached ones included",
		parseTokens)
	kit.AddFlag(cmd, &o.usage.Output, "output-tokens", "tokens", "", "tokens of the answer", parseTokens)
	kit.AddFlag(cmd, &o.usage.Cached, "cached-tokens", "tokens", "", "tokens of the prompt that come from the cache",
		parseTokens)
	kit.AddFlag(cmd, &o.usage.Written, "cache-write-tokens", "tokens", "",
		"tokens of the prompt that are written to the cache", parseTokens)

	kit.AddFlag(cmd, &o.at, "at", "date", "", "day of the call, such as 2027-01-31 (default: now)", parseDay)

	kit.AddJSON[costJSON](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

func parseTokens(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("must be a whole number of tokens, 0 or more")
	}
	return n, nil
}

func parseDay(text string) (time.Time, error) {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, errors.New("must be a date such as 2027-01-31")
	}
	return at, nil
}

func runPricesCost(o costOptions) error {
	// The difference cannot overflow, as the sum of two flags could.
	if o.usage.Cached > o.usage.Input || o.usage.Written > o.usage.Input-o.usage.Cached {
		return kit.Usagef(
			"--cached-tokens and --cache-write-tokens are parts of --input-tokens; give at most that many tokens",
		)
	}

	list, err := o.load()
	if err != nil {
		return err
	}

	if o.at.IsZero() {
		o.at = o.Now()
	}

	price, err := list.Price(o.model, o.at)
	if err != nil {
		return err
	}

	cost, from := price.Cost(o.usage), namedPrice{price: price}.from()
	return kit.PrintProperties(o.Console, o.json, []kit.Property{
		{Name: "Model", Value: kit.Text(o.model)},
		{Name: "Price since", Value: kit.Text(from)},
		{Name: "Cost", Value: kit.Number(cost)},
		{Name: "Dollars", Value: kit.Text(llm.Dollars(cost))},
	}, costJSON{o.model, jsonview.OrNull(from), cost, json.Number(figure.Decimal(cost))})
}
