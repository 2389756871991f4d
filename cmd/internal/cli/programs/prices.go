package programs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/figure"
	"github.com/zeroae/zae-limiter-go/llm"
)

func newPrices(c *kit.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "prices", Short: "Check a file with prices of language models", Args: kit.RequireKnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Long: `Check and read a price file: a YAML file with what calls of language models
cost. "zae-limiter proxy --prices FILE" charges calls by it. The commands need
no store.

    models:
      large: {input: $3, output: $15, max_output: 8192, context: 200000}
      small*:
        - {input: $0.20, output: $0.80}
        - {from: 2027-01-01, input: $0.10, output: $0.40}

Prices are for a million tokens, and request is for each call. $3 may also be
written as 3000000, in millionths of a dollar. A name that ends in * is for
every model that begins so; the longest name that fits counts. A price with a
date applies from 00:00 UTC of that day on.

max_output, context and image are sizes of the model in tokens: the longest
answer, the most that it reads and writes in one call, and the most for one
image of a prompt. A budget reserves a context for a call that has a file, or an
image without a size, or that refers to input elsewhere, such as an earlier
response. It refuses such a call of a model without a context.`,
		Example: `  zae-limiter prices sample > prices.yaml
  zae-limiter prices validate prices.yaml
  zae-limiter prices cost prices.yaml large --input-tokens 900`,
	}

	cmd.AddCommand(newPricesCost(c), newPricesSample(c), newPricesShow(c), newPricesValidate(c))
	return cmd
}

// pricesOptions holds the options of the prices commands.
type pricesOptions struct {
	*kit.Console
	file string
	json bool
}

func priceFileArg(target *string) kit.Argument {
	return kit.Argument{Name: "FILE", Set: func(s string) error {
		if s == "" {
			return errors.New("FILE is empty; give the path of a price file, or - for stdin")
		}
		*target = s
		return nil
	}}
}

// load reads and parses the file. It reports a single problem as the error, and
// several as messages and their number as the error.
func (o *pricesOptions) load() (*llm.PriceList, error) {
	read := func() ([]byte, error) { return os.ReadFile(o.file) }
	if o.file == "-" {
		read = func() ([]byte, error) { return io.ReadAll(o.In) }
	}

	data, err := read()
	// A missing file is a mistake in the command line, so the exit code is 2.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, kit.Usagef("%v", err)
	}
	if err != nil {
		return nil, err
	}

	list, err := llm.ParsePrices(kit.FileName(o.file), data)
	if err == nil {
		return list, nil
	}

	problems := strings.Split(err.Error(), "\n")
	if len(problems) == 1 {
		return nil, err
	}

	for _, p := range problems {
		o.Say("%s", p)
	}
	return nil, fmt.Errorf("%s has %s", kit.FileName(o.file), kit.Count(len(problems), "problem"))
}

func newPricesSample(c *kit.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "sample",
		Short: "Print a sample of a price file",
		Long: `Print a sample of a price file. Its prices are invented: put in the prices that
you pay.`,
		Example: "  zae-limiter prices sample > prices.yaml",
		Args:    kit.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(c.Out, kit.SamplePrices)
			return err
		},
	}
}

func newPricesValidate(c *kit.Console) *cobra.Command {
	o := pricesOptions{Console: c}
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a price file",
		Long: `Check a price file and report every problem with its line on stderr. FILE may be
- for stdin. The exit code is 1 if there is a problem.`,
		Example:           "  zae-limiter prices validate prices.yaml",
		Args:              kit.Arguments(priceFileArg(&o.file)),
		ValidArgsFunction: kit.CompleteManifest,
		RunE: func(*cobra.Command, []string) error {
			list, err := o.load()
			if err != nil {
				return err
			}

			// The list has an entry for each price of a model, so a model may
			// come several times.
			names, prices := map[string]bool{}, 0
			for name := range list.All() {
				names[name] = true
				prices++
			}

			o.Done("%s is valid: it has %s for %s", kit.FileName(o.file), kit.Count(prices, "price"),
				kit.Count(len(names), "model"))
			return nil
		},
	}
}

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

// priceJSON is a price as JSON.
type priceJSON struct {
	Model      string  `json:"model" doc:"name of the model, which may end in *"`
	From       *string `json:"from" doc:"first day of the price; null if it always applied"`
	Input      int64   `json:"input" doc:"millionths of a dollar for a million tokens of the prompt"`
	Output     int64   `json:"output" doc:"the same for the answer"`
	CacheRead  int64   `json:"cache_read" doc:"the same for tokens of the prompt that came from the cache"`
	CacheWrite int64   `json:"cache_write" doc:"the same for tokens of the prompt that were written to the cache"`
	Request    int64   `json:"request" doc:"millionths of a dollar for each call"`
	MaxOutput  *int64  `json:"max_output" doc:"the most tokens of one answer; null if the file does not say"`
	Context    *int64  `json:"context" doc:"the most tokens of a call, read and written; null if the file does not say"`
	Image      *int64  `json:"image" doc:"the most tokens of one image in a prompt; null if the file does not say"`
}

// namedPrice is one price of the file.
type namedPrice struct {
	model string
	price llm.Price
}

// from returns the first day of the price, or "".
func (p namedPrice) from() string {
	if p.price.From.IsZero() {
		return ""
	}
	return p.price.From.Format(time.DateOnly)
}

var priceColumns = []kit.Column{
	{Title: "model"},
	{Title: "from", Whole: true},
	{Title: "input", Right: true},
	{Title: "output", Right: true},
	{Title: "cache read", Right: true},
	{Title: "cache write", Right: true},
	{Title: "request", Right: true},
	{Title: "max output", Right: true, Spare: true, Extra: true},
	{Title: "context", Right: true, Spare: true, Extra: true},
	{Title: "image", Right: true, Spare: true, Extra: true},
}

func newPricesShow(c *kit.Console) *cobra.Command {
	o := pricesOptions{Console: c}
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Show the prices of a file",
		Long: `Show the prices of a file: dollars for a million tokens, and for each request.
Tab-separated fields and JSON have them in millionths of a dollar. The last
columns are the sizes of the model in tokens, where the file has them. FILE may
be - for stdin.`,
		Example:           "  zae-limiter prices show prices.yaml",
		Args:              kit.Arguments(priceFileArg(&o.file)),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(*cobra.Command, []string) error { return runPricesShow(o) },
	}

	kit.AddJSON[priceJSON](cmd, &o.json, kit.AnArray, priceColumns)
	return cmd
}

func runPricesShow(o pricesOptions) error {
	list, err := o.load()
	if err != nil {
		return err
	}

	var prices []namedPrice
	for name, price := range list.All() {
		prices = append(prices, namedPrice{name, price})
	}

	return kit.Listing[namedPrice]{
		Columns: priceColumns,
		Row: func(p namedPrice) []kit.Cell {
			return []kit.Cell{
				kit.Text(p.model), kit.Text(p.from()), money(p.price.Input), money(p.price.Output),
				money(p.price.CacheRead),
				money(p.price.CacheWrite), money(p.price.Request), size(p.price.MaxOutput), size(p.price.Context),
				size(p.price.Image),
			}
		},
		Object: func(p namedPrice) any {
			return priceJSON{
				p.model, jsonview.OrNull(p.from()), p.price.Input, p.price.Output, p.price.CacheRead,
				p.price.CacheWrite, p.price.Request,
				jsonview.OrNull(p.price.MaxOutput), jsonview.OrNull(p.price.Context), jsonview.OrNull(p.price.Image),
			}
		},
	}.Print(o.Console, o.json, kit.Each(prices))
}

// money returns the cell of millionths of a dollar, in dollars for a table.
func money(n int64) kit.Cell { return kit.Cell{Display: llm.Dollars(n), Plain: kit.Number(n).Plain} }

// size returns the cell of a number of tokens, which is empty if it is not known.
func size(n int64) kit.Cell {
	if n == 0 {
		return kit.Text("")
	}
	return kit.Number(n)
}
