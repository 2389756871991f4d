package cli

import "github.com/spf13/cobra"

func newLoadtest(_ *console) *cobra.Command {
	return newGroup("loadtest", "Generate load and measure the limiter",
		`Generate load with scenarios, and measure how a limiter responds.`)
}
