package programs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/dashboard"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
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

// dashboardDrain bounds the end of the command after an interrupt. Streams end at
// once, so only requests under way need time.
const dashboardDrain = 2 * time.Second

// runDashboard serves the page until ctx ends. It binds the address before it opens
// the store.
func runDashboard(ctx context.Context, o *dashboardOptions) (err error) {
	if o.Principal != "" && !o.write {
		return kit.Usagef("--principal is the author of changes, so it needs --write")
	}

	listener, err := o.bind(ctx)
	if err != nil {
		return err
	}

	// Run closes the listener, too. This is for a return before Run.
	defer func() { _ = listener.Close() }()

	repo, err := o.openToShow(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	token, _ := server.NewToken()
	page, err := dashboard.New(&dashboard.Options{
		Open:      func(context.Context, string) (limiter.Repository, error) { return repo, nil },
		Namespace: o.NamespaceName(), Store: o.Selected.Name, Write: o.write, ReadBudget: float64(o.readBudget),
		Token: token, Principal: o.Author(), Version: o.Version, Now: o.Now,
		OnError: (&kit.Throttled{Warn: o.Warn}).Report,
	})
	if err != nil {
		return kit.Usagef("%v", err)
	}
	return o.serve(ctx, page, listener, token)
}

// bind binds the address of the page, which must be a loopback address.
func (o *dashboardOptions) bind(ctx context.Context) (net.Listener, error) {
	listener, err := listen.Bind(ctx, o.listen, false)
	switch {
	case errors.Is(err, listen.ErrExposed):
		return nil, kit.Usagef(
			"--listen %s: other machines can reach it; listen on a loopback address, or use "+
				`"zae-limiter serve --dashboard", which has tokens and TLS`,
			o.listen,
		)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf(
			"--listen %s: the address is in use, maybe by another dashboard; choose another port, or 0 for a free one",
			o.listen,
		)
	}
	return listener, err
}

// openToShow opens the store, which must exist, and checks that it answers.
func (o *dashboardOptions) openToShow(ctx context.Context) (limiter.Repository, error) {
	access := kit.Read
	if o.write {
		access = kit.Change
	}

	repo, err := o.Open(ctx, access)
	if err != nil {
		return nil, err
	}
	if err := repo.Ping(ctx); err != nil {
		return nil, errors.Join(err, repo.Close())
	}

	if o.Selected.Name == kit.MemoryStore {
		o.Warn(
			"%s belongs to one process, so this one is empty; "+
				`"zae-limiter serve --dashboard" shows the memory of a server`,
			kit.MemoryStore,
		)
	}

	return repo, nil
}

// serve prints the URL, opens the browser, and serves until ctx ends.
func (o *dashboardOptions) serve(
	ctx context.Context, page *dashboard.Handler, listener net.Listener, token string,
) error {
	at := "http://" + listener.Addr().String() + "/"

	changes := "read only"
	if o.write {
		changes = "with changes"
	}

	o.Done("Showing the limits %s, %s; Ctrl-C ends it", o.Location(), changes)
	if _, err := fmt.Fprintf(o.Out, "%s#token=%s\n", at, token); err != nil {
		return errors.Join(err, page.Close())
	}

	if !o.noBrowser {
		defer o.OpenBrowser(ctx, at, token)()
	}

	return listen.Run(ctx, &listen.RunOptions{
		DrainTimeout: dashboardDrain,
		// A stream of events never ends by itself, and the drain would wait for it.
		Quiesce: func(context.Context) { _ = page.Close() },
		Close:   func(context.Context) error { return page.Close() },
	},
		// The page bounds requests itself.
		listen.HTTP(listener, page, &listen.Options{MaxRequests: -1, Vouching: true}),
	)
}
