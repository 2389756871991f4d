package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/dashboard"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
)

// serveDashboard configures the dashboard of a server.
type serveDashboard struct {
	on, write  bool
	readBudget int // 0 for the default
}

func (d *serveDashboard) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&d.on, "dashboard", false,
		"show a web page with the limits at "+server.DashboardPath+"/, for the roles read and admin")
	cmd.Flags().BoolVar(&d.write, "dashboard-write", false,
		"let the role admin change limits on the page; needs --tokens")
	kit.AddFlag(cmd, &d.readBudget, "dashboard-read-budget", "number", defaultReadBudget,
		"read units a second that the page may use of a DynamoDB table", kit.ParseCount)
}

// check rejects combinations of flags.
func (d *serveDashboard) check(tokens bool) error {
	switch {
	case d.on && d.write && !tokens:
		return kit.Usagef("--dashboard-write needs --tokens, since the audit trail names the token that made a change")
	case d.on:
		return nil
	case d.write:
		return kit.Usagef("--dashboard-write needs --dashboard")
	case d.readBudget != 0:
		return kit.Usagef("--dashboard-read-budget needs --dashboard")
	}
	return nil
}

// mountPage adds the dashboard, if there is one, to the options of a server that
// are complete otherwise. The caller calls end, which ends the streams of viewers.
func (o *serveOptions) mountPage(repo limiter.Repository, of *server.Options) (end func(), err error) {
	if !o.dashboard.on {
		return func() {}, nil
	}

	page, err := dashboard.New(&dashboard.Options{
		Open: func(ctx context.Context, namespace string) (limiter.Repository, error) {
			// The server has its own namespace open already.
			if namespace == "" || namespace == of.Namespace {
				return repo, nil
			}
			return repo.Namespace(ctx, namespace)
		},
		Namespace: of.Namespace, Store: o.Selected.Name, Write: o.dashboard.write,
		ReadBudget:   float64(o.dashboard.readBudget),
		Authenticate: authenticator(of), Version: of.Version, Now: of.Now, Hosts: of.Hosts, OnError: of.OnError,
	})
	if err != nil {
		return nil, kit.Usagef("%v", err)
	}

	of.Dashboard = page
	return func() { _ = page.Close() }, nil
}

// authenticator returns the check of a bearer token. Without tokens, every caller
// has the role admin, as in the API.
func authenticator(of *server.Options) func(bearer string) (dashboard.Session, bool) {
	if of.Tokens == nil {
		return func(string) (dashboard.Session, bool) {
			return dashboard.Session{Name: "anonymous", Role: dashboard.RoleAdmin, Namespace: of.Namespace}, true
		}
	}
	return func(bearer string) (dashboard.Session, bool) {
		id, ok := of.Tokens.Check(bearer)
		return dashboard.Session{Name: id.Name, Role: dashboard.Role(id.Role), Namespace: id.Namespace}, ok
	}
}
