package telemetry

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/zeroae/zae-limiter-go"
)

// The operations, by index.
const (
	opConsume = iota
	opPeek
	opCredit
	opBuckets
	opCreateEntity
	opEntity
	opEntities
	opDeleteEntity
	opSetConfig
	opConfig
	opDeleteConfig
	opResourcesWithDefaults
	opResourcesWithLimits
	opEntitiesWithLimits
	opNamespace
	opNamespaces
	opRegisterNamespace
	opDeleteNamespace
	opRecoverNamespace
	opPurgeNamespace
	opAuditEvents
	opUsage
	opPing
	opManaged
	opSetManaged
	opReplaceConfig
	opConfigListed
	opBucketPage
	opBucketsAt
	opFill
	opSetSwitch
	opDeleteSwitch
	opSwitches
	operationCount
)

var operationNames = [operationCount]string{
	"consume", "peek", "credit", "buckets",
	"create_entity", "entity", "entities", "delete_entity",
	"set_config", "config", "delete_config", "resources_with_defaults", "resources_with_limits", "entities_with_limits",
	"namespace", "namespaces", "register_namespace", "delete_namespace", "recover_namespace", "purge_namespace",
	"audit_events", "usage", "ping",
	"managed", "set_managed", "replace_config", "config_listed", "bucket_page", "buckets_at",
	"fill", "set_switch", "delete_switch", "switches",
}

// The names of attributes.
const (
	attrOperation = attribute.Key("zae_limiter.operation")
	attrResource  = attribute.Key("zae_limiter.resource")
	attrLimit     = attribute.Key("zae_limiter.limit")
	attrResult    = attribute.Key("zae_limiter.result")
	attrEntity    = attribute.Key("zae_limiter.entity")
	attrErrorType = attribute.Key("error.type")
)

// result is the way in which a call ended.
type result string

const (
	resultOK       result = "ok"
	resultAdmitted result = "admitted"
	resultRefused  result = "refused"
	resultDisabled result = "disabled"
	resultError    result = "error"
)

// resultOf returns the result of a charge, and its error if that is a failure. It is
// no failure that a level is switched off.
func resultOf(out *limiter.Outcome, err error) (result, error) {
	switch {
	case err != nil && is[*limiter.DisabledError](err):
		return resultDisabled, nil
	case out.Admitted:
		return resultAdmitted, err
	}
	return resultRefused, err
}

// operation holds the names and attributes of the calls of one method. They are
// made once, so that a call allocates none.
type operation struct {
	span                  string
	common                []attribute.KeyValue
	start                 []trace.SpanStartOption
	ok, admitted, refused []metric.RecordOption
}

func (o *operation) init(name string, common []attribute.KeyValue) {
	o.span = "zae_limiter." + name

	// Clip, since each operation appends to the same attributes.
	o.common = append(slices.Clip(common), attrOperation.String(name))

	if len(common) > 0 {
		o.start = []trace.SpanStartOption{trace.WithAttributes(common...)}
	}

	o.ok, o.admitted, o.refused = o.options(resultOK), o.options(resultAdmitted), o.options(resultRefused)
}

// options returns the attributes of a measurement.
func (o *operation) options(res result, more ...attribute.KeyValue) []metric.RecordOption {
	all := slices.Concat(o.common, []attribute.KeyValue{attrResult.String(string(res))}, more)
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(all...))}
}

// of returns the attributes of a measurement with a result.
func (o *operation) of(res result, err error) []metric.RecordOption {
	switch {
	case err != nil:
		return o.options(resultError, attrErrorType.String(errorType(err)))
	case res == resultAdmitted:
		return o.admitted
	case res == resultRefused:
		return o.refused
	case res == resultDisabled:
		return o.options(resultDisabled)
	}
	return o.ok
}

// call is one call of the store under way.
type call struct {
	observer *observer
	op       *operation
	span     trace.Span
	timed    bool
	began    time.Time
}

// begin starts the span and the time of a call.
func (o *observer) begin(ctx context.Context, op int, start []trace.SpanStartOption) (context.Context, call) {
	c := call{observer: o, op: &o.operations[op]}
	ctx, c.span = o.tracer.Start(ctx, c.op.span, start...)

	// The clock is read only if something records durations.
	if c.timed = o.duration.Enabled(ctx); c.timed {
		c.began = time.Now()
	}

	return ctx, c
}

// end records the result of a call.
func (c *call) end(ctx context.Context, res result, err error) {
	if c.timed {
		c.record(ctx, time.Since(c.began), res, err)
	}

	c.endSpan(res, err)
}

func (c *call) record(ctx context.Context, took time.Duration, res result, err error) {
	c.observer.duration.Record(ctx, took.Seconds(), c.op.of(res, err)...)
}

// endSpan ends the span. The text of an error may contain an entity, so the span has
// it only if it may have entities.
func (c *call) endSpan(res result, err error) {
	if c.span.IsRecording() {
		if err != nil {
			text := ""
			if c.observer.entities {
				text = err.Error()
			}
			c.span.SetStatus(codes.Error, text)
			c.span.SetAttributes(attrResult.String(string(resultError)), attrErrorType.String(errorType(err)))
		} else {
			c.span.SetAttributes(attrResult.String(string(res)))
		}
	}

	c.span.End()
}

// about adds the entity and the resource of a call to its span. Either may be "".
func (c *call) about(entity, resource string) {
	if !c.span.IsRecording() {
		return
	}

	if resource != "" {
		c.span.SetAttributes(attrResource.String(resource))
	}
	if entity != "" && c.observer.entities {
		c.span.SetAttributes(attrEntity.String(entity))
	}
}

// observe makes a call of the store.
func observe[T any](
	ctx context.Context, r *Repository, op int, do func(context.Context) (T, error), about ...string,
) (T, error) {
	ctx, c := r.begin(ctx, op, r.operations[op].start)
	c.aboutAll(about)

	v, err := do(ctx)
	c.end(ctx, resultOK, err)
	return v, err
}

// observeError makes a call of the store that returns only an error.
func observeError(ctx context.Context, r *Repository, op int, do func(context.Context) error, about ...string) error {
	_, err := observe(ctx, r, op, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) }, about...)
	return err
}

// aboutAll adds the entity and the resource, if the call has them.
func (c *call) aboutAll(about []string) {
	// Calls about namespaces have neither.
	if len(about) == 2 {
		c.about(about[0], about[1])
	}
}

// observeAll makes a call of the store that returns a sequence. The span covers the
// loop, and the duration leaves out its body.
func observeAll[T any](
	ctx context.Context, r *Repository, op int, do func(context.Context) iter.Seq2[T, error], about ...string,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, c := r.begin(ctx, op, r.operations[op].start)
		c.aboutAll(about)

		var took time.Duration
		var failed error

		// The loop may be left early, or panic. Its span ends all the same.
		defer func() {
			if c.timed {
				c.record(ctx, took, resultOK, failed)
			}
			c.endSpan(resultOK, failed)
		}()

		at := time.Now()
		for v, err := range do(ctx) {
			took += time.Since(at)
			failed = err
			if !yield(v, err) {
				return
			}
			at = time.Now()
		}

		took += time.Since(at)
	}
}

// errorType returns the value of error.type: one of a few words, since the text of
// an error may contain anything.
func errorType(err error) string {
	// What comes first here may be wrapped by the types further down: a charge
	// without limits is also an *InvalidError.
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	case errors.Is(err, limiter.ErrNoLimits):
		return "no_limits"
	case errors.Is(err, limiter.ErrNotFound):
		return "not_found"
	case errors.Is(err, limiter.ErrExists):
		return "exists"
	case errors.Is(err, limiter.ErrConflict):
		return "conflict"
	case errors.Is(err, limiter.ErrClosed):
		return "closed"
	case errors.Is(err, errors.ErrUnsupported):
		return "unsupported"
	case is[*limiter.InvalidError](err):
		return "invalid"
	case is[*limiter.CorruptError](err):
		return "corrupt"
	case is[*limiter.VersionError](err):
		return "version"
	}

	// Any other error of a store is an outage.
	return "unavailable"
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
