package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/openapi"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// object is a JSON object.
type object = openapi.Object

// openAPI returns the OpenAPI document of the routes.
func (s *Server) openAPI() ([]byte, error) {
	schemas := &openapi.Schemas{All: object{}, Special: specialSchema, Named: namedSchemas(), Doc: jsonview.Doc}

	paths := object{
		"/healthz":      probePath("getHealth", "Whether the process is alive"),
		"/readyz":       probePath("getReadiness", "Whether the server can take work"),
		"/openapi.json": documentPath(),
	}
	for i := range s.routes {
		rt := &s.routes[i]
		rt.AddTo(paths, rt.operation(schemas, s.opts.Tokens != nil))
	}

	// What one field allows may depend on another, which no tag of a field says.
	for name, more := range bodyRules() {
		body, _ := schemas.All[name].(object)
		maps.Copy(body, more)
	}

	version := s.opts.Version
	if version == "" {
		version = "unknown"
	}
	components := object{"schemas": schemas.All, "headers": answerHeaders}
	document := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "zae-limiter", "version": version,
			"description": "Limits how much each entity may use of each resource. " +
				"Answers about limits carry the fields RateLimit and RateLimit-Policy. Errors are problem " +
				"documents (RFC 9457).",
		},
		"paths":      paths,
		"components": components,
	}
	if s.opts.Tokens != nil {
		document["security"] = []any{object{"token": []any{}}}
		components["securitySchemes"] = object{"token": object{
			"type": "http", "scheme": "bearer", "description": "A token of the server's file of tokens.",
		}}
	}
	return json.MarshalIndent(document, "", "  ")
}

func probePath(id, summary string) object {
	state := object{"description": "The state", "content": openapi.Content(web.TypeJSON, object{
		"type": "object", "properties": object{"status": object{"type": "string"}},
		"required": []any{"status"}, "additionalProperties": false,
	})}

	return object{"get": object{
		// The empty list lifts the security of the document: probes need no token.
		"operationId": id, "summary": summary, "security": []any{}, "responses": object{"200": state, "503": state},
	}}
}

func documentPath() object {
	document := object{"type": "object", "required": []any{"openapi", "info", "paths"}}

	return object{"get": object{
		"operationId": "getOpenAPI", "summary": "This document", "security": []any{}, "responses": object{
			"200": object{
				"description": "An OpenAPI document", "content": openapi.Content(web.TypeJSON, document),
			},
		},
	}}
}

// operation describes a route.
func (rt *route) operation(schemas *openapi.Schemas, tokens bool) object {
	op := rt.Operation(schemas, object{"schema": schemas.Ref(idSchema(rt.Path))})
	op["operationId"], op["description"] = rt.id, "Needs the role "+rt.role.including()+"."
	op["responses"] = rt.responses(schemas, tokens)

	if rt.keyed {
		parameters, _ := op["parameters"].([]any)
		op["parameters"] = append(parameters, object{
			"name": "Idempotency-Key", "in": "header", "required": false, "schema": schemas.Ref("IdempotencyKey"),
			"description": "A key that makes repetitions of this request return its first successful answer.",
		})
	}
	return op
}

// idSchema returns the name of the schema of {id} in a path.
func idSchema(path string) string {
	switch {
	case strings.HasPrefix(path, "/v1/leases/"):
		return "LeaseID"
	case strings.HasPrefix(path, "/v1/resources/"):
		return "ResourceName"
	}
	return "EntityName"
}

// responses describes the answers of a route.
func (rt *route) responses(schemas *openapi.Schemas, tokens bool) object {
	done := object{"description": "Done", "content": openapi.Content(web.TypeJSON, schemas.Of(rt.Answer))}
	all := object{}
	problem := func(status int, when string, headers ...string) {
		all[strconv.Itoa(status)] = object{
			"description": when, "headers": headerRefs(headers),
			"content": openapi.Content("application/problem+json", schemas.Of(reflect.TypeFor[httplimit.Problem]())),
		}
	}

	problem(http.StatusBadRequest, "The request is not as this document describes it")
	problem(http.StatusNotFound,
		"The request names a record, a limit or a zone that does not exist, or asks about limits where none are stored")
	// Calls with an Idempotency-Key get their 409 below.
	if rt.id == "explain" {
		problem(http.StatusConflict, "The body names a limit twice")
	}
	problem(http.StatusServiceUnavailable, "The store or the server is not available", "Retry-After")
	if tokens {
		problem(http.StatusUnauthorized, "The token is missing or unknown", "WWW-Authenticate")
	}
	// Without tokens, only a call that takes tokens gets 403, from a switch.
	if tokens || rt.id == "acquire" || rt.id == "consumeLease" {
		problem(http.StatusForbidden, "The token does not allow the call, or the entity or resource is disabled")
	}
	if rt.Request != nil {
		problem(http.StatusRequestEntityTooLarge, "The body is too large")
		problem(http.StatusUnsupportedMediaType, "The body is not application/json")
	}
	if rt.keyed {
		problem(http.StatusConflict,
			"A request with this Idempotency-Key is under way, or the body contradicts itself", "Retry-After")
		problem(http.StatusUnprocessableEntity, "The Idempotency-Key belongs to another request")
	}
	if strings.HasPrefix(rt.Path, "/v1/leases/") {
		problem(http.StatusGone, "The token has no such open lease here")
	}
	if rt.id == "acquire" || rt.id == "consumeLease" {
		problem(http.StatusTooManyRequests, "A limit refuses the request", "Retry-After", "RateLimit",
			"RateLimit-Policy")
	}
	if rt.id == "acquire" {
		done["headers"] = headerRefs([]string{"RateLimit", "RateLimit-Policy"})
	}
	// Only a list has the parameter limit, and so a next page.
	for _, p := range rt.Parameters {
		if p.Name == "limit" {
			done["headers"] = headerRefs([]string{"Link"})
		}
	}
	fault := "The server is at fault; its log says why"
	if rt.id == "acquire" || rt.id == "consumeLease" {
		fault = "The server is at fault, such as where no limits are stored for the entity and resource; its " +
			"log says why"
	}
	problem(http.StatusInternalServerError, fault)

	all["200"] = done
	// Other errors, such as 405 and 421, are problem documents as well.
	all["default"] = all["500"]
	return all
}

func headerRefs(names []string) object {
	refs := object{}
	for _, name := range names {
		refs[name] = object{"$ref": "#/components/headers/" + name}
	}

	return refs
}

// answerHeaders describes the fields of answers.
var answerHeaders = object{
	"Retry-After": object{
		"description": "Seconds until the request may succeed",
		"schema":      object{"type": "integer", "minimum": 0},
	},
	"RateLimit": object{
		"description": "What each limit has left, and in how many seconds it gains more",
		"schema":      object{"type": "string"},
	},
	"RateLimit-Policy": object{
		"description": "The limits that apply", "schema": object{"type": "string"},
	},
	"Link": object{
		"description": `The next page, with rel="next"; absent on the last page`,
		"schema":      object{"type": "string"},
	},
	"WWW-Authenticate": object{
		"description": "The scheme Bearer", "schema": object{"type": "string"},
	},
}

// specialSchema returns the schema of a type that is not described by its fields.
func specialSchema(schemas *openapi.Schemas, t reflect.Type) object {
	switch t {
	case reflect.TypeFor[limiter.OnUnavailable]():
		return object{"type": "string", "enum": []limiter.OnUnavailable{"", limiter.Block, limiter.Allow}}
	case reflect.TypeFor[limiter.Limit]():
		return schemas.Of(reflect.TypeFor[jsonview.Limit]())
	}
	return nil
}
