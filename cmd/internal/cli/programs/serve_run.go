package programs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/dashboard"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
	"github.com/zeroae/zae-limiter-go/llm"
)

// check rejects combinations of flags.
func (o *serveOptions) check() error {
	switch {
	case o.grpc != "" && o.rules == "":
		return kit.Usagef("--grpc-listen needs --rules, the file that maps descriptors to limits")
	case o.reflection && o.grpc == "":
		return kit.Usagef("--grpc-reflection needs --grpc-listen, the address of gRPC")
	case o.rules != "" && o.grpc == "":
		return kit.Usagef("--rules needs --grpc-listen, the address of gRPC")
	case (o.tls.Cert == "") != (o.tls.Key == ""):
		return kit.Usagef("--tls-cert and --tls-key belong together; give both")
	case o.tls.ClientCA != "" && o.tls.Cert == "":
		return kit.Usagef("--tls-client-ca needs --tls-cert and --tls-key")
	}

	for _, host := range o.hosts {
		if !validHost(host) {
			return kit.Usagef(
				"invalid --allowed-host %q: must be a host name without a port, such as limits.example, or *",
				kit.Clip(host))
		}
	}

	return o.dashboard.check(o.tokens != "")
}

var hostName = regexp.MustCompile(`^[0-9A-Za-z_]([0-9A-Za-z_.-]*[0-9A-Za-z_])?$`)

// validHost reports whether a text is a host name, or * for any.
func validHost(text string) bool { return text == "*" || len(text) < 254 && hostName.MatchString(text) }

// runServe serves until ctx ends. It reads all files and binds all addresses
// before it opens the store.
func runServe(ctx context.Context, o *serveOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}

	var tlsConfig *tls.Config
	if tlsConfig, err = o.tls.Config(ctx, o.changed("certificates")); err != nil {
		return tlsFileError(o.tls, err)
	}

	if o.tokens != "" {
		if o.server.Tokens, err = server.OpenTokens(ctx, o.tokens, o.changed("tokens")); err != nil {
			return kit.FileError("--tokens", err)
		}

		// Tokens can be added while the server runs, so an empty file is no
		// error.
		if o.server.Tokens.Len() == 0 {
			o.Warn("%s lists no tokens, so no caller is admitted", o.tokens)
		}
	}

	var rules *listen.Files[*rls.Rules]
	if o.rules != "" {
		if rules, err = listen.WatchFiles(ctx, o.parseRules, o.changed("rules"), o.rules); err != nil {
			return kit.FileError("--rules", err)
		}
	}

	// An address that other machines can reach needs both tokens and TLS.
	bound, err := o.bind(ctx, o.insecure || o.tokens != "" && tlsConfig != nil)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range bound {
			// A server that ran has closed its listener already.
			_ = l.Close()
		}
	}()

	// The store comes last, since opening it may create a file.
	open := kit.OpenOptions{Access: kit.Create, Namespace: o.NamespaceName()}
	b, err := openBacking(ctx, o.Connection, "serve", open, o.escrow)
	if err != nil {
		return err
	}

	// Once serve has closed the store, abandon does nothing.
	defer func() { err = errors.Join(err, b.abandon(ctx, o.drain)) }()

	return o.serve(ctx, b, bound, tlsConfig, rules)
}

func (o *serveOptions) parseRules(content ...[]byte) (*rls.Rules, error) {
	rules, err := rls.ParseRules(content[0])
	if err != nil {
		return nil, fmt.Errorf("rules %s: %w", o.rules, err)
	}
	return rules, nil
}

// changed returns a function that reports a change of a file.
func (o *serveOptions) changed(what string) func(error) {
	return func(err error) {
		if err != nil {
			o.Warn("the %s stay as they were: %v", what, err)
			return
		}
		o.Done("Read the %s again", what)
	}
}

// bind binds the addresses of HTTP, gRPC and metrics; the last two may be nil.
func (o *serveOptions) bind(ctx context.Context, secured bool) (map[string]net.Listener, error) {
	bound := map[string]net.Listener{}

	// Metrics have neither tokens nor TLS, so only --insecure exposes them.
	for _, at := range []struct {
		flag, addr string
		exposed    bool
	}{{"listen", o.listen, secured}, {"grpc-listen", o.grpc, secured}, {"metrics-listen", o.metrics, o.insecure}} {
		if at.addr == "" {
			continue
		}
		l, err := listen.Bind(ctx, at.addr, at.exposed)
		if err != nil {
			for _, l := range bound {
				err = errors.Join(err, l.Close())
			}
			return nil, bindError(at.flag, at.addr, err)
		}
		bound[at.flag] = l
	}

	return bound, nil
}

func bindError(flag, addr string, err error) error {
	switch {
	case !errors.Is(err, listen.ErrExposed):
		return err
	case flag == "metrics-listen":
		return kit.Usagef(
			"--%s %s: other machines can reach it, and metrics have no tokens; listen on a loopback address, "+
				"or give --insecure",
			flag, addr,
		)
	}
	return kit.Usagef(
		"--%s %s: other machines can reach it, so it needs --tokens, --tls-cert and --tls-key; or listen on "+
			"a loopback address, or give --insecure",
		flag, addr,
	)
}

// serve runs the servers until ctx ends, and drains them.
func (o *serveOptions) serve(
	ctx context.Context, b *backing, bound map[string]net.Listener, tlsConfig *tls.Config,
	rules *listen.Files[*rls.Rules],
) error {
	report := reporter(o.Connection, (&kit.Throttled{Warn: o.Warn}).Report)

	opts := o.server
	opts.Namespace, opts.Now, opts.Version = o.NamespaceName(), o.Now, o.Version
	opts.Hosts = listen.HostOptions{Names: o.hosts, Known: listen.Certified(tlsConfig)}
	opts.OnError = report

	endPage, err := o.mountPage(b.repo, &opts)
	if err != nil {
		return err
	}
	defer endPage()

	s, err := server.New(b.repo, &opts)
	if err != nil {
		return kit.Usagef("%v", err)
	}

	if err := b.observer.Report(s); err != nil {
		return err
	}

	// The server bounds requests itself, and vouches for a connection once its
	// caller is known.
	o.http.TLS, o.http.MaxRequests, o.http.Vouching, o.http.Log = tlsConfig, -1, true, b.log
	services := []listen.Service{listen.HTTP(bound["listen"], otelsdk.Propagate(s), &o.http)}

	scheme := "http"
	if tlsConfig != nil {
		scheme = "https"
	}
	o.Done("Serving %s://%s %s", scheme, bound["listen"].Addr(), o.Location())
	if o.dashboard.on {
		o.Done("Serving the dashboard at %s://%s%s/", scheme, bound["listen"].Addr(), server.DashboardPath)
	}

	if l := bound["grpc-listen"]; l != nil {
		service := rls.New(s.CallerLimiter, rules.Get(), &rls.Options{OnError: report})
		services = append(services, s.GRPC(l, service.Register, &server.GRPCOptions{
			TLS: tlsConfig, MaxConns: o.http.MaxConns, MaxRequests: opts.MaxRequests, Reflection: o.reflection,
			// A changed file applies from the next call on.
			Before: func() { service.SetRules(rules.Get()) },
		}))
		o.Done("Serving Envoy's rate limit service on %s", l.Addr())
	}

	if l := bound["metrics-listen"]; l != nil {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", b.observer.Metrics())
		services = append(services, listen.HTTP(l, listen.Hosts(mux, &listen.HostOptions{Names: o.hosts}), nil))
		o.Done("Serving http://%s/metrics", l.Addr())
	}

	return listen.Run(ctx, &listen.RunOptions{DrainTimeout: o.drain, Quiesce: func(ctx context.Context) {
		o.Say("Draining: %s open", kit.Count(s.Leases(), "lease"))

		// Streams of viewers do not end by themselves, and would delay the
		// shutdown.
		endPage()
		s.Quiesce(ctx)
	}, Settle: s.Settle, Close: b.close}, services...)
}

// reporter returns a function that passes errors of a server on to report, except
// those about what the operator has not stored. A client can cause as many of these
// as it likes, so they have a throttle of their own. It names each model, since the
// operator has to store something for each.
func reporter(conn *kit.Connection, report func(error)) func(error) {
	unset := &kit.Throttled{Warn: conn.Warn}
	return func(err error) {
		if errors.Is(err, limiter.ErrNoLimits) || errors.Is(err, llm.ErrNoPrice) {
			unset.ReportOf(kit.UnsetSubject(err), conn.Mend(err))
			return
		}
		report(err)
	}
}

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
