package server

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/answer"
)

// object is a JSON object.
type object = map[string]any

// openAPI returns the OpenAPI document of the routes.
func (s *Server) openAPI() ([]byte, error) {
	schemas := &schemaSet{all: object{}}
	paths := object{
		"/healthz":      probePath("Whether the process is alive"),
		"/readyz":       probePath("Whether the server can take work"),
		"/openapi.json": object{"get": object{"operationId": "openapi", "summary": "This document", "security": []any{}, "responses": object{"200": object{"description": "An OpenAPI document"}}}},
	}
	for _, rt := range s.routes {
		item, _ := paths[rt.path].(object)
		if item == nil {
			item = object{}
			paths[rt.path] = item
		}
		item[strings.ToLower(rt.method)] = rt.operation(schemas)
	}
	schemas.of(reflect.TypeFor[httplimit.Problem]())
	version := s.opts.Version
	if version == "" {
		version = "unknown"
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "zae-limiter", "version": version,
			"description": "Limits how much each entity may use of each resource. Answers carry the fields RateLimit and RateLimit-Policy. Errors are problem documents (RFC 9457).",
		},
		"security": []any{object{"token": []any{}}},
		"paths":    paths,
		"components": object{
			"schemas":         schemas.all,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "A token of the server's file of tokens. A server without that file needs none."}},
		},
	}, "", "  ")
}

func probePath(summary string) object {
	state := object{"description": "The state", "content": object{"application/json": object{"schema": object{
		"type": "object", "properties": object{"status": object{"type": "string"}}, "required": []any{"status"}, "additionalProperties": false,
	}}}}
	return object{"get": object{"summary": summary, "security": []any{}, "responses": object{"200": state, "503": state}}}
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// operation describes a route.
func (rt route) operation(schemas *schemaSet) object {
	parameters := []any{}
	for _, m := range pathParameter.FindAllStringSubmatch(rt.path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range rt.query {
		parameters = append(parameters, object{"name": p.name, "in": "query", "required": p.required, "description": p.doc, "schema": p.schema()})
	}
	if rt.keyed {
		parameters = append(parameters, object{
			"name": "Idempotency-Key", "in": "header", "required": false, "schema": object{"type": "string", "minLength": 1, "maxLength": 255},
			"description": "A key that makes repetitions of this request return its first successful answer.",
		})
	}
	op := object{
		"summary": rt.summary, "description": "Needs the role " + rt.role.including() + ".", "parameters": parameters,
		"responses": object{
			"200":     object{"description": "Done", "content": object{"application/json": object{"schema": schemas.of(rt.answer)}}},
			"default": object{"description": "A problem", "content": object{"application/problem+json": object{"schema": schemas.of(reflect.TypeFor[httplimit.Problem]())}}},
		},
	}
	if rt.request != nil {
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": schemas.of(rt.request)}}}
	}
	return op
}

func (p parameter) schema() object {
	kind := p.kind
	if kind == "" {
		kind = "string"
	}
	s := object{"type": kind}
	if p.words != nil && kind == "string" {
		s["enum"] = p.words
	}
	return s
}

// schemaSet collects the schemas of Go types, named after them.
type schemaSet struct{ all object }

var schemaNames = strings.NewReplacer("Body", "Request")

// of returns the schema of a type, which is a reference for a struct.
func (s *schemaSet) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.Number]():
		return object{"type": "number"}
	case reflect.TypeFor[limiter.OnUnavailable]():
		return object{"type": "string", "enum": []limiter.OnUnavailable{limiter.Block, limiter.Allow}}
	case reflect.TypeFor[limiter.Limit]():
		return s.of(reflect.TypeFor[answer.Limit]())
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := s.of(t.Elem())
		if t.Elem().Kind() == reflect.Struct && t.Elem() != reflect.TypeFor[time.Time]() {
			return inner // an answer, never null
		}
		inner["type"] = []any{inner["type"], "null"}
		return inner
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.reference(t)
	}
	return object{} // any value
}

func (s *schemaSet) reference(t reflect.Type) object {
	name := schemaNames.Replace(t.Name())
	name = strings.ToUpper(name[:1]) + name[1:]
	if s.all[name] == nil {
		properties, required := object{}, []string{}
		s.all[name] = object{} // ends a recursion
		s.addFields(t, properties, &required)
		s.all[name] = object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s *schemaSet) addFields(t reflect.Type, properties object, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			s.addFields(f.Type, properties, required)
			continue
		}
		if name == "-" {
			continue
		}
		schema := s.of(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			schema["description"] = doc
		}
		properties[name] = schema
		if options != "omitempty" {
			*required = append(*required, name)
		}
	}
}
