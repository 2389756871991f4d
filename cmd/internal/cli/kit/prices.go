package kit

import _ "embed"

// SamplePrices is a price file with invented prices.
//
//go:embed prices_sample.yaml
var SamplePrices string
