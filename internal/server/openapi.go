package server

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/answer"
	"github.com/zeroae/zae-limiter-go/internal/openapi"
)

// object is a JSON object.
type object = openapi.Object

// openAPI returns the OpenAPI document of the routes.
func (s *Server) openAPI() ([]byte, error) {
	schemas := &openapi.Schemas{All: object{}, Special: specialSchema}
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
	schemas.Of(reflect.TypeFor[httplimit.Problem]())
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
			"schemas":         schemas.All,
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
func (rt route) operation(schemas *openapi.Schemas) object {
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
			"200":     object{"description": "Done", "content": object{"application/json": object{"schema": schemas.Of(rt.answer)}}},
			"default": object{"description": "A problem", "content": object{"application/problem+json": object{"schema": schemas.Of(reflect.TypeFor[httplimit.Problem]())}}},
		},
	}
	if rt.request != nil {
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": schemas.Of(rt.request)}}}
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

// specialSchema returns the schema of a type that is not described by its fields.
func specialSchema(schemas *openapi.Schemas, t reflect.Type) object {
	switch t {
	case reflect.TypeFor[limiter.OnUnavailable]():
		return object{"type": "string", "enum": []limiter.OnUnavailable{limiter.Block, limiter.Allow}}
	case reflect.TypeFor[limiter.Limit]():
		return schemas.Of(reflect.TypeFor[answer.Limit]())
	}
	return nil
}
