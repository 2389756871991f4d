package limiter

import "fmt"

// release is the minor version of this module. scripts/release sets it.
const release = "0.1"

// checkRelease refuses a store that was built for another minor version. Go picks the
// version of each module by itself, so a store of 0.1 may meet a root of 0.2, and both
// share packages below internal that differ.
func checkRelease(repo Repository) error {
	for {
		if r, ok := repo.(interface{ Release() string }); ok && r.Release() != release {
			return invalid("repository", fmt.Sprintf("%T", repo), fmt.Sprintf(
				"is built for zae-limiter %s, and the root module is %s; require both modules at one version",
				r.Release(), release))
		}

		w, ok := repo.(Wrapper)
		if !ok {
			return nil
		}
		repo = w.Unwrap()
	}
}
