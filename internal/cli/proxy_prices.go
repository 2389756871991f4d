package cli

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/listen"
	"github.com/zeroae/zae-limiter-go/internal/proxy"
	"github.com/zeroae/zae-limiter-go/llm"
)

// applyPrices reads the prices of models, and follows changes of their file.
func (o *proxyOptions) applyPrices(opts *proxy.Options) error {
	if o.prices == "" {
		if opts.Limits.Cost != "" {
			return usagef("--charge cost=%s needs --prices, the file with the prices of models", opts.Limits.Cost)
		}
		return nil
	}
	files, err := listen.WatchFiles(
		func(content ...[]byte) (*llm.PriceList, error) { return llm.ParsePrices(o.prices, content[0]) },
		func(err error) {
			if err != nil {
				o.warn("%s: the prices stay as they were: %v", o.prices, err)
				return
			}
			o.say("%s: the prices were read again", o.prices)
		}, o.prices)
	if err != nil {
		return usagef("--prices: %v", err)
	}
	opts.Prices = func(model string, at time.Time) (llm.Price, error) { return files.Get().Price(model, at) }
	return nil
}
