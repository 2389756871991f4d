package server

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// checkTaken rejects negative amounts of the field consume.
func checkTaken(object map[string]int64) error {
	for name, n := range object {
		if n < 0 {
			return web.Bad("body: field consume: %q must be 0 or more; adjust or rollback gives tokens back",
				web.Clip(name))
		}
	}
	return nil
}

// checkNames rejects names that no limit can have.
func checkNames(object map[string]int64) error {
	for name := range object {
		if err := limiter.PerMinute(name, 1).Validate(); err != nil {
			return web.BadBody(err)
		}
	}
	return nil
}

// amountsOf returns the amounts of a JSON object, ordered by name.
func amountsOf(object map[string]int64) limiter.Amounts {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)

	var amounts limiter.Amounts
	for _, name := range names {
		amounts = amounts.And(name, object[name])
	}
	return amounts
}
