package programs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
	"github.com/zeroae/zae-limiter-go/cmd/internal/proxy"
	"github.com/zeroae/zae-limiter-go/llm"
)

type proxyOptions struct {
	*kit.Connection
	kit.Settings
	upstream *url.URL
	listen   string
	metrics  string
	tls      listen.TLSFiles
	insecure bool
	escrow   bool
	drain    time.Duration
	identity proxyIdentity

	limits         kit.LimitFlags
	mode           limiter.OnUnavailable
	charges        map[string]string
	budget         proxyBudget
	step           int64
	otherResource  string
	paths          []string
	maxBody        int64
	newEntities    int
	clientRequests int
	timeout        time.Duration
	legacy         bool
	bounds         listen.Options
}

func newProxy(c *kit.Console) *cobra.Command {
	o := &proxyOptions{
		Connection: &kit.Connection{Console: c}, Settings: kit.Settings{Prefix: "ZAEL_PROXY_"},
		listen: "127.0.0.1:8089",
		drain:  30 * time.Second, otherResource: "other",
		maxBody: 16 << 20, newEntities: 60, timeout: 10 * time.Minute,
	}
	cmd := &cobra.Command{
		Use:   "proxy --upstream URL",
		Short: "Limit the calls to an API of language models",
		Long: `Run a reverse proxy in front of an API of language models. Clients change their
base URL and are limited. The proxy reads requests and answers of
OpenAI-compatible APIs and of Anthropic's: it takes an estimate before a call
and charges the usage that the answer reports. Bodies and streams pass unchanged
and without delay. The model of a call is its resource. Of other calls, only
those that --paths lists are forwarded; they cost one request of the resource
other.

With --prices, a call is also charged what it costs, in millionths of a dollar,
to the limit spend. "zae-limiter prices sample" prints such a file. The most
that a call can cost is reserved before it, so that a budget holds however many
calls run in parallel: the whole maximum that a request sets, or one that the
proxy writes into it. What was not used comes back at the end.

The API key of a request is its entity: the first 16 hex digits of its SHA-256.
Nothing else of a key is stored or logged. With a --mapping that lists keys, the
file gives them names and parents, and other keys are refused. With
--trust-header the entity is the value of a header, for a proxy in front that
has checked it. With --jwt-key it is a claim of a verified token.

The proxy listens on this machine only. Another address needs a certificate, or
--insecure behind a proxy that has one. /healthz and /readyz answer probes. The
access log goes to stdout, a JSON object a line. The standard variables of
OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT, configure spans and metrics.
A signal ends the proxy: calls under way have half of --drain-timeout to end,
and all are settled.

Each flag can also come from the environment ($ZAEL_PROXY_UPSTREAM) or from the
file of --config (upstream: https://api.openai.com); flags come first, then the
environment.

` + kit.StoreHelp,
		Example: `  zae-limiter proxy --upstream https://api.openai.com
  zae-limiter proxy --upstream https://api.anthropic.com --mapping keys.yaml
  zae-limiter proxy --upstream http://localhost:11434 --store memory: -l rpm:60`,
		Args:    kit.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.Settings.Apply(cmd) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}

	o.addProxy(cmd)
	cmd.AddCommand(kit.NewSettingsSchema(c, cmd))
	return cmd
}

// addProxy adds the flags of the proxy. Its subcommands do not have them.
func (o *proxyOptions) addProxy(cmd *cobra.Command) {
	o.AddOwnNamespace(cmd)
	o.AddFile(cmd)

	kit.AddFlag(cmd, &o.upstream, "upstream", "url", "", "base URL of the API, such as https://api.openai.com",
		parseUpstream)

	kit.AddFlag(cmd, &o.listen, "listen", "address", o.listen, "address to listen on", kit.ParseAddress)
	kit.AddFlag(cmd, &o.metrics, "metrics-listen", "address", "", "address of /metrics, without TLS (default: none)",
		kit.ParseAddress)

	cmd.Flags().StringVar(&o.tls.Cert, "tls-cert", "", "`file` with the certificate of the proxy, PEM")
	cmd.Flags().StringVar(&o.tls.Key, "tls-key", "", "`file` with the key of the certificate, PEM")
	cmd.Flags().StringVar(&o.tls.ClientCA, "tls-client-ca", "",
		"`file` with the authorities of client certificates, which are then required")
	cmd.Flags().BoolVar(&o.insecure, "insecure", false, "allow an address that other machines can reach without TLS")

	kit.AddFlag(cmd, &o.drain, "drain-timeout", "duration", "30s", "time to end after a signal", kit.ParseDuration)

	o.identity.addFlags(cmd)

	kit.AddLimits(cmd, &o.limits, "limits where the store has none")
	kit.AddMode(cmd, &o.mode,
		"in an outage of the store, admit or refuse calls: allow or block (default: as stored, else block)")

	cmd.Flags().Var(&kit.Pairs{Flag: "charge", All: &o.charges}, "charge",
		"limit that is charged, as PART=LIMIT; PART is requests, total, input, output, cached or cost "+
			"(default requests=rpm, total=tpm, and with --prices cost=spend)")

	o.budget.addFlags(cmd)
	kit.AddFlag(cmd, &o.step, "step", "tokens", "",
		"take more tokens in steps while a stream grows, and cut it when there are none (default: a stream "+
			"may leave debt)",
		parseStep)

	kit.AddFlag(cmd, &o.otherResource, "other-resource", "resource", o.otherResource,
		"resource of calls that are not about a model", parseResource)
	cmd.Flags().StringArrayVar(&o.paths, "paths", nil,
		"`call` to forward beside calls of a model, as [METHOD] PATH; the path may end in *; repeatable (default: "+
			"GET of /v1/models and of each model below it)")

	kit.AddFlag(cmd, &o.maxBody, "max-body", "bytes", strconv.FormatInt(o.maxBody, 10),
		"largest request about a model, also when it is decompressed", parseBodySize)
	kit.AddFlag(cmd, &o.newEntities, "new-entities", "number", strconv.Itoa(o.newEntities),
		"API keys a minute that may be used for the first time, without a mapping", parseNewEntities)

	kit.AddFlag(cmd, &o.timeout, "upstream-timeout", "duration", "10m", "time until an answer of the API must begin",
		kit.ParseDuration)

	addDefault(cmd, &o.bounds.MaxRequests, listen.DefaultMaxRequests, "max-requests", "number", "calls at a time",
		kit.ParseCount)
	kit.AddFlag(cmd, &o.clientRequests, "client-requests", "number", "",
		"calls at a time of one client (default: a quarter of --max-requests)", kit.ParseCount)
	addDefault(cmd, &o.bounds.MaxConns, listen.DefaultMaxConns, "max-connections", "number",
		"connections at a time; more replace the idlest", kit.ParseCount)

	cmd.Flags().BoolVar(&o.legacy, "x-ratelimit", false, "send the older X-RateLimit headers too")
	cmd.Flags().BoolVar(&o.escrow, "escrow", false,
		"hold tokens for a moment, so that most calls need no request to the store")
}

func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		u = nil
	}

	// CheckUpstream refuses nil as it refuses a URL without a host.
	if err := proxy.CheckUpstream(u); err != nil {
		return nil, kit.InvalidFlag("upstream", withoutSecrets(text), err.Error())
	}
	return u, nil
}

// withoutSecrets returns a URL without the parts that may hold a key.
func withoutSecrets(text string) string {
	if at := strings.IndexAny(text, "?#"); at >= 0 {
		text = text[:at+1] + "..."
	}

	// A password may contain @, so only the last one ends it.
	if at := strings.LastIndex(text, "@"); at >= 0 {
		scheme, _, ok := strings.Cut(text[:at], "://")
		if ok {
			scheme += "://"
		} else {
			scheme = ""
		}
		text = scheme + "..." + text[at:]
	}
	return text
}

func parseResource(name string) (string, error) {
	// Only a whole request can be validated, so all but the resource is a
	// placeholder.
	err := limiter.Request{Entity: "x", Resource: name, Consume: limiter.Tokens("x", 1)}.Validate()
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return "", errors.New(bad.Reason)
	}
	return name, err
}

func parseStep(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > 1<<31 {
		return 0, errors.New("must be a whole number of tokens, 1 or more")
	}
	return n, nil
}

func parseBodySize(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1<<10 || n > 1<<30 {
		return 0, fmt.Errorf("must be a whole number of bytes from %d to %d", 1<<10, 1<<30)
	}
	return n, nil
}

func parseNewEntities(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("must be a whole number, 1 or more")
	}
	return n, nil
}

// parseCharges parses the values of --charge.
func parseCharges(given map[string]string) (llm.Limits, error) {
	var limits llm.Limits
	parts := map[string]*string{
		"requests": &limits.Requests, "total": &limits.Total, "input": &limits.Input, "output": &limits.Output,
		"cached": &limits.Cached, "cost": &limits.Cost,
	}

	for part, limit := range given {
		target, ok := parts[strings.ToLower(part)]
		if !ok {
			return limits, kit.Usagef(
				"invalid --charge %q: the parts are requests, total, input, output, cached and cost",
				kit.Clip(part+"="+limit))
		}

		// Only a whole limit can be validated, so its capacity is a
		// placeholder.
		if err := limiter.PerMinute(limit, 1).Validate(); err != nil {
			return limits, kit.Usagef("invalid --charge %q: %v", kit.Clip(part+"="+limit), err)
		}

		*target = limit
	}
	return limits, nil
}

// run serves until a signal arrives.
func (o *proxyOptions) run(ctx context.Context) (err error) {
	if o.upstream == nil {
		return kit.Usagef("--upstream is missing; give the base URL of the API, such as https://api.openai.com")
	}

	for _, path := range o.paths {
		if err := proxy.CheckPath(path); err != nil {
			return kit.InvalidFlag("paths", path, err.Error())
		}
	}

	charges, err := parseCharges(o.charges)
	if err != nil {
		return err
	}

	open := kit.OpenOptions{Access: kit.Change, Namespace: o.NamespaceName()}
	b, err := openBacking(ctx, o.Connection, "proxy", open, o.escrow)
	if err != nil {
		return err
	}

	// Once serve has closed the store, abandon does nothing.
	defer func() { err = errors.Join(err, b.abandon(ctx, o.drain)) }()

	// Drain cuts calls at half of the drain timeout. A quarter of it for their
	// settling leaves another quarter for the close of the store.
	lim, err := limiter.New(b.repo, &limiter.Options{
		Now: o.Now, Principal: o.Author(), Limits: o.limits.All, OnUnavailable: o.mode,
		SettleTimeout: min(limiter.DefaultSettleTimeout, o.drain/4),
	})
	if err != nil {
		return kit.Usagef("%v", err)
	}

	opts := &proxy.Options{
		Upstream: o.upstream, Limits: charges, Step: o.step, OtherResource: o.otherResource, Paths: o.paths,
		MaxBody:     o.maxBody,
		MaxRequests: o.bounds.MaxRequests, ClientRequests: o.clientRequests, NewEntities: o.newEntities,
		UpstreamTimeout: o.timeout,
		Log:             otelsdk.NewLogger(o.Out, slog.LevelInfo), OnError: reporter(o.Connection, func(err error) {
			o.Warn("%v", err)
		}), Now: o.Now,
	}
	opts.Fields.Legacy = o.legacy

	o.budget.apply(opts)
	if err := o.applyPrices(ctx, opts); err != nil {
		return err
	}
	if err := o.identity.apply(ctx, o, lim, opts); err != nil {
		return err
	}

	handler, err := proxy.New(lim, opts)
	if err != nil {
		return kit.Usagef("%v", err)
	}

	o.warnWithoutBudget(ctx, lim, charges.Cost)
	return o.serve(ctx, handler, b)
}

// serve listens and serves until ctx ends.
func (o *proxyOptions) serve(ctx context.Context, handler *proxy.Proxy, b *backing) error {
	config, err := o.tls.Config(ctx, func(err error) {
		if err != nil {
			o.Warn("the certificate stays as it was: %v", err)
		}
	})
	if err != nil {
		return tlsFileError(o.tls, err)
	}

	listener, err := listen.Bind(ctx, o.listen, config != nil || o.insecure)
	if errors.Is(err, listen.ErrExposed) {
		return kit.Usagef(
			"--listen %s: %v; give --tls-cert and --tls-key, or --insecure behind a proxy that has a certificate",
			o.listen, listen.ErrExposed,
		)
	}
	if err != nil {
		return err
	}

	o.bounds.TLS, o.bounds.Log, o.bounds.HeaderBytes = config, b.log, 64<<10

	// A call and its answer may take long, and the proxy bounds each write.
	o.bounds.ReadTimeout, o.bounds.WriteTimeout = time.Minute, -1
	// The proxy bounds calls itself, and answers probes beyond that bound.
	o.bounds.MaxRequests = -1
	// A key that strangers can invent vouches for no connection.
	o.bounds.Vouching = handler.ChecksKeys()

	server := listen.HTTP(listener, otelsdk.Propagate(handler), &o.bounds)
	services := []listen.Service{server}

	if o.metrics != "" {
		metrics, err := o.metricsServer(ctx, b)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		services = append(services, metrics)
	}

	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	o.Say("limiting %s on %s://%s", o.upstream, scheme, server.Addr())

	if o.upstream.Scheme == "http" && !isLoopback(o.upstream.Hostname()) {
		o.Warn("calls to %s are not encrypted, so others on the way can read keys", o.upstream.Host)
	}

	return listen.Run(ctx, &listen.RunOptions{DrainTimeout: o.drain, Quiesce: handler.Drain, Close: b.close},
		services...)
}

// metricsServer returns the server of /metrics.
func (o *proxyOptions) metricsServer(ctx context.Context, b *backing) (*listen.Server, error) {
	// Metrics have no TLS, so only --insecure exposes them.
	listener, err := listen.Bind(ctx, o.metrics, o.insecure)
	if errors.Is(err, listen.ErrExposed) {
		return nil, kit.Usagef("--metrics-listen %s: %v; listen on a loopback address, or give --insecure", o.metrics,
			listen.ErrExposed)
	}
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", b.observer.Metrics())

	// On a loopback address, a web page that rebinds its own name to it must not
	// read them. Elsewhere Prometheus may use any name of the machine.
	var handler http.Handler = mux
	if host, _, err := net.SplitHostPort(listener.Addr().String()); err == nil && isLoopback(host) {
		handler = listen.Hosts(mux, nil)
	}
	return listen.HTTP(listener, handler, &listen.Options{Log: b.log}), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
