package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/zeroae/zae-limiter-go"
)

// generator makes values of the schemas of a document. It knows the keywords that
// our document uses, and fails on others, so that none is passed over.
type generator struct {
	*contract
	rand *rand.Rand
}

func (g *generator) resolve(schema map[string]any) map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		components, _ := g.doc["components"].(map[string]any)
		schemas, _ := components["schemas"].(map[string]any)
		target, ok := schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
		if !ok {
			g.t.Fatalf("the document has no %s", ref)
		}
		return target
	}
	return schema
}

func number(v any, missing int64) int64 {
	if n, ok := v.(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			return i
		}
	}
	return missing
}

// value returns a value that probably fits the schema; the caller validates it.
func (g *generator) value(of any) any {
	schema, _ := of.(map[string]any)
	schema = g.resolve(schema)
	for _, choice := range []string{"anyOf", "oneOf"} {
		if all, ok := schema[choice].([]any); ok && schema["type"] == nil {
			return g.value(all[g.rand.IntN(len(all))])
		}
	}
	if fixed, ok := schema["const"]; ok {
		return fixed
	}
	if all, ok := schema["enum"].([]any); ok {
		return all[g.rand.IntN(len(all))]
	}
	switch schema["type"] {
	case "object":
		return g.object(schema)
	case "array":
		items := []any{}
		for range g.count(number(schema["minItems"], 0), min(number(schema["maxItems"], 4), 4)) {
			items = append(items, g.value(schema["items"]))
		}
		return items
	case "string":
		return g.text(schema)
	case "boolean":
		return g.rand.IntN(2) == 0
	case "integer":
		return g.integer(number(schema["minimum"], -1000), number(schema["maximum"], 1000))
	}
	g.t.Fatalf("the test knows no schema like %v", schema)
	return nil
}

func (g *generator) count(least, most int64) int64 {
	return least + g.rand.Int64N(max(most-least, 0)+1)
}

// integer returns a bound, a number near one, or a small one, in one of the forms
// that JSON Schema takes for a whole number.
func (g *generator) integer(least, most int64) any {
	n := []int64{least, most, max(least, min(most, g.rand.Int64N(10)))}[g.rand.IntN(3)]
	if g.rand.IntN(4) == 0 && n < 1000 && n > -1000 {
		return json.Number(fmt.Sprintf("%d.0", n))
	}
	return json.Number(fmt.Sprint(n))
}

func (g *generator) object(schema map[string]any) any {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	made := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || g.rand.IntN(2) == 0 {
			made[name] = g.value(properties[name])
		}
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok {
		names := map[string]any{"enum": []any{"rpm", "tpm"}} // known limits, so that calls get beyond the names
		if g.rand.IntN(4) == 0 {
			names, _ = schema["propertyNames"].(map[string]any)
		}
		for range g.count(number(schema["minProperties"], 0), 3) {
			made[fmt.Sprint(g.value(names))] = g.value(more)
		}
	}
	return made
}

func (g *generator) text(schema map[string]any) string {
	switch schema["format"] {
	case "date":
		return time.Unix(g.rand.Int64N(4e9), 0).UTC().Format(time.DateOnly)
	case "date-time":
		return time.Unix(g.rand.Int64N(4e9), 0).UTC().Format(time.RFC3339)
	}
	pattern, ok := schema["pattern"].(string)
	if !ok {
		letters := []rune("aZ0 /?#%_é\x01世\u2028😀")
		made := make([]rune, g.count(number(schema["minLength"], 0), 12))
		for i := range made {
			made[i] = letters[g.rand.IntN(len(letters))]
		}
		return string(made)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.match(tree, int(number(schema["maxLength"], 40)))
}

// match returns a text that an expression matches.
func (g *generator) match(re *syntax.Regexp, longest int) string {
	repeat := func(least, most int) string {
		if most < 0 || most > longest {
			most = longest - 1 - g.rand.IntN(longest)
		}
		var b strings.Builder
		for range g.count(int64(least), int64(max(least, most))) {
			b.WriteString(g.match(re.Sub[0], 1))
		}
		return b.String()
	}
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		i := 2 * g.rand.IntN(len(re.Rune)/2)
		return string(re.Rune[i] + g.rand.Int32N(re.Rune[i+1]-re.Rune[i]+1))
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(g.match(sub, longest))
		}
		return b.String()
	case syntax.OpAlternate:
		return g.match(re.Sub[g.rand.IntN(len(re.Sub))], longest)
	case syntax.OpCapture:
		return g.match(re.Sub[0], longest)
	case syntax.OpStar:
		return repeat(0, -1)
	case syntax.OpPlus:
		return repeat(1, -1)
	case syntax.OpQuest:
		return repeat(0, 1)
	case syntax.OpRepeat:
		return repeat(re.Min, re.Max)
	case syntax.OpBeginText, syntax.OpEndText, syntax.OpEmptyMatch:
		return ""
	}
	g.t.Fatalf("the test knows no expression like %s", re)
	return ""
}

// valid returns a value that fits the schema at a pointer of the document.
func (g *generator) valid(at string, schema any) any {
	compiled := g.compile(at)
	for range 1000 {
		made := g.value(schema)
		if compiled.Validate(reread(g.t, made)) == nil {
			return made
		}
	}
	g.t.Fatalf("%s: no valid value found", at)
	return nil
}

func (c *contract) compile(at string) *jsonschema.Schema {
	c.t.Helper()
	compiled, err := c.compiler.Compile("http://localhost/openapi.json#" + at)
	if err != nil {
		c.t.Fatalf("%s: %v", at, err)
	}
	return compiled
}

// reread returns a value as the validator wants it.
func reread(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	again, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// generated is a request that was made for an operation.
type generated struct {
	request
	body any
	at   string // of the schema of the body
}

// request returns a valid request of an operation.
func (g *generator) request(method, path string) generated {
	paths, _ := g.doc["paths"].(map[string]any)
	item, _ := paths[path].(map[string]any)
	op, _ := item[method].(map[string]any)
	pointer := "/paths/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(path)) + "/" + method
	made := generated{request: request{method: strings.ToUpper(method), path: path, header: map[string]string{}}}

	query := url.Values{}
	parameters, _ := op["parameters"].([]any)
	for i, p := range parameters {
		parameter, _ := p.(map[string]any)
		name, _ := parameter["name"].(string)
		if parameter["required"] != true && g.rand.IntN(2) == 0 {
			continue
		}
		text := fmt.Sprint(g.valid(fmt.Sprintf("%s/parameters/%d/schema", pointer, i), parameter["schema"]))
		switch parameter["in"] {
		case "path":
			made.path = strings.ReplaceAll(made.path, "{"+name+"}", url.PathEscape(text))
		case "query":
			query.Set(name, strings.TrimSuffix(text, ".0"))
		case "header":
			made.header[name] = text[:min(len(text), 100)] + fmt.Sprint(g.rand.Uint64()) // a key of its own
		}
	}
	if len(query) > 0 {
		made.path += "?" + query.Encode()
	}

	if body, ok := op["requestBody"].(map[string]any); ok {
		content, _ := body["content"].(map[string]any)
		media, _ := content["application/json"].(map[string]any)
		made.at = pointer + "/requestBody/content/application~1json/schema"
		made.body = g.valid(made.at, media["schema"])
		text, err := json.Marshal(made.body)
		if err != nil {
			g.t.Fatal(err)
		}
		made.request.body = string(text)
	}
	return made
}

// A request that keeps to the document is never answered 400: the document has all
// bounds, patterns and rules of the handlers.
func TestOpenAPIRequestsAreTaken(t *testing.T) {
	r := newMemoryRig(t, Options{MaxLeases: 1_000_000})
	seed(t, r)
	if err := r.lim.SetSystem(
		context.Background(), limiter.Block, limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 1000),
	); err != nil {
		t.Fatal(err)
	}
	g := &generator{newContract(t, r), rand.New(rand.NewPCG(29, 5))}
	taken, sent := 0, 0
	for _, op := range g.operations() {
		method, path, _ := strings.Cut(op, " ")
		for range 150 {
			made := g.request(method, path)
			w := r.send(made.request)
			sent++
			switch code := w.Code; {
			case code == 200:
				taken++
			case code == 403, code == 404, code == 429, code == 409: // off, unknown, refused, or contradicting itself
			case code == 410 && strings.HasPrefix(path, "/v1/leases/"):
			default:
				t.Fatalf("%s %s %s: %d %s", op, made.path, made.request.body, code, w.Body)
			}
			r.want(200, request{path: "/v1/disable", body: `{"all":true}`})
			r.want(200, request{path: "/v1/enable", body: `{"all":true}`})
		}
	}
	if taken < sent/2 {
		t.Errorf("only %d of %d requests were taken", taken, sent)
	}
}

// A body that breaks a rule of the document is refused with 400, or 404 for an
// unknown name.
func TestOpenAPIViolationsAreRefused(t *testing.T) {
	r := newMemoryRig(t, Options{MaxLeases: 1_000_000})
	seed(t, r)
	g := &generator{newContract(t, r), rand.New(rand.NewPCG(29, 5))}
	refused := 0
	for _, op := range g.operations() {
		method, path, _ := strings.Cut(op, " ")
		for range 200 {
			made := g.request(method, path)
			if made.body == nil {
				break
			}
			broken := g.damage(made.body)
			if g.compile(made.at).Validate(reread(t, broken)) == nil {
				continue
			}
			text, err := json.Marshal(broken)
			if err != nil {
				t.Fatal(err)
			}
			made.request.body = string(text)
			if w := r.send(made.request); w.Code != 400 && w.Code != 404 && w.Code != 403 && w.Code != 409 {
				t.Fatalf("%s %s %s: %d %s", op, made.path, text, w.Code, w.Body)
			}
			refused++
		}
	}
	if refused < 500 {
		t.Errorf("only %d bodies broke a rule", refused)
	}
}

// damage returns a copy of a value with one change at a random place.
func (g *generator) damage(v any) any {
	wrong := []any{
		nil, "", "\x00", "a b", "é", -1, 0, 1.5, json.Number("1e30"), true,
		[]any{},
		map[string]any{},
		strings.Repeat("a", 300),
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || g.rand.IntN(4) == 0 {
			return with(v, fmt.Sprint(wrong[1+g.rand.IntN(4)], "x#"), 1)
		}
		names := slices.Sorted(maps.Keys(v))
		name := names[g.rand.IntN(len(names))]
		if g.rand.IntN(4) == 0 {
			less := with(v, name, nil)
			delete(less, name)
			return less
		}
		return with(v, name, g.damage(v[name]))
	case []any:
		if len(v) > 0 && g.rand.IntN(2) == 0 {
			changed := slices.Clone(v)
			i := g.rand.IntN(len(v))
			changed[i] = g.damage(v[i])
			return changed
		}
	}
	return wrong[g.rand.IntN(len(wrong))]
}

func with(object map[string]any, name string, v any) map[string]any {
	changed := map[string]any{name: v}
	for other, value := range object {
		if other != name {
			changed[other] = value
		}
	}
	return changed
}
