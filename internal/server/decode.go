package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// decode parses a body strictly: one object with the fields of T, in their exact
// case, each at most once, and nothing after it.
func decode[T any](body []byte, fields []string) (T, error) {
	var v T
	if err := checkObject(body, fields); err != nil {
		return v, badBody(err)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, badBody(err)
	}
	return v, nil
}

// badBody returns the problem of a body in words of JSON.
func badBody(err error) error {
	detail := err.Error()
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		detail = fmt.Sprintf("field %s: must be %s, not a JSON %s", wrong.Field, kindName(wrong.Type), wrong.Value)
	}
	if invalid, ok := errors.AsType[*limiter.InvalidError](err); ok {
		detail = invalid.Error()
	}
	return &httplimit.Problem{Status: http.StatusBadRequest, Detail: "body: " + detail}
}

// kindName returns the JSON name of a Go type.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

var errNotObject = errors.New("must be one JSON object")

// checkObject checks the keys of a body.
func checkObject(body []byte, fields []string) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return errNotObject
	}
	if err := checkKeys(decoder, fields, 0); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errNotObject
	}
	return nil
}

// checkKeys reads the rest of an object, and rejects keys that are not in fields,
// if that is not nil, and keys that occur twice.
func checkKeys(decoder *json.Decoder, fields []string, depth int) error {
	var seen []string
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return errNotObject
		}
		key, _ := token.(string)
		if fields != nil && !slices.Contains(fields, key) {
			return fmt.Errorf("unknown field %q; the fields are %s", clip(key), strings.Join(fields, ", "))
		}
		if slices.Contains(seen, key) {
			return fmt.Errorf("field %q occurs twice", clip(key))
		}
		if seen = append(seen, key); len(seen) > maxKeys {
			return fmt.Errorf("an object has more than %d fields", maxKeys)
		}
		if err := checkValue(decoder, depth+1); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return errNotObject
	}
	return nil
}

// Bounds of a body's structure: the fields of an object, and its nesting.
const maxKeys, maxDepth = 100, 8

// checkValue reads a value and checks the keys of objects in it.
func checkValue(decoder *json.Decoder, depth int) error {
	token, err := decoder.Token()
	if err != nil || depth > maxDepth {
		return errNotObject
	}
	switch token {
	case json.Delim('{'):
		return checkKeys(decoder, nil, depth)
	case json.Delim('['):
		for decoder.More() {
			if err := checkValue(decoder, depth+1); err != nil {
				return err
			}
		}
		if _, err := decoder.Token(); err != nil { // the closing bracket
			return errNotObject
		}
	}
	return nil
}

// clip shortens a text of a client for a message.
func clip(s string) string {
	const longest = 50
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}

// amountsOf returns the amounts of a JSON object, ordered by name.
func amountsOf(object map[string]int64) limiter.Amounts {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	var amounts limiter.Amounts
	for _, name := range names {
		amounts = amounts.And(name, object[name])
	}
	return amounts
}
