package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/llm"
)

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
				kit.Text(p.model), kit.Text(p.from()), money(p.price.Input), money(p.price.Output), money(p.price.CacheRead),
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
