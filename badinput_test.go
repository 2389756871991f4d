package limiter_test

import (
	"context"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// TestBadInputIsRefusedBeforeTheStoreIsAsked covers row D-4 of docs/defects.md:
// the limiter checks its input before it calls the store. The store here panics
// on every call.
func TestBadInputIsRefusedBeforeTheStoreIsAsked(t *testing.T) {
	lim := newLimiter(t, untouched{}, nil)
	good := limiter.PerMinute("rpm", 100)
	acquire := func(r limiter.Request) error { _, err := lim.Acquire(bg, r); return err }
	for _, c := range []struct {
		name, field string
		err         func() error
	}{
		{"entity", "entity_id", func() error {
			return acquire(limiter.Request{Entity: "a#b", Resource: resource, Consume: rpm(1)})
		}},
		{"resource", "resource", func() error { return acquire(limiter.Request{Entity: alice, Consume: rpm(1)}) }},
		{"no amounts", "consume", func() error { return acquire(request(alice, limiter.Amounts{})) }},
		{"negative amount", "consume", func() error { return acquire(request(alice, rpm(1).And("tpm", -1))) }},
		{"smallest amount", "consume", func() error { return acquire(request(alice, rpm(math.MinInt64))) }},
		{"empty override", "limits", func() error {
			return acquire(limiter.Request{
				Entity: alice, Resource: resource, Consume: rpm(1), Limits: []limiter.Limit{},
			})
		}},
		{"duplicate override", "limits", func() error {
			return acquire(limiter.Request{
				Entity: alice, Resource: resource, Consume: rpm(1),
				Limits: []limiter.Limit{good, good.WithBurst(1)},
			})
		}},
		{"bad override", "capacity", func() error {
			return acquire(limiter.Request{
				Entity: alice, Resource: resource, Consume: rpm(1), Limits: []limiter.Limit{good.WithBurst(-1)},
			})
		}},
		{"mode", "on_unavailable", func() error {
			return acquire(limiter.Request{Entity: alice, Resource: resource, Consume: rpm(1), OnUnavailable: "open"})
		}},
		{"Wait", "consume", func() error { _, err := lim.Wait(bg, request(alice, limiter.Amounts{})); return err }},
		{"Do", "consume", func() error {
			return lim.Do(bg, request(alice, rpm(-1)), func(context.Context, *limiter.Lease) error {
				panic("must not run")
			})
		}},
		{"Explain", "consume", func() error { _, err := lim.Explain(bg, request(alice, rpm(-1))); return err }},
		{"Explain", "entity_id", func() error { _, err := lim.Explain(bg, request("", rpm(1))); return err }},
		{"TimeUntil", "consume", func() error {
			_, err := lim.TimeUntil(bg, request(alice, limiter.Amounts{}))
			return err
		}},
		{"Available", "resource", func() error { _, err := lim.Available(bg, alice, "_default_"); return err }},
		{"Status", "entity_id", func() error { _, err := lim.Status(bg, ""); return err }},
		{"Capacity", "resource", func() error {
			_, err := lim.Capacity(bg, limiter.CapacityQuery{Limit: "rpm"})
			return err
		}},
		{"Capacity", "name", func() error {
			_, err := lim.Capacity(bg, limiter.CapacityQuery{Resource: resource})
			return err
		}},

		{"CreateEntity", "entity_id", func() error { _, err := lim.CreateEntity(bg, limiter.Entity{}); return err }},
		{"CreateEntity", "parent_id", func() error {
			_, err := lim.CreateEntity(bg, limiter.Entity{ID: alice, Parent: "#"})
			return err
		}},
		{"self-parent", "parent_id", func() error {
			_, err := lim.CreateEntity(bg, limiter.Entity{ID: alice, Parent: alice})
			return err
		}},
		{"cascade without a parent", "cascade", func() error {
			_, err := lim.CreateEntity(bg, limiter.Entity{ID: alice, Cascade: true})
			return err
		}},
		{"Entity", "entity_id", func() error { _, err := lim.Entity(bg, "#"); return err }},
		{"DeleteEntity", "entity_id", func() error { return lim.DeleteEntity(bg, "") }},
		{"Children", "parent_id", func() error { return last(lim.Children(bg, "")) }},
		{"Chain", "entity_id", func() error { _, err := lim.Chain(bg, ""); return err }},

		{"SetLimits entity", "entity_id", func() error { return lim.SetLimits(bg, "", resource, good) }},
		{"SetLimits resource", "resource", func() error { return lim.SetLimits(bg, alice, "_default_", good) }},
		{"SetLimits none", "limits", func() error { return lim.SetLimits(bg, alice, resource) }},
		{"SetLimits twice", "limits", func() error { return lim.SetLimits(bg, alice, resource, good, good) }},
		{"Limits", "entity_id", func() error { _, err := lim.Limits(bg, "", ""); return err }},
		{"DeleteLimits", "entity_id", func() error { return lim.DeleteLimits(bg, "", "") }},
		{"SetResourceDefaults", "resource", func() error { return lim.SetResourceDefaults(bg, "", good) }},
		{"SetResourceDefaults none", "limits", func() error { return lim.SetResourceDefaults(bg, resource) }},
		{"ResourceDefaults", "resource", func() error { _, err := lim.ResourceDefaults(bg, ""); return err }},
		{"DeleteResourceDefaults", "resource", func() error { return lim.DeleteResourceDefaults(bg, "") }},
		{"SetSystemDefaults none", "limits", func() error { return lim.SetSystemDefaults(bg) }},
		{"SetSystemDefaults name", "name", func() error {
			return lim.SetSystemDefaults(bg, good, limiter.PerDay("ttl", 1))
		}},
		{"SetOnUnavailable", "on_unavailable", func() error { return lim.SetOnUnavailable(bg, "Allow") }},
		{"SetOnUnavailable none", "on_unavailable", func() error { return lim.SetOnUnavailable(bg, "") }},
		{"SetSystem none", "limits", func() error { return lim.SetSystem(bg, "") }},
		{"SetSystem mode", "on_unavailable", func() error { return lim.SetSystem(bg, "Allow", good) }},
		{"SetSystem twice", "limits", func() error { return lim.SetSystem(bg, limiter.Allow, good, good) }},
		{"SetSystem name", "name", func() error { return lim.SetSystem(bg, "", limiter.PerDay("ttl", 1)) }},
		{"EntitiesWithLimits", "resource", func() error { return last(lim.EntitiesWithLimits(bg, "#")) }},

		{"RegisterNamespaces none", "namespace", func() error { _, err := lim.RegisterNamespaces(bg); return err }},
		{"RegisterNamespaces one bad", "namespace", func() error {
			_, err := lim.RegisterNamespaces(bg, "ok", "a/b")
			return err
		}},
		{"DeleteNamespace", "namespace", func() error { return lim.DeleteNamespace(bg, "_") }},
		{"AuditEvents", "entity_id", func() error { return last(lim.AuditEvents(bg, "$OTHER", "")) }},
		{"AuditEvents resource", "resource", func() error { return last(lim.AuditEvents(bg, "$RESOURCE:", "")) }},
		{"Usage entity", "entity_id", func() error { return last(lim.Usage(bg, limiter.UsageQuery{Entity: "#"})) }},
		{"Usage resource", "resource", func() error { return last(lim.Usage(bg, limiter.UsageQuery{Resource: "#"})) }},
		{"Usage window", "window", func() error {
			return last(lim.Usage(bg, limiter.UsageQuery{Entity: alice, Window: "weekly"}))
		}},
		{"UsageSummary", "entity_id", func() error {
			_, err := lim.UsageSummary(bg, limiter.UsageQuery{Entity: "#"})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) { invalid(t, c.err(), c.field) })
	}
}

// calls holds every method that calls the store, with arguments that are valid in
// a populated world.
var calls = map[string][]any{
	"Ping":      nil,
	"Acquire":   {request(alice, rpm(1))},
	"Wait":      {request(alice, rpm(1))},
	"Do":        {request(alice, rpm(1)), func(context.Context, *limiter.Lease) error { return nil }},
	"Adjust":    {request(alice, rpm(1))},
	"Explain":   {request(alice, rpm(1))},
	"TimeUntil": {request(alice, rpm(1))},
	"Available": {alice, resource},
	"Status":    {alice},
	"Capacity":  {limiter.CapacityQuery{Resource: resource, Limit: "rpm"}},

	"CreateEntity": {limiter.Entity{ID: "bob"}},
	"Entity":       {alice},
	"DeleteEntity": {alice},
	"Entities":     nil,
	"Children":     {project},
	"Chain":        {alice},

	"SetLimits":              {alice, "", limiter.PerDay("x", 1)},
	"Limits":                 {alice, resource},
	"DeleteLimits":           {alice, resource},
	"SetResourceDefaults":    {resource, limiter.PerDay("x", 1)},
	"ResourceDefaults":       {resource},
	"DeleteResourceDefaults": {resource},
	"SetSystemDefaults":      {limiter.PerDay("x", 1)},
	"SystemDefaults":         nil,
	"DeleteSystemDefaults":   nil,
	"SetOnUnavailable":       {limiter.Allow},
	"SetSystem":              {limiter.Allow, limiter.PerDay("x", 1)},
	"ResourcesWithDefaults":  nil,
	"ResourcesWithLimits":    nil,
	"EntitiesWithLimits":     {resource},

	"Disable":  {limiter.Scope{Entity: alice}, "test"},
	"Enable":   {limiter.Scope{Entity: alice}},
	"Switches": nil,
	"Reset":    {alice, resource},
	"TopUp":    {alice, resource, limiter.Tokens("rpm", 1), "id"},

	"AuditEvents":  {alice, ""},
	"Usage":        {limiter.UsageQuery{Entity: alice}},
	"UsageSummary": {limiter.UsageQuery{Entity: alice}},

	"Namespace":          {"tenant"},
	"Namespaces":         nil,
	"RegisterNamespaces": {"other"},
	"DeleteNamespace":    {"tenant"},
	"RecoverNamespace":   {"id"},
	"PurgeNamespace":     {"id"},
}

// call calls a method of calls and returns its error, or the last error of its
// sequence.
func call(ctx context.Context, lim *limiter.RateLimiter, name string) (err error) {
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for _, arg := range calls[name] {
		args = append(args, reflect.ValueOf(arg))
	}
	results := reflect.ValueOf(lim).MethodByName(name).Call(args)
	result := results[len(results)-1]
	if result.Kind() != reflect.Func {
		err, _ = reflect.TypeAssert[error](result)
		return err
	}
	for _, v := range result.Seq2() {
		err, _ = reflect.TypeAssert[error](v)
	}
	return err
}

func TestEveryMethodIsAmongTheCalls(t *testing.T) {
	for m := range reflect.TypeFor[*limiter.RateLimiter]().Methods() {
		if _, ok := calls[m.Name]; !ok && m.Name != "As" { // As does no I/O
			t.Errorf("%s is not tried with a context that ended, nor on a closed store", m.Name)
		}
	}
}

// populated returns a world that holds data of every kind.
func populated(t *testing.T) *world {
	t.Helper()
	w := start(t, limiter.PerMinute("rpm", 100))
	w.family(t)
	check(t, w.SetLimits(bg, alice, resource, limiter.PerMinute("rpm", 50)))
	check(t, w.SetResourceDefaults(bg, resource, limiter.PerMinute("rpm", 70)))
	_, err := w.RegisterNamespaces(bg, "tenant")
	check(t, err)
	w.take(t, alice, rpm(10))
	return w
}

// dump returns everything that the store holds in its namespace.
func (w *world) dump(t *testing.T) map[string]any {
	t.Helper()
	d := map[string]any{
		"entities": collect(t, w.Entities(bg)), "namespaces": collect(t, w.Namespaces(bg)),
		"audit": collect(t, w.AuditEvents(bg, alice, "")), "system audit": collect(t, w.AuditEvents(bg, "$SYSTEM", "")),
		"usage": collect(t, w.Usage(bg, limiter.UsageQuery{Resource: resource})),
	}
	for _, s := range limiter.Precedence(alice, resource) {
		cfg, err := w.store.Config(bg, s)
		check(t, err)
		d["limits of "+s.Level()] = cfg
	}
	for _, e := range []string{alice, project} {
		statuses, err := w.Status(bg, e)
		check(t, err)
		d["buckets of "+e] = statuses
	}
	return d
}

// TestContextThatHasEndedStopsEveryCall checks that a call with an ended context
// returns the error of the context, not an outage, and writes nothing.
func TestContextThatHasEndedStopsEveryCall(t *testing.T) {
	cancelled, cancel := context.WithCancel(bg)
	cancel()
	late, cancel := context.WithTimeout(bg, -1)
	cancel()
	contexts := map[string]context.Context{"cancelled": cancelled, "late": late}
	for kind := range contexts {
		for name := range calls {
			t.Run(kind+"/"+name, func(t *testing.T) {
				w := populated(t)
				before := w.dump(t)
				want := contexts[kind].Err()
				//nolint:errorlint // the error itself, not wrapped
				if err := call(contexts[kind], w.RateLimiter, name); err != want {
					t.Errorf("got %v, want %v", err, want)
				}
				if diff := cmp.Diff(before, w.dump(t)); diff != "" {
					t.Errorf("something was written:\n%s", diff)
				}
			})
		}
	}
}

func TestClosedStoreFailsEveryCall(t *testing.T) {
	for name := range calls {
		t.Run(name, func(t *testing.T) {
			w := populated(t)
			check(t, w.store.Close())
			check(t, w.store.Close()) // idempotent
			is(t, call(bg, w.RateLimiter, name), limiter.ErrClosed)
			is(t, call(bg, newLimiter(t, w.store, &limiter.Options{OnUnavailable: limiter.Allow}), name),
				limiter.ErrClosed)
		})
	}
}

func TestBadInputThatTheStoreFindsWritesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(*world)
	}{
		{"unknown limit", func(w *world) {
			t := w.t
			_, err := w.Acquire(bg, request(alice, rpm(1).And("tmp", 1)))
			bad := invalid(t, err, "consume")
			if bad.Value != "tmp" {
				t.Errorf("the error is about %q", bad.Value)
			}
		}},
		{"above the capacity", func(w *world) {
			t := w.t
			_, err := w.Acquire(bg, request(alice, rpm(51)))
			exceeded(t, err)
			is(t, err, limiter.ErrNeverFits)
		}},
		{"largest amount", func(w *world) {
			t := w.t
			_, err := w.Acquire(bg, request(alice, rpm(math.MaxInt64)))
			is(t, err, limiter.ErrNeverFits)
		}},
		{"no limits", func(w *world) {
			t := w.t
			other, err := w.Namespace(bg, "tenant")
			check(t, err)
			_, err = other.Acquire(bg, request(alice, rpm(1)))
			invalid(t, err, "limits")
			is(t, err, limiter.ErrNoLimits)
		}},
		{"entity exists", func(w *world) {
			t := w.t
			_, err := w.CreateEntity(bg, limiter.Entity{ID: alice, Name: "Other"})
			is(t, err, limiter.ErrExists)
		}},
		{"lease has an unknown limit", func(w *world) {
			t := w.t
			lease := w.take(t, alice, rpm(0))
			invalid(t, lease.Adjust(rpm(1).And("tmp", 5)), "limit")
			invalid(t, lease.Consume(bg, limiter.Tokens("tmp", 5)), "consume")
			invalid(t, lease.Consume(bg, limiter.Amounts{}), "consume")
			invalid(t, lease.Consume(bg, rpm(-5)), "consume")
			check(t, lease.Commit(bg))
		}},
		{"nothing to delete", func(w *world) {
			t := w.t
			is(t, w.DeleteEntity(bg, "nobody"), limiter.ErrNotFound)
			is(t, w.DeleteLimits(bg, alice, ""), limiter.ErrNotFound)
			is(t, w.DeleteResourceDefaults(bg, "other"), limiter.ErrNotFound)
			is(t, w.DeleteNamespace(bg, "other"), limiter.ErrNotFound)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := populated(t)
			before := w.dump(t)
			c.call(w)
			if diff := cmp.Diff(before, w.dump(t)); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}
