package cli

import (
	"errors"
	"net"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

type dashboardOptions struct {
	*kit.Connection
	kit.Settings
	listen           string
	noBrowser, write bool
	readBudget       int // 0 for the default
}

// defaultReadBudget is the default of the read units a second of a dashboard.
const defaultReadBudget = "25"

func newDashboard(c *kit.Console) *cobra.Command {
	o := &dashboardOptions{
		Connection: &kit.Connection{Console: c}, Settings: kit.Settings{Prefix: "ZAEL_DASHBOARD_"},
		listen: "127.0.0.1:9236",
	}
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the limits of a store on a web page",
		Long: `Show the buckets, limits, usage and audit trail of a store on a web page of this
machine, live, until Ctrl-C. The page explains what a request would meet, and
replays past usage against other limits. It needs no network.

The command prints the URL of the page, whose token works once, and opens it in
the browser if there is a screen. The token reaches the browser through a file
that only the user can read, since other users see the arguments of programs.
Only pages of this address can read or change anything. To show the page to
other machines, use "zae-limiter serve --dashboard", which has tokens and TLS.

With --write the page can set and delete limits and create entities. It shows
the effect of a change before, and the audit trail names --principal.

On DynamoDB the page reads what is visible, at most --read-budget read units a
second for all viewers. Other stores do not bill reads.

Each flag can also come from the environment ($ZAEL_DASHBOARD_NO_BROWSER) or
from the file of --config (no_browser: true); flags come first, then the
environment.

` + kit.StoreHelp,
		Example: `  zae-limiter dashboard
  zae-limiter dashboard --store sqlite:limits.db --write
  zae-limiter dashboard --name my-app --namespace tenant-a --read-budget 5
  zae-limiter dashboard --listen 127.0.0.1:0 --no-browser`,
		Args:    kit.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.Apply(cmd) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDashboard(cmd.Context(), o) },
	}

	o.addDashboard(cmd)
	cmd.AddCommand(kit.NewSettingsSchema(c, cmd))
	return cmd
}

// addDashboard adds the flags of the dashboard. Its subcommands do not have them.
func (o *dashboardOptions) addDashboard(cmd *cobra.Command) {
	o.AddOwnNamespace(cmd)
	o.AddFile(cmd)
	o.AddPrincipal(cmd)
	kit.AddFlag(cmd, &o.listen, "listen", "address", o.listen,
		"loopback address of the page; port 0 chooses a free one", parseLoopback)
	kit.AddFlag(cmd, &o.readBudget, "read-budget", "number", defaultReadBudget,
		"read units a second that the page may use of a DynamoDB table", kit.ParseCount)
	cmd.Flags().BoolVar(&o.noBrowser, "no-browser", false, "print the URL, and open no browser")
	cmd.Flags().BoolVar(&o.write, "write", false, "let the page change limits and create entities")
}

func parseLoopback(text string) (string, error) {
	// net.Listen takes an empty host as all addresses of the machine.
	if host, _, err := net.SplitHostPort(text); err != nil || host == "" {
		return "", errors.New("must be a loopback address and a port, such as 127.0.0.1:9236")
	}

	return kit.ParseAddress(text)
}
