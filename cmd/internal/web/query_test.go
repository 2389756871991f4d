package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestParseQuery(t *testing.T) {
	known := []Parameter{
		{Name: "id", Doc: "ID of the entity", Required: true},
		{Name: "order", Words: []string{"name", "size"}},
		{Name: "limit"},
	}
	rules := &Rules{MaxParameter: 10}
	for query, want := range map[string]string{
		"id=a":                    "",
		"id=a&order=size":         "",
		"id=a&order=":             "parameter order: must have one value",
		"id=a&order=x":            "parameter order: must be name or size",
		"id=a&limit=12345678901":  "parameter limit: must have at most 10 bytes",
		"id=a&id=b":               "parameter id: must have one value",
		"id=":                     "parameter id: must have one value",
		"limit=1":                 "parameter id: is missing; it is the ID of the entity",
		"id=a&limits=1":           `parameter "limits": is unknown; the parameters are id, order, limit`,
		"id=a&x%22=1":             `parameter "x\"": is unknown`,
		"id=%zz":                  "the query is not valid; escape its values",
		"id=a;b":                  "the query is not valid; escape its values",
		strings.Repeat("y", 60):   strings.Repeat("y", 50) + `..."`,
		"id=a&" + "limit=%31%30%": "the query is not valid",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil)
		values, err := rules.ParseQuery(r, known)
		switch {
		case want == "" && (err != nil || values.Get("id") != "a"):
			t.Errorf("%s: %v %v", query, values, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "400 Bad Request") ||
			!strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}

	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?x=1", nil)
	if _, err := rules.ParseQuery(r, nil); err == nil || !strings.Contains(err.Error(), "the call has no parameters") {
		t.Errorf("without parameters: %v", err)
	}
}

// What a program lets pass has the values that could be parsed.
func TestLenientQueries(t *testing.T) {
	rules := &Rules{Refuse: func(f *Fault) error {
		if f.Kind == BadQuery || f.Kind == EmptyParameter {
			return nil
		}
		return f
	}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?a=1&b=&c=%zz", nil)
	values, err := rules.ParseQuery(r, []Parameter{{Name: "a"}, {Name: "b", Words: []string{"x"}}, {Name: "c"}})
	if err != nil || values.Get("a") != "1" || values.Has("c") {
		t.Errorf("%v %v", values, err)
	}
}

func TestWhole(t *testing.T) {
	p := Parameter{Name: "limit", Default: "5"}
	for text, want := range map[string]int64{"": 5, "1": 1, "9": 9, "0": -1, "10": -1, "x": -1, "1.0": -1, "1e0": -1} {
		n, err := (&Rules{}).Whole(map[string][]string{"limit": {text}}, p, 1, 9)
		if f, bad := errors.AsType[*Fault](err); bad && (f.Want != "a whole number from 1 to 9" ||
			f.Detail != "parameter limit: must be "+f.Want) {
			t.Errorf("%q: %v", text, err)
		}
		if want < 0 && err == nil || want >= 0 && (err != nil || n != want) {
			t.Errorf("%q: %d %v", text, n, err)
		}
	}
}
