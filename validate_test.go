package limiter_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go"
)

// names holds a call for each kind of name. The store panics, so a valid name ends
// in a panic.
var names = map[string]func(lim *limiter.RateLimiter, name string) error{
	"entity_id": func(lim *limiter.RateLimiter, name string) error {
		_, err := lim.Acquire(bg, limiter.Request{Entity: name, Resource: resource, Consume: rpm(1)})
		return err
	},
	"parent_id": func(lim *limiter.RateLimiter, name string) error {
		_, err := lim.CreateEntity(bg, limiter.Entity{ID: alice, Parent: name, Cascade: true})
		return err
	},
	"principal": func(lim *limiter.RateLimiter, name string) error {
		return lim.As(name).SetSystemDefaults(bg, limiter.PerDay("rpm", 1))
	},
	"namespace": func(lim *limiter.RateLimiter, name string) error {
		_, err := lim.RegisterNamespaces(bg, name)
		return err
	},
	"resource": func(lim *limiter.RateLimiter, name string) error {
		_, err := lim.Acquire(bg, limiter.Request{Entity: alice, Resource: name, Consume: rpm(1)})
		return err
	},
	"name": func(lim *limiter.RateLimiter, name string) error {
		return lim.SetSystemDefaults(bg, limiter.PerDay(name, 1))
	},
}

// reachesStore reports whether the call passed validation and reached the store,
// which panics.
func reachesStore(t *testing.T, field, name string) (reached bool, err error) {
	t.Helper()
	lim := newLimiter(t, untouched{}, nil)
	return passes(func() error { return names[field](lim, name) })
}

// passes reports whether a call reaches the store, or returns its error.
func passes(call func() error) (reached bool, err error) {
	defer func() { reached = recover() != nil }()
	return false, call()
}

func TestNamesThatAreValid(t *testing.T) {
	ids := []string{"a", "0", "AZaz09", "Z9_.-:@x", "user@example.com", "a..b", strings.Repeat("x", 256)}
	for field, valid := range map[string][]string{
		"entity_id": ids, "parent_id": ids,
		"principal": append(ids, "arn:aws:iam::1:role/a+b=c,d@e", "arn:"+strings.Repeat("x", 2044)),
		"namespace": append(ids, "default"),
		"resource":  {"a", "AZaz09", "gpt-4", "a/", "a//b", "openai/gpt-4.1_x", strings.Repeat("x", 64)},
		"name":      {"a", "AZaz09", "rpm", "tokens.in-out_x9", strings.Repeat("x", 64)},
	} {
		for _, name := range valid {
			if ok, err := reachesStore(t, field, name); !ok {
				t.Errorf("%s %q: %v", field, name, err)
			}
		}
	}
}

func TestNamesThatAreInvalid(t *testing.T) {
	common := []string{
		" a", "a b", "a\x00", "ä", "a\xff", "a,b", "a[", "a`", "a{", "a;", "_a", ".a", "-a", "$SYSTEM", "日本",
	}
	for field, bad := range map[string][]string{
		"entity_id": {"a/b", ":a"}, "parent_id": {"a/b", "@a"},
		"principal": {
			"a/b", "a arn:", "arn:aws:iam::1:role/a b", "arn:aws:iam::1:role/a#c", "arn:\x00", "arn:a\n",
			"arn:ä", "arn:" + strings.Repeat("x", 2045),
		}, "namespace": {"a/b", "_", "a/"},
		"resource": {"/a", "4o", "a:b", "a@b", "_default_"},
		"name":     {"4o", "a/b", "a:b", "a@b", "_default_"},
	} {
		for _, name := range append(bad, common...) {
			if reached, err := reachesStore(t, field, name); reached {
				t.Errorf("%s %q was accepted", field, name)
			} else {
				invalid(t, err, field)
			}
		}
	}
}

// TestTrailingNewlineIsRefused covers rows B-20 and 25 of docs/defects.md: a name
// is matched to its last byte.
func TestTrailingNewlineIsRefused(t *testing.T) {
	for field := range names {
		for _, name := range []string{"abc\n", "abc\r\n", "\nabc", "a\nbc"} {
			if reached, err := reachesStore(t, field, name); reached {
				t.Errorf("%s %q was accepted", field, name)
			} else {
				invalid(t, err, field)
			}
		}
	}
}

// TestReservedNamesAreRefused covers rows B-21 and 20 of docs/defects.md: names
// of attributes in usage records and in the registry are reserved.
func TestReservedNamesAreRefused(t *testing.T) {
	for field, reserved := range map[string][]string{
		"name": {
			"ttl", "window", "window_start", "resource", "entity_id", "total_events", "PK", "SK",
			"GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK",
		},
		"resource":  {"PK", "SK", "GSI4PK", "GSI4SK"},
		"namespace": {"_"},
	} {
		for _, name := range reserved {
			if reached, err := reachesStore(t, field, name); reached {
				t.Errorf("%s %q was accepted", field, name)
			} else if bad := invalid(t, err, field); !strings.Contains(bad.Reason, "reserved") {
				t.Errorf("%s %q: reason %q does not say that it is reserved", field, name, bad.Reason)
			}
		}
	}
	for _, name := range []string{"TTL", "windows", "pk"} { // names are case-sensitive and matched whole
		if ok, err := reachesStore(t, "name", name); !ok {
			t.Errorf("limit %q: %v", name, err)
		}
	}
}

// TestReasonsNameTheRule checks that a reason names the first rule that the value
// breaks.
func TestReasonsNameTheRule(t *testing.T) {
	long := map[string]int{
		"entity_id": 256, "parent_id": 256, "principal": 256, "namespace": 256, "resource": 64, "name": 64,
	}
	for field, most := range long {
		first := "letter"
		if most == 256 {
			first = "alphanumeric"
		}
		for name, want := range map[string][]string{
			strings.Repeat("x", most+1):       {"length", map[int]string{256: "256", 64: "64"}[most]},
			strings.Repeat("#", most+1):       {"length"},
			strings.Repeat("é", most):         {first}, // characters are counted, not bytes
			"a#b":                             {"#"},
			"-#":                              {"#"},
			"-a":                              {first},
			"a" + strings.Repeat(" ", most-1): {first},
		} {
			_, err := reachesStore(t, field, name)
			bad := invalid(t, err, field)
			for _, part := range want {
				if !strings.Contains(bad.Reason, part) {
					t.Errorf("%s %.20q: reason %q lacks %q", field, name, bad.Reason, part)
				}
			}
			if n := utf8.RuneCountInString(bad.Value); n > 53 || n == 53 && !strings.HasSuffix(bad.Value, "...") {
				t.Errorf("%s: %d characters of the value are shown: %q", field, n, bad.Value)
			}
			if !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), bad.Reason) {
				t.Errorf("%q does not name %s and its reason", err, field)
			}
		}
	}
	for _, field := range []string{"entity_id", "namespace", "resource", "name"} {
		_, err := reachesStore(t, field, "")
		if bad := invalid(t, err, field); !strings.Contains(bad.Reason, "empty") {
			t.Errorf("%s: reason %q lacks \"empty\"", field, bad.Reason)
		}
	}
}

func TestValuesAreShownUpTo50Characters(t *testing.T) {
	for n, want := range map[int]string{50: strings.Repeat("é", 50), 51: strings.Repeat("é", 50) + "..."} {
		_, err := reachesStore(t, "entity_id", strings.Repeat("é", n))
		if got := invalid(t, err, "entity_id").Value; got != want {
			t.Errorf("%d characters are shown as %q", n, got)
		}
	}
}

// agree checks that Validate and the call that takes the value return the same
// error for field, or none if field is "".
func agree(t *testing.T, field string, validate, call func() error) {
	t.Helper()
	reached, err := passes(call)
	if field == "" {
		if said := validate(); said != nil || !reached {
			t.Errorf("Validate says %v, the call %v", said, err)
		}
		return
	}
	if said, want := invalid(t, validate(), field), invalid(t, err, field); said != want {
		t.Errorf("Validate says %+v, the call %+v", said, want)
	}
}

func TestRequestIsValidatedAsByAcquire(t *testing.T) {
	lim := newLimiter(t, untouched{}, nil)
	good := limiter.PerMinute("rpm", 1)
	full := limiter.Request{
		Entity: alice, Resource: resource, Consume: rpm(0), Limits: []limiter.Limit{good},
		OnUnavailable: limiter.Allow,
	}
	with := func(change func(*limiter.Request)) limiter.Request { r := full; change(&r); return r }
	for _, c := range []struct {
		field string
		limiter.Request
	}{
		{"", request(alice, rpm(1))},
		{"", full},
		{"entity_id", limiter.Request{}},
		{"entity_id", with(func(r *limiter.Request) { r.Entity = "#" })},
		{"resource", with(func(r *limiter.Request) { r.Resource = "" })},
		{"consume", with(func(r *limiter.Request) { r.Consume = limiter.Amounts{} })},
		{"consume", with(func(r *limiter.Request) { r.Consume = rpm(-1) })},
		{"limits", with(func(r *limiter.Request) { r.Limits = []limiter.Limit{} })},
		{"limits", with(func(r *limiter.Request) { r.Limits = []limiter.Limit{good, good} })},
		{"on_unavailable", with(func(r *limiter.Request) { r.OnUnavailable = "open" })},
	} {
		agree(t, c.field, c.Validate, func() error { _, err := lim.Acquire(bg, c.Request); return err })
	}
}

func TestEntityIsValidatedAsByCreateEntity(t *testing.T) {
	lim := newLimiter(t, untouched{}, nil)
	for _, c := range []struct {
		field string
		limiter.Entity
	}{
		{"", limiter.Entity{ID: alice}},
		{"", limiter.Entity{
			ID: alice, Name: "Al", Parent: project, Cascade: true, Metadata: map[string]string{"k": "v"},
		}},
		{"entity_id", limiter.Entity{}},
		{"parent_id", limiter.Entity{ID: alice, Parent: "#"}},
		{"parent_id", limiter.Entity{ID: alice, Parent: alice}},
		{"cascade", limiter.Entity{ID: alice, Cascade: true}},
		{"name", limiter.Entity{ID: alice, Name: "\xff"}},
		{"metadata", limiter.Entity{ID: alice, Metadata: map[string]string{"k": "\xff"}}},
	} {
		agree(t, c.field, c.Validate, func() error { _, err := lim.CreateEntity(bg, c.Entity); return err })
	}
}

func TestUsageQueryIsValidatedAsByUsage(t *testing.T) {
	lim := newLimiter(t, untouched{}, nil)
	for _, c := range []struct {
		field string
		limiter.UsageQuery
	}{
		{"", limiter.UsageQuery{Entity: alice}},
		{"", limiter.UsageQuery{Resource: resource, Window: limiter.Daily}},
		{"", limiter.UsageQuery{Window: limiter.Daily}},
		{"entity_id", limiter.UsageQuery{Entity: "#"}},
		{"resource", limiter.UsageQuery{Entity: alice, Resource: "#"}},
		{"window", limiter.UsageQuery{Entity: alice, Window: "weekly"}},
	} {
		agree(t, c.field, c.Validate, func() error { return last(lim.Usage(bg, c.UsageQuery)) })
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for field, o := range map[string]limiter.Options{
		"on_unavailable": {OnUnavailable: "ALLOW"},
		"principal":      {Principal: "not ok"},
		"timeout":        {Timeout: -1},
		"settle_timeout": {SettleTimeout: -1},
	} {
		_, err := limiter.New(untouched{}, &o)
		invalid(t, err, field)
	}
	_, err := limiter.New(nil, nil)
	invalid(t, err, "repository")
	for range 50 { // the choice between two errors must be deterministic
		_, err := limiter.New(untouched{}, &limiter.Options{Timeout: -1, SettleTimeout: -1})
		invalid(t, err, "timeout")
	}
}

// TestLongValuesAreNotEchoed checks that errors truncate long names and long
// values from a store.
func TestLongValuesAreNotEchoed(t *testing.T) {
	w := start(t)
	long := strings.Repeat("x", 100_000)
	_, space := w.Namespace(bg, long)
	_, recovered := w.RecoverNamespace(bg, long)
	for what, err := range map[string]error{
		"namespace": space, "delete": w.DeleteNamespace(bg, long), "recover": recovered,
		"purge": w.PurgeNamespace(bg, long),
		"arn": func() error {
			_, err := limiter.New(w.store, &limiter.Options{Principal: "arn:" + long})
			return err
		}(),
		"a store": &limiter.InvalidError{Field: "path", Value: long, Reason: "is a folder"},
	} {
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %.200v", what, err)
		}
	}
}
