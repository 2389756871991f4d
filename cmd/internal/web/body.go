package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// TypeJSON is the content type of bodies and answers.
const TypeJSON = "application/json"

// ReadBody returns the body of a request, which must be plain JSON. A body of more
// than most bytes is an *http.MaxBytesError.
func (r *Rules) ReadBody(w http.ResponseWriter, req *http.Request, most int64) ([]byte, error) {
	if err := r.checkType(req.Header); err != nil {
		return nil, err
	}
	// A client that sends Expect: 100-continue then does not send the body at all.
	if req.ContentLength > most {
		return nil, &http.MaxBytesError{Limit: most}
	}

	var body []byte
	var err error
	if req.ContentLength >= 0 {
		body = make([]byte, req.ContentLength)
		// While the body is on its way the connection does not count as busy,
		// so that many slow clients can be replaced.
		listen.Receive(req, func() { _, err = io.ReadFull(req.Body, body) })
	} else {
		listen.Receive(req, func() { body, err = io.ReadAll(http.MaxBytesReader(w, req.Body, most)) })
	}

	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLong
	}
	if err != nil {
		f := fault(CutOff, "", "the body ended early or came too slowly")
		f.Err = err
		return nil, r.mustRefuse(f)
	}
	return body, nil
}

// checkType rejects a request whose body is not plain JSON. A web page of another
// origin cannot send this content type without a preflight request, which fails.
func (r *Rules) checkType(h http.Header) error {
	var f *Fault
	values := h["Content-Type"]
	switch {
	case len(values) != 1 || !isJSON(values[0]):
		f = fault(OtherType, "", "Content-Type: must be application/json")
	case h.Get("Content-Encoding") != "":
		f = fault(OtherType, "", "Content-Encoding: must be absent")
	default:
		return nil
	}

	f.Status = http.StatusUnsupportedMediaType
	return r.refuse(f)
}

func isJSON(contentType string) bool {
	if contentType == TypeJSON {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == TypeJSON
}

// Decode parses a body strictly: one object with the fields of B, in their exact
// case, each at most once and not null, and nothing after it.
func Decode[B any](rules *Rules, text []byte) (body B, err error) {
	err = rules.decode(text, &body, shapeOf(reflect.TypeFor[B]()))
	return body, err
}

// decode parses a body into v, a pointer to a value of a shape.
func (r *Rules) decode(text []byte, v any, allowed *shape) error {
	// json.Unmarshal would take a null for an object without fields.
	if i := skipSpace(text, 0); i == len(text) || text[i] != '{' {
		return r.mustRefuse(notObject(NotObject))
	}

	if r.WholeNumbers {
		text = plainNumbers(text)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return r.mustRefuse(badJSON(text, err))
	}

	// checkKeys walks over valid JSON only.
	return r.checkKeys(text, allowed)
}

func notObject(kind Kind) *Fault { return fault(kind, "", "body: must be one JSON object") }

// badJSON returns the fault of a body that json.Unmarshal refused, in terms of JSON
// instead of Go types.
func badJSON(text []byte, err error) *Fault {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := kindName(wrong.Type)
		f := fault(WrongType, wrong.Field, "body: field %s: must be %s, not a JSON %s",
			wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:], want, wrong.Value)
		f.Want, f.Got = want, wrong.Value
		return f
	}

	if !errors.As(err, new(*json.SyntaxError)) {
		return &Fault{Kind: WrongValue, Problem: *BadBody(err), Err: err}
	}

	// The error does not say whether it is behind a first value that is right.
	var first json.RawMessage
	if json.NewDecoder(bytes.NewReader(text)).Decode(&first) == nil {
		return notObject(Trailing)
	}
	return notObject(NotObject)
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
