package telemetry

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/zeroae/zae-limiter-go"
)

// The statistics that prices apply to.
const (
	billedReads  = "store.billed_reads"
	billedWrites = "store.billed_writes"
)

// Report exports the statistics of r as metrics, without observing calls, for parts
// of a program that are no repositories. Of opts, it uses MeterProvider and Name. The
// returned function ends the export.
func Report(r limiter.StatisticsReporter, opts *Options) (stop func() error, err error) {
	all := opts.withDefaults()
	o := &observer{common: all.common()}

	if err := o.addStatistics(all.MeterProvider.Meter(scope), r.Statistics, &all); err != nil {
		return nil, err
	}

	return o.endStatistics, nil
}

// source yields statistics.
type source func() iter.Seq[limiter.Statistic]

// endStatistics ends the metrics of statistics.
func (o *observer) endStatistics() error {
	if o.statistics == nil {
		return nil
	}
	return o.statistics.Unregister()
}

// addStatistics creates a metric for each value that a source yields, and those of
// the cost.
func (o *observer) addStatistics(meter metric.Meter, from source, opts *Options) error {
	// OpenTelemetry registers instruments before it reads them, so a store never
	// changes the names of its statistics.
	observed := map[string]metric.Float64Observable{}
	var all []metric.Observable
	for s := range from() {
		made, err := newObservable(meter, s)
		if err != nil {
			return fmt.Errorf("statistic %s: %w", s.Name, err)
		}
		observed[s.Name] = made
		all = append(all, made)
	}

	cost, err := o.newCost(meter, from, opts)
	if err != nil {
		return err
	}

	if cost != nil {
		all = append(all, cost.total, cost.perMillion)
	}

	if len(all) == 0 {
		return nil
	}

	attributes := metric.WithAttributeSet(attribute.NewSet(o.common...))
	o.statistics, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for s := range from() {
			// A value that is not known yet is NaN.
			if into := observed[s.Name]; into != nil && !math.IsNaN(s.Value) {
				to.ObserveFloat64(into, s.Value, attributes)
			}
		}

		if cost != nil {
			cost.observe(to, from.byName(), o.counted.Load(), attributes)
		}
		return nil
	}, all...)
	return err
}

// newObservable returns a counter or a gauge for a statistic.
func newObservable(meter metric.Meter, s limiter.Statistic) (metric.Float64Observable, error) {
	name, unit, description := "zae_limiter."+s.Name, metric.WithUnit(s.Unit), metric.WithDescription(s.Description)
	if s.Total {
		return meter.Float64ObservableCounter(name, unit, description)
	}
	return meter.Float64ObservableGauge(name, unit, description)
}

// byName returns the current values.
func (from source) byName() map[string]float64 {
	values := map[string]float64{}
	for s := range from() {
		values[s.Name] = s.Value
	}
	return values
}

// cost converts billed units to money, from the time when it was made.
type cost struct {
	readPrice, writePrice float64
	before                float64 // cost of the units billed until then
	total                 metric.Float64ObservableCounter
	perMillion            metric.Float64ObservableGauge
}

// newCost returns nil if no price is set.
func (o *observer) newCost(meter metric.Meter, from source, opts *Options) (*cost, error) {
	if !o.priced {
		return nil, nil //nolint:nilnil // nil means no prices, as documented
	}

	for field, price := range map[string]float64{"read_price": opts.ReadPrice, "write_price": opts.WritePrice} {
		if price < 0 || math.IsNaN(price) || math.IsInf(price, 0) {
			return nil, &limiter.InvalidError{
				Field: field, Value: strconv.FormatFloat(price, 'g', -1, 64),
				Reason: "must be the price of one unit, 0 or more",
			}
		}
	}

	values := from.byName()

	// Without units the cost would be 0, which would look like good news.
	if _, billed := values[billedWrites]; !billed {
		return nil, &limiter.InvalidError{
			Field: "write_price", Value: strconv.FormatFloat(opts.WritePrice, 'g', -1, 64),
			Reason: "needs a store that reports its units, such as dynamo with Options.CountCapacity",
		}
	}

	c := &cost{readPrice: opts.ReadPrice, writePrice: opts.WritePrice}
	c.before = c.of(values)

	unit := metric.WithUnit("{" + opts.Currency + "}")
	var err error
	if c.total, err = meter.Float64ObservableCounter(
		"zae_limiter.cost", unit, metric.WithDescription("Cost of the billed units"),
	); err != nil {
		return nil, err
	}

	c.perMillion, err = meter.Float64ObservableGauge("zae_limiter.cost.per_million_decisions", unit,
		metric.WithDescription("Cost of a million decisions, on average since the start"))
	return c, err
}

// of returns the cost of the billed units.
func (c *cost) of(values map[string]float64) float64 {
	return values[billedReads]*c.readPrice + values[billedWrites]*c.writePrice
}

func (c *cost) observe(
	to metric.Observer, values map[string]float64, decisions int64, attributes metric.ObserveOption,
) {
	const million = 1e6
	spent := c.of(values) - c.before
	to.ObserveFloat64(c.total, spent, attributes)

	if decisions > 0 {
		to.ObserveFloat64(c.perMillion, spent/float64(decisions)*million, attributes)
	}
}
