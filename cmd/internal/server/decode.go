package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// decode parses a body strictly: one object with the fields of T, in their exact
// case, each at most once and not null, and nothing after it.
func decode[T any](body []byte, allowed *shape) (T, error) {
	var v T
	// json.Unmarshal would take a null for an object without fields.
	if i := skipSpace(body, 0); i == len(body) || body[i] != '{' {
		return v, badBody(errNotObject)
	}

	body = plainNumbers(body)
	if err := json.Unmarshal(body, &v); err != nil {
		return v, badBody(err)
	}

	// checkKeys walks over valid JSON only.
	if err := checkKeys(body, allowed); err != nil {
		return v, badBody(err)
	}

	return v, nil
}

// badBody returns the problem of a body, in terms of JSON instead of Go types.
func badBody(err error) error {
	detail, status := err.Error(), http.StatusBadRequest
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		detail = fmt.Sprintf("field %s: must be %s, not a JSON %s",
			wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:], kindName(wrong.Type), wrong.Value)
	}

	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		detail = errNotObject.Error()
	}

	if invalid, ok := errors.AsType[*limiter.InvalidError](err); ok {
		detail, status = invalid.Error(), statusOf(invalid)
	}

	return &httplimit.Problem{Status: status, Detail: "body: " + detail}
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

// clip shortens a text of a client for a message.
func clip(s string) string {
	const longest = 50
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}

// checkTaken rejects negative amounts of the field consume.
func checkTaken(object map[string]int64) error {
	for name, n := range object {
		if n < 0 {
			return badBody(fmt.Errorf("field consume: %q must be 0 or more; adjust or rollback gives tokens back",
				clip(name)))
		}
	}
	return nil
}

// checkNames rejects names that no limit can have.
func checkNames(object map[string]int64) error {
	for name := range object {
		if err := limiter.PerMinute(name, 1).Validate(); err != nil {
			return badBody(err)
		}
	}
	return nil
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
