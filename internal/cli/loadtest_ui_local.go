package cli

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// runLoadUI runs a scenario under the web page of Locust.
func runLoadUI(context.Context, *loadLocalOptions, loadtest.Scenario, []string) error {
	return errors.New("--ui is not built yet")
}
