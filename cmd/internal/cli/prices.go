package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
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
	name := o.file
	if o.file == "-" {
		read, name = func() ([]byte, error) { return io.ReadAll(o.In) }, "stdin"
	}

	data, err := read()
	// A missing file is a mistake in the command line, so the exit code is 2.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, kit.Usagef("%v", err)
	}
	if err != nil {
		return nil, err
	}

	list, err := llm.ParsePrices(name, data)
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
	return nil, fmt.Errorf("%s has %s", name, kit.Count(len(problems), "problem"))
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

			o.Done("%s is valid: it has %s for %s", o.file, kit.Count(prices, "price"), kit.Count(len(names), "model"))
			return nil
		},
	}
}
