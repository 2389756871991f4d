package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/docs"
	"github.com/zeroae/zae-limiter-go/internal/golden"
	"github.com/zeroae/zae-limiter-go/memory"
)

// document is the part of an OpenAPI document that the reference shows.
type document struct {
	Paths map[string]map[string]struct {
		Summary, Description string
		Parameters           []struct {
			Name, In, Description string
			Required              bool
			Schema                schema
		}
		RequestBody struct{ Content map[string]content }
		Responses   map[string]struct{ Content map[string]content }
	}
	Components struct{ Schemas map[string]schema }
}

type content struct{ Schema schema }

type schema struct {
	Type                 any
	Ref                  string `json:"$ref"`
	Format, Description  string
	Enum                 []string
	Items                *schema
	AdditionalProperties json.RawMessage
	Properties           map[string]schema
	Required             []string
	Pattern              string
	Minimum, Maximum     json.Number
	MaxLength            int
	AnyOf                []schema
}

// TestReferenceHTTP compares docs/reference/http-api.md with the server's OpenAPI
// document; -update rewrites it.
func TestReferenceHTTP(t *testing.T) {
	r := newRig(t, memory.New(nil), Options{})
	var doc document
	if err := json.Unmarshal(r.send(request{method: "GET", path: "/openapi.json"}).Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# HTTP API\n\nThe calls of [`zae-limiter serve`](../serve.md), from the OpenAPI document " +
		"that it serves at `/openapi.json`. `make docs` generates this page.\n\n" +
		"Requests and answers are JSON. An error is a problem document (`application/problem+json`). An " +
		"optional field may be missing.\n\n" +
		"| call | |\n|---|---|\n")
	var calls strings.Builder
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			title := strings.ToUpper(method) + " " + path
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", title, docs.Anchor(title), docs.Cell(op.Summary))
			fmt.Fprintf(&calls, "\n## %s\n\n%s.", title, op.Summary)
			if op.Description != "" {
				calls.WriteString(" " + op.Description)
			}
			calls.WriteString("\n")
			if len(op.Parameters) > 0 {
				calls.WriteString("\n| parameter | in | type | |\n|---|---|---|---|\n")
			}
			for _, p := range op.Parameters {
				fmt.Fprintf(&calls, "| `%s`%s | %s | %s | %s |\n", p.Name, optional(p.Required), p.In,
					p.Schema.text(), docs.Cell(p.Description))
			}
			if body, ok := op.RequestBody.Content["application/json"]; ok {
				fmt.Fprintf(&calls, "\nRequest: %s.\n", body.Schema.text())
			}
			if answer, ok := op.Responses["200"].Content["application/json"]; ok && (answer.Schema.Ref != "" ||
				answer.Schema.Items != nil) {
				fmt.Fprintf(&calls, "\nAnswer: %s.\n", answer.Schema.text())
			}
		}
	}
	b.WriteString(calls.String())
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		if s.Properties == nil {
			fmt.Fprintf(&b, "\n## %s\n\n%s.\n", name, s.rule())
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| field | type | |\n|---|---|---|\n", name)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[field]
			fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", field, optional(slices.Contains(s.Required, field)), p.text(),
				docs.Cell(p.Description))
		}
	}
	golden.Check(t, "../../../docs/reference/http-api.md", b.String())
}

// rule describes a schema that is no object with fields.
func (s schema) rule() string {
	parts := []string{s.text()}
	if s.Pattern != "" {
		parts = append(parts, "pattern `"+s.Pattern+"`")
	}
	if s.MaxLength > 0 {
		parts = append(parts, fmt.Sprintf("at most %d characters", s.MaxLength))
	}
	if s.Maximum != "" {
		parts = append(parts, fmt.Sprintf("%s to %s", s.Minimum, s.Maximum))
	}
	text := strings.Join(parts, ", ")
	if s.Description != "" {
		text = s.Description + ": " + text
	}
	return text
}

func optional(required bool) string {
	if required {
		return ""
	}
	return ", optional"
}

// text describes a schema.
func (s schema) text() string {
	if _, name, ok := strings.Cut(s.Ref, "#/components/schemas/"); ok {
		return "[" + name + "](#" + docs.Anchor(name) + ")"
	}
	if s.Items != nil {
		return "list of " + s.Items.text()
	}
	if values := new(schema); len(s.AdditionalProperties) > 1 &&
		json.Unmarshal(s.AdditionalProperties, values) == nil && (values.Type != nil || values.Ref != "") {
		return "map to " + values.text()
	}
	switch t := s.Type.(type) {
	case string:
		if s.Enum != nil {
			return "`" + strings.Join(s.Enum, "` or `") + "`"
		}
		return strings.TrimSpace(t + " " + s.Format)
	case []any:
		return fmt.Sprint(t[0], " or ", t[1])
	}
	if s.AnyOf != nil {
		return "string"
	}
	return "any"
}
