package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// object holds the fields of a JSON object with their values as written.
type object struct {
	text   []byte
	fields map[string]span
}

// span is a part of a text.
type span struct{ start, end int }

// parseObject splits an object into its fields. Unlike encoding/json it compares
// names exactly and rejects a name that occurs twice: another parser could read
// another value than this one does.
func parseObject(text []byte) (object, error) {
	if !json.Valid(text) {
		return object{}, invalidBody("is not valid JSON")
	}
	start := skipSpace(text, 0)
	if text[start] != '{' {
		return object{}, invalidBody("is not a JSON object")
	}
	o := object{text: text, fields: make(map[string]span, 8)}
	for at := skipSpace(text, start+1); text[at] != '}'; {
		end := skipValue(text, at)
		name := string(text[at+1 : end-1])
		if strings.Contains(name, `\`) {
			_ = json.Unmarshal(text[at:end], &name) // valid, so it cannot fail
		}
		if _, twice := o.fields[name]; twice {
			return object{}, invalidBody(fmt.Sprintf("has the field %.40q twice", name))
		}
		value := skipSpace(text, skipSpace(text, end)+1) // after the colon
		end = skipValue(text, value)
		o.fields[name] = span{value, end}
		if at = skipSpace(text, end); text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	return o, nil
}

func invalidBody(reason string) error {
	return &limiter.InvalidError{Field: "body", Reason: reason + "; send one JSON object in the format of the API"}
}

// raw returns the value of a field as written, or nil if the field is absent or
// null.
func (o object) raw(name string) []byte {
	at, ok := o.fields[name]
	if !ok || o.text[at.start] == 'n' {
		return nil
	}
	return o.text[at.start:at.end]
}

// boolean returns the value of a field, or false if it is absent or null.
func (o object) boolean(name string) (bool, error) {
	switch raw := o.raw(name); string(raw) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, wrongType(name, raw, "true or false")
	}
}

// whole returns the value of a field, or 0 if it is absent or null. A number with
// an exponent or a fraction of zero is whole too.
func (o object) whole(name string) (int64, error) {
	raw := o.raw(name)
	if raw == nil {
		return 0, nil
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, nil
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n < -1<<63 || n >= 1<<63 {
		return 0, wrongType(name, raw, "a whole number of at most 64 bits")
	}
	return int64(n), nil
}

// wrongType returns the error of a field with a value that an API could understand
// in another way.
func wrongType(name string, raw []byte, want string) error {
	return &limiter.InvalidError{Field: name, Value: fmt.Sprintf("%.20s", raw), Reason: "must be " + want}
}

// decode decodes a field into v. A field that is absent, null or of another type
// leaves v as it is: the API will reject it.
func (o object) decode(name string, v any) {
	if raw := o.raw(name); raw != nil {
		_ = json.Unmarshal(raw, v)
	}
}

// skipSpace returns the position of the first byte from at on that is no space.
func skipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t') {
		at++
	}
	return at
}

// skipValue returns the end of the value that starts at a position of valid JSON.
func skipValue(text []byte, at int) int {
	for depth := 0; ; {
		switch text[at] {
		case '"':
			at = skipString(text, at)
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\n', '\r', '\t':
			at++
		default:
			at += max(1, bytes.IndexAny(text[at:], ",]} \n\r\t"))
			if depth == 0 {
				return at
			}
		}
		if depth == 0 {
			return at
		}
	}
}

// skipString returns the end of the string that starts at a position of valid
// JSON.
func skipString(text []byte, at int) int {
	for at++; ; at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
}
