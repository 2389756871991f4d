package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/internal/openapi"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

type call struct {
	*web.Call
	by string
}

type greetBody struct {
	Name string `json:"name"`
}

type greeting struct {
	Text string `json:"text"`
}

func greet(c *call, body greetBody) (greeting, error) {
	return greeting{"Hello " + body.Name + ", says " + c.by}, nil
}

func list(c *call) ([]greeting, error) {
	if c.Query.Get("after") == "panic" {
		panic("no greetings")
	}
	return []greeting{{"after " + c.Query.Get("after")}}, nil
}

var rules = &web.Rules{}

// serve returns the handler of a route.
func serve(rt web.Route[*call]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				fmt.Println(strings.SplitN(web.Panicked(rt.Path, p).Error(), "\n", 2)[0])
				web.Fail(w, fmt.Errorf("a panic"))
			}
		}()

		c := &call{&web.Call{Request: r, Header: w.Header()}, "Bob"}
		err := rt.CheckQuery(c)
		if err == nil && rt.Request != nil {
			c.Body, err = rules.ReadBody(w, r, 1<<10)
		}
		var answer any
		if err == nil {
			answer, err = rt.Run(c)
		}
		if err == nil {
			err = web.WriteJSON(w, http.StatusOK, answer)
		}
		if err != nil {
			web.Fail(w, err)
		}
	}
}

func routes() []web.Route[*call] {
	return []web.Route[*call]{
		web.Post(rules, "/greet", "Greet a person", greet),
		web.Get(rules, "/greetings", "List greetings", []web.Parameter{{Name: "after", Doc: "position"}}, list),
	}
}

// Each route is declared once, with its body, its parameters and its answer.
func Example() {
	handlers := web.Handlers{}
	for _, rt := range routes() {
		handlers.Add(rt.Method, rt.Path, serve(rt))
	}
	mux := http.NewServeMux()
	for path, methods := range handlers {
		mux.Handle(path, rules.ByMethod(methods, web.Fail))
	}

	for _, q := range [][3]string{
		{"POST", "/greet", `{"name":"Ann"}`},
		{"POST", "/greet", `{"nam":"Ann"}`},
		{"POST", "/greet?x=1", `{"name":"Ann"}`},
		{"GET", "/greetings?after=a", ""},
		{"HEAD", "/greetings", ""},
		{"GET", "/greetings?after=panic", ""},
		{"PUT", "/greetings", ""},
	} {
		r := httptest.NewRequestWithContext(context.Background(), q[0], q[1], strings.NewReader(q[2]))
		r.Header.Set("Content-Type", web.TypeJSON)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		text := strings.TrimSpace(w.Body.String())
		if _, detail, ok := strings.Cut(text, `"detail":`); ok {
			text = detail
		}
		fmt.Println(w.Code, w.Header().Get("Allow"), text)
	}
	// Output:
	// 200  {"text":"Hello Ann, says Bob"}
	// 400  "body: unknown field \"nam\"; the fields are name"}
	// 400  "parameter \"x\": is unknown; the call has no parameters"}
	// 200  [{"text":"after a"}]
	// 200  [{"text":"after "}]
	// /greetings panicked: no greetings
	// 500  "the rate limits cannot be checked"}
	// 405 GET {"type":"about:blank","title":"Method Not Allowed","status":405}
}

// A program without HEAD answers it as any other method that it does not have, and in
// words of its own.
func TestByMethod(t *testing.T) {
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	methods := map[string]http.HandlerFunc{http.MethodPost: ok, http.MethodGet: ok}
	var failed error
	fail := func(w http.ResponseWriter, err error) {
		failed = err
		web.Fail(w, err)
	}
	for _, tt := range []struct {
		noHead bool
		method string
		want   int
	}{
		{false, "GET", 204},
		{false, "POST", 204},
		{false, "HEAD", 204},
		{false, "PUT", 405},
		{true, "HEAD", 405},
		{true, "GET", 204},
	} {
		rules := &web.Rules{NoHead: tt.noHead, Refuse: func(f *web.Fault) error {
			return fmt.Errorf("kind %d, %s: %w", f.Kind, f.Want, f)
		}}
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), tt.method, "/", nil)
		failed = nil
		rules.ByMethod(methods, fail)(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.method, w.Code, tt.want)
		}
		if allow := w.Header().Get("Allow"); tt.want == 405 &&
			(allow != "GET, POST" || !strings.HasPrefix(failed.Error(), "kind 0, GET, POST: 405")) {
			t.Errorf("%s: Allow is %q, and the error %v", tt.method, allow, failed)
		}
	}
}

func TestOperation(t *testing.T) {
	rt := web.Post(rules, "/people/{id}/greet", "Greet a person", greet)
	rt.Parameters = []web.Parameter{
		{Name: "order", Doc: "order", Words: []string{"name", "size"}, Required: true},
		{Name: "limit", Doc: "rows", Type: "integer", Default: "5"},
		{Name: "after", Doc: "position", Schema: "After"},
	}
	schemas := &openapi.Schemas{Named: openapi.Object{"After": openapi.Object{"type": "string", "minLength": 1}}}
	paths := openapi.Object{}
	rt.AddTo(paths, rt.Operation(schemas, openapi.Object{"description": "ID"}))
	want := openapi.Object{"/people/{id}/greet": openapi.Object{"post": openapi.Object{
		"summary": "Greet a person",
		"parameters": []any{
			openapi.Object{"name": "id", "in": "path", "required": true, "description": "ID"},
			openapi.Object{
				"name": "order", "in": "query", "required": true, "description": "order",
				"schema": openapi.Object{"type": "string", "enum": []string{"name", "size"}},
			},
			openapi.Object{
				"name": "limit", "in": "query", "required": false, "description": "rows",
				"schema": openapi.Object{"type": "integer", "default": 5},
			},
			openapi.Object{
				"name": "after", "in": "query", "required": false, "description": "position",
				"schema": openapi.Object{"$ref": "#/components/schemas/After"},
			},
		},
		"requestBody": openapi.Object{"required": true, "content": openapi.Object{
			"application/json": openapi.Object{"schema": openapi.Object{"$ref": "#/components/schemas/GreetRequest"}},
		}},
	}}}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
