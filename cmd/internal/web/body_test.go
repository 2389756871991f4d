package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// inner is a part of a body that other bodies have too.
type inner struct {
	Used map[string]int64 `json:"used,omitempty"`
}

// body has a field of each kind that bodies have.
type body struct {
	inner
	Entity string           `json:"entity"`
	Limits []limiter.Limit  `json:"limits,omitempty"`
	Stored []jsonview.Limit `json:"stored,omitempty"`
	Count  *int             `json:"count,omitempty"`
	Commit bool             `json:"commit,omitempty"`
}

const fieldNames = "used, entity, limits, stored, count, commit"

// A body with a fault is refused in one sentence, and by its kind.
func TestDecodeRefuses(t *testing.T) {
	const limit = `{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1`
	notOne := "must be one JSON object"
	var many strings.Builder
	for i := range MaxFields + 1 {
		fmt.Fprintf(&many, `"a%d":1,`, i)
	}
	for _, tt := range []struct {
		text string
		kind Kind
		want string
	}{
		{``, NotObject, notOne},
		{` `, NotObject, notOne},
		{`null`, NotObject, notOne},
		{`[{}]`, NotObject, notOne},
		{`{`, NotObject, notOne},
		{`{"entity":}`, NotObject, notOne},
		{`{"entity":"` + "\n" + `"}`, NotObject, notOne},
		{`{"used":` + strings.Repeat("[", 30000) + strings.Repeat("]", 30000) + `}`, NotObject, notOne},
		{`{} {}`, Trailing, notOne},
		{`{} x`, Trailing, notOne},
		{`{"entity":1}`, WrongType, "field entity: must be a string, not a JSON number"},
		{`{"commit":"no"}`, WrongType, "field commit: must be true or false, not a JSON string"},
		{`{"used":{"a":"1"}}`, WrongType, "field used: must be a whole number, not a JSON string"},
		{`{"used":[]}`, WrongType, "field used: must be an object, not a JSON array"},
		{`{"count":1.5}`, WrongType, "field count: must be a whole number, not a JSON number 1.5"},
		{`{"stored":{}}`, WrongType, "field stored: must be an array, not a JSON object"},
		{`{"stored":[{"capacity":"1"}]}`, WrongType, "field capacity: must be a whole number, not a JSON string"},
		{`{"used":{"a":9223372036854775808}}`, WrongType, "not a JSON number 9223372036854775808"},
		{`{"limits":[{"name":"rpm"}]}`, WrongValue, "invalid refill_period_seconds"},
		{`{"x":1}`, UnknownField, `unknown field "x"; the fields are ` + fieldNames},
		{`{"ä":1}`, UnknownField, `unknown field "ä"; the fields are`},
		{`{"` + strings.Repeat("x", 60) + `":1}`, UnknownField, strings.Repeat("x", 50) + `..."; the`},
		{`{"limits":[` + limit + `,"x":1}]}`, UnknownField, `unknown field "x"; the fields are name, capacity`},
		{`{"stored":[{"dollars":{"x":1}}]}`, UnknownField, `unknown field "x"; the fields are capacity`},
		{`{"entity":"a","entity":"b"}`, RepeatedField, `field "entity" occurs twice`},
		{`{"used":{"rpm":1,"\u0072pm":2}}`, RepeatedField, `field "rpm" occurs twice`},
		{"{\"used\":{\"\xff\":1,\"\xfe\":2}}", RepeatedField, "occurs twice"},
		{`{"Entity":"a"}`, Unusual, `unknown field "Entity"; the fields are`},
		{`{"stored":[{"NAME":"a"}]}`, Unusual, `unknown field "NAME"`},
		{`{"entity":null}`, Unusual, "null is not a value; leave the field out"},
		{`{"used":{"a":null}}`, Unusual, "null is not a value"},
		{`{"used":{` + strings.TrimSuffix(many.String(), ",") + `}}`, Unusual, "more than 100 fields"},
	} {
		_, err := Decode[body](&Rules{}, []byte(tt.text))
		f, ok := errors.AsType[*Fault](err)
		p, _ := errors.AsType[*httplimit.Problem](err)
		if !ok || f.Kind != tt.kind || p.Status != 400 || !strings.HasPrefix(p.Detail, "body: ") ||
			!strings.Contains(p.Detail, tt.want) || strings.Contains(p.Detail, "web.") {
			t.Errorf("%.60s: %v, want kind %d: %s", tt.text, err, tt.kind, tt.want)
		}
	}
}

// A name that does not exist is 404, and a body without fields has a text of its own.
func TestDecodeChoosesTheStatus(t *testing.T) {
	_, err := Decode[body](&Rules{}, []byte(`{"limits":[{"name":"q","capacity":1,"window":"day","zone":"No/Where"}]}`))
	if p, _ := errors.AsType[*httplimit.Problem](err); p == nil || p.Status != 404 {
		t.Errorf("a zone that does not exist: %v", err)
	}
	_, err = Decode[struct{}](&Rules{}, []byte(`{"x":1}`))
	if err == nil || !strings.Contains(err.Error(), `unknown field "x"; the object has no fields`) {
		t.Errorf("a body without fields: %v", err)
	}
}

// What a program lets pass reaches it, and what leaves nothing to go on with does not.
func TestRefuseLetsPass(t *testing.T) {
	lenient := &Rules{Refuse: func(*Fault) error { return nil }}
	const text = `{"ENTITY":"a","x":[[[[[[[[[[1]]]]]]]]]],"used":null,"count":1,"count":2}`
	got, err := Decode[body](lenient, []byte(text))
	two := 2
	if diff := cmp.Diff(body{Entity: "a", Count: &two}, got, cmp.AllowUnexported(body{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{``, `[]`, `{`, `{} {}`, `{"entity":1}`, `{"limits":[{"name":"rpm"}]}`} {
		if _, err := Decode[body](lenient, []byte(text)); err == nil {
			t.Errorf("%s passes", text)
		}
	}

	reword := &Rules{Refuse: func(f *Fault) error { return fmt.Errorf("%s is %s, not %s", f.Name, f.Got, f.Want) }}
	if _, err := Decode[body](reword, []byte(`{"stored":[{"name":1}]}`)); err == nil ||
		err.Error() != "stored.name is number, not a string" {
		t.Errorf("in other words: %v", err)
	}
}

func TestWholeNumbers(t *testing.T) {
	const text = `{"used":{"a":2.0,"b":1e3}}`
	got, err := Decode[body](&Rules{WholeNumbers: true}, []byte(text))
	if diff := cmp.Diff(map[string]int64{"a": 2, "b": 1000}, got.Used); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := Decode[body](&Rules{}, []byte(text)); err == nil {
		t.Error("2.0 passes")
	}
}

// A body that is accepted means the same when it is written again.
func FuzzDecode(f *testing.F) {
	f.Add(`{"entity":"key","used":{"rpm":1}}`)
	f.Add(`{"entity":"k","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1}]}`)
	f.Add(`{"stored":[{"name":"spend","dollars":{"capacity":1.5,"refill_amount":2}}],"count":2.0,"commit":true}`)
	rules := &Rules{WholeNumbers: true}
	f.Fuzz(func(t *testing.T, text string) {
		// The other texts go through the walk over the keys too, which must not panic.
		_, _ = Decode[body](&Rules{Refuse: func(*Fault) error { return nil }}, []byte(text))

		first, err := Decode[body](rules, []byte(text))
		if err != nil {
			return
		}
		for i := range first.Stored {
			first.Stored[i].Dollars = nil // an empty json.Number is written as 0
		}
		written, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode[body](rules, written)
		if err != nil {
			t.Fatalf("%s, from %q: %v", written, text, err)
		}
		if diff := cmp.Diff(first, again, cmpopts.EquateEmpty(), cmp.AllowUnexported(body{})); diff != "" {
			t.Errorf("%q (-first +again):\n%s", text, diff)
		}
	})
}

// A body that is not plain JSON, too long or cut off is refused, whether its length
// is known or not.
func TestReadBody(t *testing.T) {
	for name, tt := range map[string]struct {
		header map[string]string
		body   io.Reader
		length int64
		want   int // 0 if it is read
	}{
		"good":           {nil, strings.NewReader("{}"), 2, 0},
		"unknown length": {nil, strings.NewReader("{}"), -1, 0},
		"charset": {
			map[string]string{"Content-Type": "application/json; charset=utf-8"}, strings.NewReader("{}"), 2, 0,
		},
		"form":             {map[string]string{"Content-Type": "text/plain"}, strings.NewReader("{}"), 2, 415},
		"no type":          {map[string]string{"Content-Type": ""}, strings.NewReader("{}"), 2, 415},
		"broken type":      {map[string]string{"Content-Type": "application/json; ="}, strings.NewReader("{}"), 2, 415},
		"compressed":       {map[string]string{"Content-Encoding": "gzip"}, strings.NewReader("{}"), 2, 415},
		"announced length": {nil, iotest.ErrReader(errors.New("the body is read")), 9, 413},
		"too long":         {nil, strings.NewReader(strings.Repeat(" ", 9)), -1, 413},
		"cut off":          {nil, strings.NewReader("{"), 2, 400},
		"broken":           {nil, iotest.ErrReader(errors.New("late")), -1, 400},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", tt.body)
		r.ContentLength = tt.length
		r.Header.Set("Content-Type", TypeJSON)
		for field, value := range tt.header {
			if r.Header.Set(field, value); value == "" {
				r.Header.Del(field)
			}
		}
		got, err := (&Rules{}).ReadBody(httptest.NewRecorder(), r, 8)
		if tt.want == 0 {
			if err != nil || string(got) != "{}" {
				t.Errorf("%s: %q %v", name, got, err)
			}
			continue
		}
		if err == nil || httplimit.NewProblem(err).Status != tt.want {
			t.Errorf("%s: %v, want %d", name, err, tt.want)
		}
	}
}
