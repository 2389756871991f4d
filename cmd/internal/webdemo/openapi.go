package webdemo

import (
	"cmp"
	"net/http"
	"reflect"
	"strconv"

	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/openapi"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// refusalJSON is the body of a refusal, which limiter.ExceededError writes.
type refusalJSON struct {
	Error     string          `json:"error" doc:"rate_limit_exceeded"`
	Message   string          `json:"message" doc:"the limits that refused, and when to retry"`
	Seconds   float64         `json:"retry_after_seconds" doc:"wait before a retry can succeed"`
	Millis    int64           `json:"retry_after_ms" doc:"the same in milliseconds"`
	NeverFits bool            `json:"never_fits,omitempty" doc:"whether an amount is above a capacity"`
	Limits    []refusingLimit `json:"limits" doc:"limits of the key and of its project"`
}

// refusingLimit is a limit in a refusal.
type refusingLimit struct {
	Entity    string  `json:"entity_id" doc:"ID of the entity"`
	Resource  string  `json:"resource" doc:"name of the model"`
	Limit     string  `json:"limit_name" doc:"name of the limit"`
	Capacity  int64   `json:"capacity" doc:"maximum number of tokens"`
	Refill    int64   `json:"refill_amount" doc:"tokens refilled every period"`
	Seconds   int64   `json:"refill_period_seconds" doc:"length of the period"`
	Window    string  `json:"window,omitempty" doc:"of a quota: hour, day, week, month or year; absent for a rate"`
	Zone      string  `json:"zone,omitempty" doc:"IANA zone of the window; absent for UTC"`
	Shadow    bool    `json:"shadow,omitempty" doc:"whether it is a shadow limit, which never refuses; absent if not"`
	Available int64   `json:"available" doc:"tokens left; negative is debt"`
	Requested int64   `json:"requested" doc:"tokens that the call needs"`
	Exceeded  bool    `json:"exceeded" doc:"whether this limit refused"`
	Spared    bool    `json:"would_refuse,omitempty" doc:"whether a shadow limit would refuse; absent if not"`
	NeverFits bool    `json:"never_fits,omitempty" doc:"whether the call needs more than the capacity"`
	Wait      float64 `json:"retry_after_seconds" doc:"time until this limit covers the call"`
}

// openAPI returns the OpenAPI document of the routes.
func (h *Handler) openAPI() openapi.Object {
	schemas := &openapi.Schemas{Doc: jsonview.Doc}
	paths := openapi.Object{}
	for i := range h.routes {
		h.routes[i].AddTo(paths, h.routes[i].operation(schemas))
	}

	return openapi.Object{
		"openapi": "3.1.0",
		"info": openapi.Object{
			"title": "zae-limiter demo", "version": cmp.Or(h.opts.Version, "unknown"),
			"description": "A simulated LLM gateway with real limits. Answers of the chat carry the fields " +
				"RateLimit and RateLimit-Policy. Errors are problem documents (RFC 9457).",
		},
		"paths": paths,
		"components": openapi.Object{
			"schemas": schemas.All,
			"securitySchemes": openapi.Object{
				"key":    openapi.Object{"type": "apiKey", "in": "header", "name": "X-API-Key"},
				"bearer": openapi.Object{"type": "http", "scheme": "bearer"},
			},
		},
	}
}

// operation describes a route.
func (rt *route) operation(schemas *openapi.Schemas) openapi.Object {
	done := openapi.Object{"description": http.StatusText(rt.status)}
	if rt.Answer != nil {
		done["content"] = openapi.Content(cmp.Or(rt.media, web.TypeJSON), schemas.Of(rt.Answer))
	}

	op := rt.Operation(schemas, openapi.Object{
		"description": "ID of the entity", "schema": openapi.Object{"type": "string"},
	})
	problem := schemas.Of(reflect.TypeFor[httplimit.Problem]())
	op["responses"] = openapi.Object{
		strconv.Itoa(rt.status): done, "default": openapi.Object{
			"description": "A problem", "content": openapi.Content("application/problem+json", problem),
		},
	}

	if rt.Path == chatPath {
		describeChat(op, schemas)
	}
	return op
}

// describeChat adds what only the chat has: keys, refusals and streams.
func describeChat(op openapi.Object, schemas *openapi.Schemas) {
	op["security"] = []any{openapi.Object{"key": []any{}}, openapi.Object{"bearer": []any{}}}
	responses, _ := op["responses"].(openapi.Object)
	// A refusal is no problem document: it lists the limits.
	responses["429"] = openapi.Object{
		"description": "A limit is exceeded",
		"content":     openapi.Content(web.TypeJSON, schemas.Of(reflect.TypeFor[refusalJSON]())),
	}

	done, _ := responses["200"].(openapi.Object)
	types, _ := done["content"].(openapi.Object)
	types["text/event-stream"] = openapi.Object{"schema": openapi.Object{
		"type": "string", "description": "chunks as OpenAI sends them, the last one with the usage",
	}}
}
