package server

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// contract is the OpenAPI document of a server.
type contract struct {
	t        *testing.T
	doc      map[string]any
	compiler *jsonschema.Compiler
}

func newContract(t *testing.T, r *rig) *contract {
	t.Helper()
	w := r.send(request{method: "GET", path: "/openapi.json"})
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("http://localhost/openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	object, _ := doc.(map[string]any)
	return &contract{t, object, compiler}
}

// operations returns the operations of the document, such as "post /v1/acquire".
func (c *contract) operations() []string {
	var all []string
	paths, _ := c.doc["paths"].(map[string]any)
	for path, item := range paths {
		methods, _ := item.(map[string]any)
		for method := range methods {
			all = append(all, method+" "+path)
		}
	}
	slices.Sort(all)
	return all
}

// check validates a JSON text against a schema of an operation, at a pointer such
// as "responses/200/content/application~1json/schema".
func (c *contract) check(method, path, pointer string, text []byte) {
	c.t.Helper()
	at := "http://localhost/openapi.json#/paths/" + url.PathEscape(
		strings.NewReplacer("~", "~0", "/", "~1").Replace(path),
	) + "/" + method + "/" + pointer
	schema, err := c.compiler.Compile(at)
	if err != nil {
		c.t.Fatalf("%s: %v", at, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		c.t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
	if err := schema.Validate(value); err != nil {
		c.t.Errorf("%s %s: %v in %s", method, path, err, text)
	}
}

// Every route is called, and what it takes and answers fits the document.
func TestOpenAPIDescribesTheHandlers(t *testing.T) {
	r := newMemoryRig(t, Options{})
	seed(t, r)
	c := newContract(t, r)
	called := []string{"get /openapi.json", "get /healthz", "get /readyz"}
	call := func(template, path, body string, status int) {
		t.Helper()
		q := request{path: path, body: body}
		method := "post"
		if body == "" {
			q.method, method = "GET", "get"
		}
		called = append(called, method+" "+template)
		w := r.send(q)
		if w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
			return
		}
		answer := "responses/200/content/application~1json/schema"
		if status != 200 {
			answer = "responses/default/content/application~1problem+json/schema"
		}
		c.check(method, template, answer, w.Body.Bytes())
		if body != "" && status == 200 {
			c.check(method, template, "requestBody/content/application~1json/schema", []byte(body))
		}
	}
	call("/v1/acquire", "/v1/acquire", acquireJSON("key", `{"rpm":99}`), 429)
	call("/v1/acquire", "/v1/acquire", `{"entity_id":"key"}`, 400)
	call("/v1/acquire", "/v1/acquire",
		`{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"on_unavailable":"block","commit":true,"limits":[{"name":"rpm","capacity":9,"refill_amount":9,"refill_period_seconds":60}]}`,
		200)
	for verb, body := range map[string]string{
		"consume": `{"consume":{"tpm":1}}`, "adjust": `{"adjust":{"tpm":1}}`, "commit": `{"used":{"tpm":3}}`,
		"rollback": `{}`,
	} {
		call("/v1/leases/{id}/"+verb, "/v1/leases/"+r.acquire("", "child", `{"tpm":1}`)+"/"+verb, body, 200)
		call("/v1/leases/{id}/"+verb, "/v1/leases/none/"+verb, body, 410)
	}
	call("/v1/explain", "/v1/explain", acquireJSON("child", `{"rpm":99}`), 200)
	call("/v1/acquire", "/v1/acquire",
		`{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"limits":[{"name":"rpm","capacity":9,"refill_amount":0,"refill_period_seconds":0,"window":"day","zone":"Europe/Berlin","shadow":true}]}`,
		200)
	call("/v1/entities/{id}/reset", "/v1/entities/child/reset", `{"resource":"gpt-4","limits":["tpm"]}`, 200)
	call("/v1/entities/{id}/reset", "/v1/entities/child/reset", `{"resource":"gpt-4","limits":["x"]}`, 404)
	call("/v1/entities/{id}/top-up", "/v1/entities/child/top-up",
		`{"resource":"gpt-4","amounts":{"tpm":1},"id":"invoice-1"}`, 200)
	call("/v1/enable", "/v1/enable", `{"entity_id":"parent"}`, 404)
	call("/v1/disable", "/v1/disable", `{"entity_id":"parent","reason":"unpaid"}`, 200)
	call("/v1/disable", "/v1/disable", `{"all":true}`, 200)
	call("/v1/explain", "/v1/explain", acquireJSON("child", `{"rpm":1}`), 200)
	call("/v1/acquire", "/v1/acquire", acquireJSON("child", `{"rpm":1}`), 403)
	for template, path := range map[string]string{
		"/v1/entities": "", "/v1/entities/{id}": "/v1/entities/child",
		"/v1/entities/{id}/children": "/v1/entities/parent/children?limit=1",
		"/v1/entities/{id}/limits":   "/v1/entities/child/limits?resource=gpt-5",
		"/v1/entities/{id}/buckets":  "/v1/entities/child/buckets",
		"/v1/entities/{id}/status":   "/v1/entities/child/status",
		"/v1/limited-entities":       "/v1/limited-entities?resource=gpt-5", "/v1/limited-resources": "",
		"/v1/resources": "", "/v1/resources/{id}/limits": "/v1/resources/gpt-4/limits",
		"/v1/resources/{id}/capacity": "/v1/resources/gpt-4/capacity?limit_name=tpm",
		"/v1/system/limits":           "", "/v1/switches": "", "/v1/namespaces": "",
		"/v1/usage": "/v1/usage?window=hourly", "/v1/usage/summary": "", "/v1/audit": "/v1/audit?entity_id=child",
	} {
		if path == "" {
			path = template
		}
		call(template, path, "", 200)
	}
	call("/v1/enable", "/v1/enable", `{"all":true}`, 200)
	slices.Sort(called)
	if diff := cmp.Diff(c.operations(), slices.Compact(called)); diff != "" {
		t.Errorf("operations of the document and of the test (-document +test):\n%s", diff)
	}
}

// seed stores something for every read.
func seed(t *testing.T, r *rig) {
	t.Helper()
	ctx := context.Background()
	for _, e := range []limiter.Entity{
		{ID: "parent"},
		{ID: "child", Parent: "parent", Cascade: true, Metadata: map[string]string{"team": "a"}},
		{ID: "second", Parent: "parent"},
	} {
		if _, err := r.lim.CreateEntity(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.lim.SetLimits(ctx, "child", "gpt-5", limiter.PerMinute("rpm", 5)); err != nil {
		t.Fatal(err)
	}
	if err := r.lim.SetSystem(ctx, limiter.Block, limiter.PerMinute("rpm", 7)); err != nil {
		t.Fatal(err)
	}
}

// The mux has exactly the routes of the document.
func TestOpenAPIListsTheRoutes(t *testing.T) {
	r := newMemoryRig(t, Options{})
	want := []string{"get /openapi.json", "get /healthz", "get /readyz"}
	for _, rt := range r.routes {
		want = append(want, strings.ToLower(rt.Method)+" "+rt.Path)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, newContract(t, r).operations()); diff != "" {
		t.Errorf("(-routes +document):\n%s", diff)
	}
	for _, op := range want {
		method, path, _ := strings.Cut(op, " ")
		q := request{method: strings.ToUpper(method), path: strings.ReplaceAll(path, "{id}", "x"), body: "{}"}
		_, pattern := r.mux.Handler(q.http(t))
		if w := r.send(q); pattern != path || w.Code == http.StatusMethodNotAllowed {
			t.Errorf("%s is served by %q: %d", op, pattern, w.Code)
		}
	}
}

// Every parameter of the document is accepted, and no other.
func TestOpenAPIListsTheParameters(t *testing.T) {
	r := newMemoryRig(t, Options{})
	seed(t, r)
	values := map[string]string{
		"after": "a", "limit": "1", "resource": "gpt-4", "limit_name": "rpm", "parents_only": "true",
		"entity_id": "child", "window": "daily",
		"start": "24h", "end": "2026-01-01", "start_event_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
	}
	for _, rt := range r.routes {
		if rt.Method != http.MethodGet {
			continue
		}
		required := url.Values{}
		for _, p := range rt.Parameters {
			if p.Required {
				required.Set(p.Name, values[p.Name])
			}
		}
		path := strings.ReplaceAll(rt.Path, "{id}", "child")
		for _, p := range append(slices.Clone(rt.Parameters), web.Parameter{Name: "unknown"}) {
			query := maps.Clone(required)
			query.Set(p.Name, values[p.Name])
			switch {
			case p.Name == "unknown":
				query.Set(p.Name, "x")
			case p.Name == "after" && rt.Path == "/v1/usage":
				query.Set(p.Name, "2026-01-31T15:00:00Z,gpt-4,child,hourly")
			case p.Name == "end":
				query.Del("start")
			}
			w := r.send(request{method: "GET", path: path + "?" + query.Encode()})
			if (w.Code == 200) != (p.Name != "unknown") {
				t.Errorf("%s with %s: %d %s", path, query.Encode(), w.Code, w.Body)
			}
		}
	}
}

// Pages that follow the links have every row once.
func TestPages(t *testing.T) {
	r := newMemoryRig(t, Options{})
	seed(t, r)
	for path, want := range map[string]int{"/v1/entities": 3, "/v1/audit": 6, "/v1/namespaces": 1, "/v1/usage": 9} {
		for i := range 3 {
			r.want(200, request{path: "/v1/acquire", body: acquireJSON([]string{"a", "b", "c"}[i], `{"rpm":1}`)})
		}
		seen := map[string]bool{}
		next := path + "?limit=1"
		for range 20 {
			w := r.send(request{method: "GET", path: next})
			var rows []json.RawMessage
			if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || len(rows) > 1 {
				t.Fatalf("%s: %s", next, w.Body)
			}
			for _, row := range rows {
				if seen[string(row)] {
					t.Errorf("%s: %s again", next, row)
				}
				seen[string(row)] = true
			}
			link := w.Header().Get("Link")
			if link == "" {
				break
			}
			next = strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		}
		if len(seen) != want {
			t.Errorf("%s: %d rows, want %d", path, len(seen), want)
		}
	}
}
