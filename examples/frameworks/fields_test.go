package frameworks

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// parse reads a field with an independent parser.
func parse(t *testing.T, h http.Header, field string) (names []string, params []map[string]any) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		t.Fatalf("%s %q: %v", field, h.Values(field), err)
	}
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			t.Fatalf("%s: %T, want an item", field, member)
		}
		name, ok := item.Value.(string)
		if !ok {
			t.Fatalf("%s: name %T, want a string", field, item.Value)
		}
		all := map[string]any{}
		for _, key := range item.Params.Names() {
			all[key], _ = item.Params.Get(key)
		}
		names, params = append(names, name), append(params, all)
	}
	return names, params
}

// TestFieldsAreWellFormed parses what Set writes for limits of every size.
func TestFieldsAreWellFormed(t *testing.T) {
	for _, l := range []limiter.Limit{
		limiter.PerSecond("rps", 1), limiter.PerMinute("rpm", 60),
		limiter.PerDay("Tokens_per.day-x", math.MaxInt64/1000),
		limiter.Custom("slow", math.MaxInt64/1000, 1, 9223372036*time.Second),
		limiter.Custom("burst", 5, 100, time.Second),
	} {
		for _, available := range []int64{math.MinInt64, -1, 0, 1, l.Capacity} {
			full := time.Duration(math.MaxInt64)
			if available == l.Capacity {
				full = 0
			}
			h := http.Header{}
			f := httplimit.Fields{Units: map[string]string{"rpm": `re"que\sts`}}
			f.Set(h, limiter.Decision{Statuses: []limiter.Status{
				{Entity: "key-1", Limit: l, Available: available, FullAfter: full},
				{Entity: "key-1", Limit: limiter.PerHour("zz", 10), Available: 10},
				{Entity: "parent", Limit: limiter.PerHour("rph", 10)},
			}})
			names, policies := parse(t, h, "RateLimit-Policy")
			stateNames, states := parse(t, h, "RateLimit")
			if len(names) != 2 || names[0] != l.Name || names[1] != "zz" || len(stateNames) != 2 ||
				stateNames[0] != l.Name {
				t.Fatalf("members %q and %q, want the limits of the entity", names, stateNames)
			}
			checkMember(t, l, available, policies[0], states[0])
		}
	}
}

// checkMember checks the parameters of one limit.
func checkMember(t *testing.T, l limiter.Limit, available int64, policy, state map[string]any) {
	t.Helper()
	const most = 999_999_999_999_999
	if q := policy["q"]; q != min(l.Capacity, most) {
		t.Errorf("%v: q = %v", l, q)
	}
	if w, ok := policy["w"].(int64); !ok || w < 1 {
		t.Errorf("%v: w = %v", l, policy["w"])
	}
	if unit := policy["qu"]; (l.Name == "rpm") != (unit == `re"que\sts`) || l.Name != "rpm" && unit != nil {
		t.Errorf("%v: qu = %v", l, unit)
	}
	if r := state["r"]; r != min(max(available, 0), most) {
		t.Errorf("%v with %d: r = %v", l, available, r)
	}
	if wait, ok := state["t"].(int64); ok == (available == l.Capacity) || ok && wait < 1 {
		t.Errorf("%v with %d: t = %v", l, available, state["t"])
	}
}
