package kit

import _ "embed"

//go:embed prices_sample.yaml
var SamplePrices string
