package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// maxBody bounds the body of most calls.
const maxBody = 64 << 10

// decode parses the body of a call into v.
func (c *call) decode(v any) error { return parseBody(c.body, v) }

// receive returns the body of a request.
func receive(w http.ResponseWriter, r *http.Request, most int64) (body []byte, err error) {
	// A page of another site cannot send this content type without a preflight
	// request, which fails here.
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || len(r.Header["Content-Type"]) > 1 ||
		r.Header.Get("Content-Encoding") != "" {
		return nil, &httplimit.Problem{
			Status: http.StatusUnsupportedMediaType,
			Detail: "Content-Type: must be application/json, without a Content-Encoding",
		}
	}

	// While the body is on its way the connection does not count as busy, so
	// that many slow clients can be replaced.
	listen.Receive(r, func() { body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most)) })

	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &httplimit.Problem{
			Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("the body must have at most %d bytes", most),
		}
	}
	if err != nil {
		return nil, badInput("the body ended early or came too slowly")
	}

	return body, nil
}

// parseBody parses a body: one JSON object with known fields, each once.
func parseBody(body []byte, v any) error {
	// The decoder would take a null for an object without fields.
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return badInput("body: must be one JSON object")
	}
	if name, twice := repeatedField(body); twice {
		return badInput("body: field %q: occurs twice", clip(name))
	}

	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return badBody(err)
	}
	// Decode stops at the end of the first value.
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return badInput("body: must be one JSON object, and nothing after it")
	}

	return nil
}

// repeatedField returns a field that occurs twice in an object of a body, since
// encoding/json would silently take the last one. It finds none in a body that is
// not JSON, which the decoder rejects.
func repeatedField(body []byte) (string, bool) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	type object struct {
		fields map[string]bool // nil for an array
		value  bool            // the next token is a value
	}

	var open []object
	for {
		token, err := decoder.Token()
		if err != nil {
			return "", false
		}

		if end := token == json.Delim('}') || token == json.Delim(']'); end {
			if open = open[:len(open)-1]; len(open) == 0 {
				return "", false
			}
			continue
		}

		// Names and values of an object alternate. A nested object or array
		// counts as a value when it opens.
		if n := len(open); n > 0 && open[n-1].fields != nil {
			in := &open[n-1]
			if in.value = !in.value; in.value {
				name, _ := token.(string)
				if in.fields[name] {
					return name, true
				}
				in.fields[name] = true
				continue
			}
		}

		switch token {
		case json.Delim('{'):
			open = append(open, object{fields: map[string]bool{}})
		case json.Delim('['):
			open = append(open, object{})
		}
	}
}

// badBody returns the problem of a body, in terms of JSON instead of Go types.
func badBody(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badInput("body: field %s: must be %s, not a JSON %s", wrong.Field, kindName(wrong.Type), wrong.Value)
	}

	// The error of an unknown field has no type of its own.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return badInput("body: field %s: is unknown", clip(name))
	}

	return badInput("body: must be one JSON object")
}

// kindName returns the JSON name of a Go type.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice, reflect.Array:
		return "an array"
	}
	return "an object"
}

// clip shortens a text of a viewer for a message.
func clip(s string) string {
	const longest = 50
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}
