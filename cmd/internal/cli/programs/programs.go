// Package programs has the commands that serve until they are interrupted: the HTTP
// server, the proxy of language models and the dashboard. It also has the commands
// for the price files of the proxy.
package programs

import (
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// Commands returns the constructors of the commands by their names.
func Commands() kit.Commands {
	return kit.Commands{"dashboard": newDashboard, "serve": newServe, "proxy": newProxy, "prices": newPrices}
}
