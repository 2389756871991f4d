package telemetry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// other stands for everything beyond the maximum, as in the conventions of
// OpenTelemetry.
const other = "_OTHER"

// names caches attributes by a name, for a maximum of names. Callers choose names,
// so that their number must be bounded. Reading takes no lock and allocates
// nothing.
type names[T any] struct {
	known atomic.Pointer[map[string]*T]
	mu    sync.Mutex // held by writers
	most  int
	make  func(name string) *T
	other *T
}

func (n *names[T]) init(most int, create func(name string) *T) {
	n.most, n.make, n.other = most, create, create(other)
	n.known.Store(&map[string]*T{})
}

// find returns the attributes of a name, or nil if it is not known.
func (n *names[T]) find(name string) *T { return (*n.known.Load())[name] }

// get returns the attributes of a name and adds the name if there is room.
func (n *names[T]) get(name string) *T {
	if found := n.find(name); found != nil {
		return found
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	known := *n.known.Load()

	// Another call may have added the name while this one waited for the lock.
	if found := known[name]; found != nil {
		return found
	}

	if len(known) >= n.most {
		return n.other
	}

	// Readers take no lock, so a map that they may have must not change.
	known = maps.Clone(known)
	known[name] = n.make(name)
	n.known.Store(&known)
	return known[name]
}

// resources caches the attributes of resources.
type resources struct {
	names[resource]
	common []attribute.KeyValue
}

func (r *resources) init(common []attribute.KeyValue, most int) {
	r.common = slices.Clip(common)
	r.names.init(most, func(name string) *resource { return newResource(r.common, name, most) })
}

// startUnknown returns the attributes of a span for a resource that is not known.
func (r *resources) startUnknown(name string) []trace.SpanStartOption {
	return []trace.SpanStartOption{trace.WithAttributes(append(r.common, attrResource.String(name))...)}
}

// resource holds the attributes of one resource.
type resource struct {
	start             []trace.SpanStartOption
	admitted, refused []metric.AddOption // of decisions
	common            []attribute.KeyValue
	limits            names[[]metric.AddOption]
}

func newResource(common []attribute.KeyValue, name string, most int) *resource {
	// common is clipped, so that each resource gets a copy.
	r := &resource{common: append(common, attrResource.String(name))}
	r.start = []trace.SpanStartOption{trace.WithAttributes(r.common...)}
	r.admitted = r.options(attrResult.String(string(resultAdmitted)))
	r.refused = r.options(attrResult.String(string(resultRefused)))

	r.limits.init(most, func(limit string) *[]metric.AddOption { return new(r.options(attrLimit.String(limit))) })
	return r
}

// options returns the attributes of a measurement.
func (r *resource) options(more ...attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(slices.Concat(r.common, more)...))}
}

// failed returns the attributes of a decision that failed.
func (r *resource) failed(err error) []metric.AddOption {
	return r.options(attrResult.String(string(resultError)), attrErrorType.String(errorType(err)))
}

// limit returns the attributes of a number of tokens.
func (r *resource) limit(name string) []metric.AddOption { return *r.limits.get(name) }
