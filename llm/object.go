package llm

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go"
)

// object holds the fields of a JSON object with the positions of their values.
type object struct {
	text   []byte
	first  int // position after the brace
	fields map[string]span
}

// span is a part of a text.
type span struct{ start, end int }

// Bounds of an object. No format comes near them, and with them the memory that an
// object needs beside its text is bounded.
const (
	maxFields   = 1024    // of an object
	maxName     = 256     // bytes of the name of a field, as written
	maxElements = 2 << 20 // lists, objects and their elements, at any depth
	maxNumber   = 64      // bytes of a number
)

// parseObject splits an object into its fields. Unlike encoding/json it compares
// names exactly and rejects a name that occurs twice: another parser could read
// another value than this one does. It rejects names and text that parsers repair
// in different ways for the same reason.
func parseObject(text []byte) (object, error) {
	switch {
	// json.Valid does not look at the encoding of strings.
	case !utf8.Valid(text):
		return object{}, invalidBody("is not valid UTF-8")
	case !json.Valid(text):
		return object{}, invalidBody("is not valid JSON")
	}

	start := skipSpace(text, 0)
	if text[start] != '{' {
		return object{}, invalidBody("is not a JSON object")
	}

	o := object{text: text, first: start + 1, fields: make(map[string]span, 8)}
	elements := 0
	for at := skipSpace(text, o.first); text[at] != '}'; {
		end := skipString(text, at)

		name, err := fieldName(text[at+1 : end-1])
		if err != nil {
			return object{}, err
		}

		if _, twice := o.fields[name]; twice {
			return object{}, invalidBody(fmt.Sprintf("has the field %.40q twice", name))
		}
		// The value comes after the colon.
		value := skipSpace(text, skipSpace(text, end)+1)
		end, n := skipValue(text, value)

		if o.fields[name] = (span{value, end}); len(o.fields) > maxFields {
			return object{}, invalidBody(fmt.Sprintf("has more than %d fields", maxFields))
		}
		if elements += n; elements > maxElements {
			return object{}, invalidBody(fmt.Sprintf("has more than %d elements", maxElements))
		}

		if at = skipSpace(text, end); text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	return o, nil
}

// fieldName decodes the name of a field.
func fieldName(quoted []byte) (string, error) {
	if len(quoted) > maxName {
		return "", invalidBody(fmt.Sprintf("has a field whose name is longer than %d bytes", maxName))
	}
	name, whole := unquote(make([]byte, 0, 32), quoted)
	// Some parsers end the name at such a character.
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			whole = false
		}
	}

	if !whole {
		return "", invalidBody("has a field whose name is no plain text")
	}
	return string(name), nil
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
	switch raw := o.raw(name); {
	case len(raw) == 0 || raw[0] == 'f':
		return false, nil
	case raw[0] == 't':
		return true, nil
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
	// Digits alone are read exactly. A float would round numbers above 2^53.
	text := string(raw[:min(len(raw), maxNumber)])
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && len(raw) <= maxNumber {
		return n, nil
	}

	n, err := strconv.ParseFloat(text, 64)
	if err != nil || len(raw) > maxNumber || n != math.Trunc(n) || n < -1<<63 || n >= 1<<63 {
		return 0, wrongType(name, raw, "a whole number of at most 64 bits")
	}
	return int64(n), nil
}

// shortText returns the value of a field of at most most bytes, or "" if it is
// absent or null.
func (o object) shortText(name string, most int) (string, error) {
	raw := o.raw(name)
	if raw == nil {
		return "", nil
	}

	// No text of more bytes than these fits, so a long one is not decoded.
	const escaped = len(`\u0000`)
	if raw[0] == '"' && len(raw) <= 2+most*escaped {
		if value, whole := unquote(nil, raw[1:len(raw)-1]); whole && len(value) <= most {
			return string(value), nil
		}
	}
	return "", wrongType(name, raw, fmt.Sprintf("a string of at most %d bytes", most))
}

// wrongType returns the error of a field with a value that an API could understand
// in another way.
func wrongType(name string, raw []byte, want string) error {
	return &limiter.InvalidError{Field: name, Value: fmt.Sprintf("%.20s", raw), Reason: "must be " + want}
}
