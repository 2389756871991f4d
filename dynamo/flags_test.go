package dynamo_test

import "flag"

var (
	compareOps  = flag.Int("compare.ops", 1000, "how many operations the comparison makes")
	compareSeed = flag.Uint64("compare.seed", 1, "seed of the first history")
)

// perHistory is how many operations go to one pair of stores.
const perHistory = 2000
