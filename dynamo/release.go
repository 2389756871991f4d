package dynamo

// release is the minor version of the modules that this one is built for.
// scripts/release sets it.
const release = "0.1"

// Release returns the minor version of the root module that this store is built for.
// limiter.New refuses a store of another one.
func (*Repository) Release() string { return release }
