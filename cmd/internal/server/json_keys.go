package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a body's structure: the fields of an object, and its nesting.
const maxFields, maxDepth = 100, 8

// keyCheck walks over the keys of a valid JSON text. Package encoding/json
// accepts a key twice and in any case, so that two readers of one body could see
// different requests.
type keyCheck struct {
	text []byte
	at   int
	err  error
}

// checkKeys rejects fields of objects that shape does not have, fields that occur
// twice in any object, and null: it would stand for 0 tokens.
func checkKeys(valid []byte, allowed *shape) error {
	c := keyCheck{text: valid}
	c.value(allowed, 0)
	return c.err
}

// value passes a value of a shape; nil is any shape.
func (c *keyCheck) value(allowed *shape, depth int) {
	if depth > maxDepth {
		c.err = fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	if c.err != nil {
		return
	}

	c.at = skipSpace(c.text, c.at)
	switch c.text[c.at] {
	case '{':
		c.object(allowed, depth)
	case '[':
		c.array(allowed.element(), depth)
	case '"':
		c.stringText()
	case 'n':
		c.err = errNull
	default:
		for c.at < len(c.text) && !strings.ContainsRune(",]} \t\r\n", rune(c.text[c.at])) {
			c.at++
		}
	}
}

var errNull = errors.New("null is not a value; leave the field out")

// next passes a comma, or the end of an object or array, and reports whether
// another element follows.
func (c *keyCheck) next(end byte) bool {
	c.at = skipSpace(c.text, c.at)
	if c.text[c.at] == end {
		c.at++
		return false
	}
	if c.text[c.at] == ',' {
		c.at++
	}
	c.at = skipSpace(c.text, c.at)
	return true
}

func (c *keyCheck) array(element *shape, depth int) {
	for c.at++; c.err == nil && c.next(']'); {
		c.value(element, depth+1)
	}
}

func (c *keyCheck) object(allowed *shape, depth int) {
	// Most objects have few fields, whose names need no allocation then.
	var space [8]string
	seen := space[:0]
	for c.at++; c.err == nil && c.next('}'); {
		key := c.stringText()

		field, err := allowed.field(key)
		switch {
		case err != nil:
			c.err = err
		case slices.Contains(seen, key):
			c.err = fmt.Errorf("field %q occurs twice", clip(key))
		case len(seen) == maxFields:
			c.err = fmt.Errorf("an object has more than %d fields", maxFields)
		}

		seen = append(seen, key)
		c.at = skipSpace(c.text, c.at) + 1 // the colon
		c.value(field, depth+1)
	}
}

// stringText passes a string and returns its value.
func (c *keyCheck) stringText() string {
	begin, escaped := c.at, false
	for c.at++; c.text[c.at] != '"'; c.at++ {
		if c.text[c.at] == '\\' {
			escaped = true
			c.at++
		}
	}
	c.at++

	// Most strings have no escapes, and need no decoder.
	if !escaped {
		return string(c.text[begin+1 : c.at-1])
	}

	var text string
	c.err = json.Unmarshal(c.text[begin:c.at], &text)
	return text
}

// skipSpace returns the index of the first byte from i on that is no space.
func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}
