package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
	"github.com/zeroae/zae-limiter-go/cmd/internal/proxy"
)

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

	b, err := openBacking(ctx, o.Connection, "proxy", kit.OpenOptions{Access: kit.AccessChange, Namespace: o.NamespaceName()}, o.escrow)
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
