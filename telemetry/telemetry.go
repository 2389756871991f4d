// Package telemetry observes a limiter with OpenTelemetry: a span for each call of
// its store, and metrics of decisions, tokens, durations and of the store itself.
//
//	repo, err := telemetry.New(store, nil)
//	lim, err := limiter.New(repo, nil)
//
// Wrap the outermost repository, such as that of package escrow, so that each
// decision counts once. The package depends on the API of OpenTelemetry
// alone. Without an SDK it records nothing and costs less than a microsecond.
//
// Spans are named after the operation, such as zae_limiter.consume. They have the
// resource, the result and, after an error, error.type. They never have the entity
// unless Options.RecordEntities is set: an entity may identify a person or a key,
// and error texts may contain it.
//
// These metrics carry the resource of the charge:
//
//   - zae_limiter.decisions counts charges by result: admitted, refused, disabled
//     (a level is switched off) or error.
//   - zae_limiter.tokens.admitted counts tokens by limit, including those that an
//     adjustment took later.
//   - zae_limiter.tokens.refused counts the tokens that a limit did not cover.
//   - zae_limiter.tokens.returned counts tokens that were given back.
//   - zae_limiter.shadow.refusals counts admitted charges that a shadow limit would
//     have refused, by limit.
//
// zae_limiter.operation.duration is the time of calls by operation and result.
// Each value of a [limiter.StatisticsReporter] becomes a metric with the prefix
// zae_limiter. The page docs/telemetry.md lists all of them.
package telemetry

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/zeroae/zae-limiter-go"
)

const scope = "github.com/zeroae/zae-limiter-go/telemetry"

// Options configures New. The zero value of a field is its default.
type Options struct {
	TracerProvider trace.TracerProvider // default: otel.GetTracerProvider()
	MeterProvider  metric.MeterProvider // default: otel.GetMeterProvider()
	// Name distinguishes the repositories of a process. If it is set, all spans and
	// metrics have it as zae_limiter.name.
	Name string
	// RecordEntities adds the entity and the text of errors to spans. Metrics never
	// have them.
	RecordEntities bool
	// MaxResources is the number of resources, and of limits for each, that metrics
	// distinguish; default 1,000. Metrics record further ones as _OTHER.
	MaxResources int
	// ReadPrice and WritePrice are the prices of one read unit and one write unit
	// of the store. If one is set, metrics show the cost of all calls and of a
	// million decisions. The store must report the units, as package dynamo does
	// with CountCapacity.
	ReadPrice, WritePrice float64
	Currency              string // of the prices; default USD
}

const defaultMaxResources = 1000

// Repository observes the calls of a repository. It is safe for concurrent use.
type Repository struct {
	limiter.Repository // the store
	*observer
	view bool // Close does not end the metrics
}

var _ limiter.Repository = (*Repository)(nil)

// observer holds what all views of a Repository share.
type observer struct {
	tracer     trace.Tracer
	common     []attribute.KeyValue // of all spans and metrics
	entities   bool
	operations [operationCount]operation
	resources  resources
	priced     bool
	counted    atomic.Int64 // decisions, if priced

	decisions                   metric.Int64Counter
	admitted, refused, returned metric.Int64Counter // tokens
	spared                      metric.Int64Counter // charges
	duration                    metric.Float64Histogram
	statistics                  metric.Registration // nil if there are none
}

// New returns a repository that observes repo. Close closes repo.
//
// It returns a *limiter.InvalidError if prices are set that are invalid, or if the
// store does not report its units. Other errors come from the meter.
func New(repo limiter.Repository, opts *Options) (*Repository, error) {
	o := opts.withDefaults()
	r := &observer{
		tracer: o.TracerProvider.Tracer(scope), entities: o.RecordEntities,
		priced: o.ReadPrice != 0 || o.WritePrice != 0,
	}

	r.common = o.common()
	r.resources.init(r.common, o.MaxResources)
	for i := range r.operations {
		r.operations[i].init(operationNames[i], r.common)
	}

	meter := o.MeterProvider.Meter(scope)
	if err := errors.Join(r.addInstruments(meter), r.addStatistics(meter, func() iter.Seq[limiter.Statistic] {
		return statisticsOf(repo)
	}, &o)); err != nil {
		return nil, err
	}

	return &Repository{Repository: repo, observer: r}, nil
}

func (o *Options) withDefaults() Options {
	var all Options
	if o != nil {
		all = *o
	}

	if all.TracerProvider == nil {
		all.TracerProvider = otel.GetTracerProvider()
	}
	if all.MeterProvider == nil {
		all.MeterProvider = otel.GetMeterProvider()
	}
	if all.MaxResources <= 0 {
		all.MaxResources = defaultMaxResources
	}
	if all.Currency == "" {
		all.Currency = "USD"
	}

	return all
}

// common returns the attributes of all spans and metrics.
func (o *Options) common() []attribute.KeyValue {
	if o.Name == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("zae_limiter.name", o.Name)}
}

// addInstruments creates the instruments that calls record to.
func (o *observer) addInstruments(meter metric.Meter) error {
	counter := func(into *metric.Int64Counter, name, unit, description string) error {
		made, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		*into = made
		return err
	}

	// The default boundaries are meant for milliseconds.
	duration, err := meter.Float64Histogram("zae_limiter.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of calls of the store"),
		metric.WithExplicitBucketBoundaries(0.00001, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
			0.25, 0.5, 1, 2.5, 5, 10))
	o.duration = duration

	return errors.Join(
		err,
		counter(&o.decisions, "zae_limiter.decisions", "{decision}",
			"Charges that the store decided or failed to decide"),
		counter(&o.admitted, "zae_limiter.tokens.admitted", "{token}",
			"Tokens taken, by charges and by later adjustments"),
		counter(&o.refused, "zae_limiter.tokens.refused", "{token}", "Tokens asked for that a limit did not cover"),
		counter(&o.returned, "zae_limiter.tokens.returned", "{token}", "Tokens given back"),
		counter(&o.spared, "zae_limiter.shadow.refusals", "{charge}",
			"Admitted charges that a shadow limit would have refused"),
	)
}

// Unwrap returns the store.
func (r *Repository) Unwrap() limiter.Repository { return r.Repository }

// Namespace returns a view of another namespace, observed too.
func (r *Repository) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := observe(ctx, r, opNamespace, func(ctx context.Context) (limiter.Repository, error) {
		return r.Repository.Namespace(ctx, name)
	})
	if err != nil {
		return nil, err
	}

	return &Repository{Repository: view, observer: r.observer, view: true}, nil
}

// Close ends the metrics of the store's statistics and closes the store. On a
// view, Close does nothing.
func (r *Repository) Close() error {
	if r.view {
		return r.Repository.Close()
	}

	// The metrics end first, since their callback reads the store.
	return errors.Join(r.endStatistics(), r.Repository.Close())
}
