package programs

import (
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

func Commands() kit.Commands {
	return kit.Commands{"dashboard": newDashboard, "serve": newServe, "proxy": newProxy, "prices": newPrices}
}
