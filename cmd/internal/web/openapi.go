package web

import (
	"cmp"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/openapi"
)

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// Operation describes the route for an OpenAPI document, except for its responses.
// The description of each parameter in its path has the members of id besides.
func (rt *Route[C]) Operation(schemas *openapi.Schemas, id openapi.Object) openapi.Object {
	// The document must have a list, also without parameters.
	parameters := []any{}
	for _, m := range pathParameter.FindAllStringSubmatch(rt.Path, -1) {
		p := openapi.Object{"name": m[1], "in": "path", "required": true}
		maps.Copy(p, id)
		parameters = append(parameters, p)
	}
	for _, p := range rt.Parameters {
		parameters = append(parameters, openapi.Object{
			"name": p.Name, "in": "query", "required": p.Required, "description": p.Doc, "schema": p.describe(schemas),
		})
	}

	op := openapi.Object{"summary": rt.Summary, "parameters": parameters}
	if rt.Request != nil {
		op["requestBody"] = openapi.Object{
			"required": true, "content": openapi.Content(TypeJSON, schemas.Of(rt.Request)),
		}
	}
	return op
}

// AddTo adds the description of the route to the paths of a document.
func (rt *Route[C]) AddTo(paths, operation openapi.Object) {
	item, _ := paths[rt.Path].(openapi.Object)
	if item == nil {
		item = openapi.Object{}
		paths[rt.Path] = item
	}
	item[strings.ToLower(rt.Method)] = operation
}

// describe returns the schema of a parameter.
func (p Parameter) describe(schemas *openapi.Schemas) openapi.Object {
	switch {
	case p.Words != nil:
		return openapi.Object{"type": "string", "enum": p.Words}
	case p.Schema != "":
		return schemas.Ref(p.Schema)
	}

	schema := openapi.Object{"type": cmp.Or(p.Type, "string")}
	if p.Default != "" {
		schema["default"] = p.Default
		// The default of an integer is a number in JSON, not a text.
		if n, err := strconv.Atoi(p.Default); err == nil {
			schema["default"] = n
		}
	}
	return schema
}
