package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/listen"
	"github.com/zeroae/zae-limiter-go/internal/observe"
	"github.com/zeroae/zae-limiter-go/internal/proxy"
)

// run serves until a signal arrives.
func (o *proxyOptions) run(ctx context.Context) (err error) {
	if o.upstream == nil {
		return usagef("--upstream is missing; give the base URL of the API, such as https://api.openai.com")
	}
	charges, err := parseCharges(o.charges)
	if err != nil {
		return err
	}
	namespace := o.namespaceName()
	if err := (limiter.Namespace{Name: namespace}).Validate(); err != nil {
		return usagef("%v", err)
	}
	messages := observe.NewLogger(o.err, slog.LevelWarn)
	telemetry, err := observe.Start(ctx, &observe.Options{Service: "zae-limiter proxy", Version: thisBuild().Version, Log: messages})
	if err != nil {
		return usagef("%v", err)
	}
	defer o.endTelemetry(ctx, telemetry)
	repo, err := o.openAs(ctx, openOptions{access: accessChange, namespace: namespace, countCapacity: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	observed, err := telemetry.Wrap(repo, nil)
	if err != nil {
		return err
	}
	lim, err := limiter.New(observed, &limiter.Options{
		Now: o.now, Principal: o.author(), Limits: o.limits.all, OnUnavailable: o.mode, SettleTimeout: min(limiter.DefaultSettleTimeout, o.drain/4),
	})
	if err != nil {
		return usagef("%v", err)
	}
	opts := &proxy.Options{
		Upstream: o.upstream, Limits: charges, Step: o.step, OtherResource: o.otherResource, MaxBody: o.maxBody,
		MaxRequests: o.bounds.MaxRequests, NewEntities: o.newEntities, UpstreamTimeout: o.timeout, Log: observe.NewLogger(o.out, slog.LevelInfo),
		OnError: func(err error) { o.warn("%v", err) }, Now: o.now,
	}
	opts.Fields.Legacy = o.legacy
	if err := o.identity.apply(ctx, o, lim, opts); err != nil {
		return err
	}
	handler, err := proxy.New(lim, opts)
	if err != nil {
		return usagef("%v", err)
	}
	return o.serve(ctx, handler, telemetry, messages)
}

// endTelemetry sends what telemetry has collected.
func (o *proxyOptions) endTelemetry(ctx context.Context, t *observe.Telemetry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.drain/4)
	defer cancel()
	if err := t.Shutdown(ctx); err != nil {
		o.warn("not all telemetry was sent: %v", err)
	}
}

// serve listens and serves until ctx ends.
func (o *proxyOptions) serve(ctx context.Context, handler *proxy.Proxy, t *observe.Telemetry, log *slog.Logger) error {
	config, err := o.tls.Config(func(err error) {
		if err != nil {
			o.warn("the certificate stays as it was: %v", err)
		}
	})
	if err != nil {
		return usagef("%v", err)
	}
	listener, err := listen.Bind(ctx, o.listen, config != nil || o.insecure)
	if errors.Is(err, listen.ErrExposed) {
		return usagef("--listen %s: %v; give --tls-cert and --tls-key, or --insecure behind a proxy that has a certificate", o.listen, listen.ErrExposed)
	}
	if err != nil {
		return err
	}
	// A call and its answer may take long, and the proxy bounds each write.
	o.bounds.TLS, o.bounds.Log, o.bounds.HeaderBytes = config, log, 64<<10
	o.bounds.ReadTimeout, o.bounds.WriteTimeout = time.Minute, -1
	o.bounds.MaxRequests = -1 // the proxy bounds calls, and answers probes beyond
	server := listen.HTTP(listener, observe.Propagate(handler), &o.bounds)
	services := []listen.Service{server}
	if o.metrics != "" {
		metrics, err := o.metricsServer(ctx, t, log)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		services = append(services, metrics)
	}
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	o.say("limiting %s on %s://%s", o.upstream, scheme, server.Addr())
	if o.upstream.Scheme == "http" && !isLoopback(o.upstream.Hostname()) {
		o.warn("calls to %s are not encrypted, so others on the way can read keys", o.upstream.Host)
	}
	return listen.Run(ctx, &listen.RunOptions{DrainTimeout: o.drain, Quiesce: handler.Drain}, services...)
}

// metricsServer returns the server of /metrics.
func (o *proxyOptions) metricsServer(ctx context.Context, t *observe.Telemetry, log *slog.Logger) (*listen.Server, error) {
	listener, err := listen.Bind(ctx, o.metrics, o.insecure)
	if errors.Is(err, listen.ErrExposed) {
		return nil, usagef("--metrics-listen %s: %v; listen on a loopback address, or give --insecure", o.metrics, listen.ErrExposed)
	}
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Metrics())
	return listen.HTTP(listener, mux, &listen.Options{Log: log}), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
