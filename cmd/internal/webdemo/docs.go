package webdemo

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/openapi"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// reference is the document as the page /docs shows it.
type reference struct {
	Info    openapi.Object
	Calls   []callDoc
	Schemas []schemaDoc
}

type callDoc struct {
	Method, Path, Summary string
	Parameters            []web.Parameter
	Request, Answer       string // names of schemas
	Status                int
}

type schemaDoc struct {
	Name   string
	Fields []fieldDoc
}

type fieldDoc struct {
	Name, Type, Doc string
	Required        bool
}

func (h *Handler) reference(document openapi.Object) reference {
	info, _ := document["info"].(openapi.Object)
	out := reference{Info: info}
	names := &openapi.Schemas{}

	for _, rt := range h.routes {
		c := callDoc{
			Method: rt.Method, Path: rt.Path, Summary: rt.Summary, Parameters: rt.Parameters, Status: rt.status,
		}
		if rt.Request != nil {
			c.Request = typeName(names.Of(rt.Request))
		}
		if rt.Answer != nil {
			c.Answer = typeName(names.Of(rt.Answer))
		}

		out.Calls = append(out.Calls, c)
	}

	components, _ := document["components"].(openapi.Object)
	schemas, _ := components["schemas"].(openapi.Object)
	for name, schema := range schemas {
		object, _ := schema.(openapi.Object)
		out.Schemas = append(out.Schemas, schemaDoc{name, fieldsOf(object)})
	}

	slices.SortFunc(out.Schemas, func(a, b schemaDoc) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func fieldsOf(schema openapi.Object) []fieldDoc {
	required, _ := schema["required"].([]string)
	properties, _ := schema["properties"].(openapi.Object)

	var all []fieldDoc
	for name, property := range properties {
		p, _ := property.(openapi.Object)
		doc, _ := p["description"].(string)
		all = append(all, fieldDoc{name, typeName(p), doc, slices.Contains(required, name)})
	}

	slices.SortFunc(all, func(a, b fieldDoc) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// typeName returns the type of a schema in words.
func typeName(schema openapi.Object) string {
	if ref, ok := schema["$ref"].(string); ok {
		return ref[strings.LastIndexByte(ref, '/')+1:]
	}

	switch kind := schema["type"].(type) {
	case string:
		if items, ok := schema["items"].(openapi.Object); ok {
			return "list of " + typeName(items)
		}
		return kind

	// A value that may be null has a list of its type and null.
	case []any:
		first, _ := kind[0].(string)
		return first + " or null"
	}

	text, _ := json.Marshal(schema["type"])
	return string(text)
}
