// Package otelsdk sets up OpenTelemetry and logs for programs. Libraries use the
// API of OpenTelemetry and print nothing.
//
// The standard variables of OpenTelemetry configure it: OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER,
// OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_ENDPOINT and its relatives, and
// OTEL_SDK_DISABLED. A program sends nothing over the network unless a variable
// names an exporter or an endpoint: the standard default, a collector on this
// machine, would fail on most machines.
package otelsdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// Options configures Start. The zero value of a field is its default.
type Options struct {
	// Service is the name of the program, unless a variable names it; default
	// zae-limiter.
	Service string
	Version string       // of the program
	Log     *slog.Logger // receives errors of exporters; default: drops them
}

// Telemetry is the telemetry of a program. It is safe for concurrent use.
type Telemetry struct {
	tracers  *sdktrace.TracerProvider
	meters   *sdkmetric.MeterProvider
	registry *prometheus.Registry
	log      *slog.Logger
	secrets  []string // that no message may show
}

// Start sets up the telemetry of this program. The error names the variable that is
// wrong. Callers end it with Shutdown.
func Start(ctx context.Context, opts *Options) (*Telemetry, error) {
	var o Options
	if opts != nil {
		o = *opts
	}

	if o.Service == "" {
		o.Service = "zae-limiter"
	}

	t := &Telemetry{registry: prometheus.NewRegistry(), log: o.Log}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}

	// The providers exist even so, since Wrap and Shutdown use them. Without a
	// reader they keep nothing.
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		t.tracers, t.meters = sdktrace.NewTracerProvider(
			sdktrace.WithSampler(sdktrace.NeverSample()),
		), sdkmetric.NewMeterProvider()
		return t, nil
	}

	if err := checkEnvironment(); err != nil {
		return nil, err
	}

	t.secrets = secrets()

	// Errors of an exporter may contain its headers, such as a key.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		t.log.Error("telemetry", "error", t.clean(err).Error())
	}))
	otel.SetLogger(logr.FromSlogHandler(plainHandler{t.log.Handler()}))

	if err := t.export(ctx, &o); err != nil {
		return nil, t.clean(err)
	}
	return t, nil
}

// export creates the exporters and their providers.
func (t *Telemetry) export(ctx context.Context, o *Options) error {
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", o.Service),
			attribute.String("service.version", o.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}

	scraped, err := otelprometheus.New(otelprometheus.WithRegisterer(t.registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return err
	}

	if err := errors.Join(
		t.registry.Register(collectors.NewGoCollector()),
		t.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	); err != nil {
		return err
	}

	metrics := []sdkmetric.Option{sdkmetric.WithResource(about), sdkmetric.WithReader(scraped)}
	// The default of the library is a collector on this machine, and most
	// machines have none.
	if asksFor("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return fmt.Errorf("OTEL_METRICS_EXPORTER: %w", err)
		}
		metrics = append(metrics, sdkmetric.WithReader(reader))
	}

	traces := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}
	if asksFor("TRACES") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return fmt.Errorf("OTEL_TRACES_EXPORTER: %w", err)
		}
		traces = append(traces, sdktrace.WithBatcher(exporter))
	} else {
		// Without an exporter, nothing reads the spans.
		traces = append(traces, sdktrace.WithSampler(sdktrace.NeverSample()))
	}

	t.tracers, t.meters = sdktrace.NewTracerProvider(traces...), sdkmetric.NewMeterProvider(metrics...)
	return nil
}

// asksFor reports whether the environment names an exporter for a signal.
func asksFor(signal string) bool {
	for _, name := range []string{
		"OTEL_" + signal + "_EXPORTER", "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT",
		"OTEL_EXPORTER_OTLP_ENDPOINT",
	} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// Wrap returns a repository that observes repo. It uses the providers of t instead
// of those in opts.
func (t *Telemetry) Wrap(repo limiter.Repository, opts *telemetry.Options) (*telemetry.Repository, error) {
	var o telemetry.Options
	if opts != nil {
		o = *opts
	}
	o.TracerProvider, o.MeterProvider = t.tracers, t.meters
	return telemetry.New(repo, &o)
}

// Report exports the statistics of a part of the program that is no repository,
// until Shutdown.
func (t *Telemetry) Report(r limiter.StatisticsReporter) error {
	_, err := telemetry.Report(r, &telemetry.Options{MeterProvider: t.meters})
	return err
}

// Metrics returns a handler with the metrics in the format of Prometheus.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{ErrorLog: promLog{t.log}, MaxRequestsInFlight: 4})
}

// promLog writes the errors of the handler to a log.
type promLog struct{ log *slog.Logger }

// Println logs the error of a scrape.
func (l promLog) Println(v ...any) {
	l.log.Error("metrics", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}

// Propagate returns a handler whose spans continue the trace of the request, if its
// headers name one.
func Propagate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Shutdown sends what is left and ends the exporters. It returns when ctx ends,
// even if they hang.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	// The channel has room for both results, so that no goroutine stays behind
	// when ctx ends.
	done := make(chan error, 2)
	for _, shutdown := range []func(context.Context) error{t.tracers.Shutdown, t.meters.Shutdown} {
		go func() { done <- shutdown(ctx) }()
	}

	var err error
	for range 2 {
		select {
		case failed := <-done:
			err = errors.Join(err, failed)
		case <-ctx.Done():
			return t.clean(errors.Join(err, ctx.Err()))
		}
	}

	return t.clean(err)
}
