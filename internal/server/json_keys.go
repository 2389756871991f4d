package server

import (
	"encoding/json"
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

// checkKeys rejects keys of the outer object that are not in fields, and keys
// that occur twice in any object.
func checkKeys(valid []byte, fields []string) error {
	c := keyCheck{text: valid}
	c.value(fields, 0)
	return c.err
}

// value passes a value. The fields of an object must be in fields, if that is not
// nil.
func (c *keyCheck) value(fields []string, depth int) {
	if depth > maxDepth {
		c.err = fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	if c.err != nil {
		return
	}
	c.at = skipSpace(c.text, c.at)
	switch c.text[c.at] {
	case '{':
		c.object(fields, depth)
	case '[':
		c.array(depth)
	case '"':
		c.stringText()
	default:
		for c.at < len(c.text) && !strings.ContainsRune(",]} \t\r\n", rune(c.text[c.at])) {
			c.at++
		}
	}
}

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

func (c *keyCheck) array(depth int) {
	for c.at++; c.err == nil && c.next(']'); {
		c.value(nil, depth+1)
	}
}

func (c *keyCheck) object(fields []string, depth int) {
	var space [8]string
	seen := space[:0]
	for c.at++; c.err == nil && c.next('}'); {
		key := c.stringText()
		switch {
		case fields != nil && !slices.Contains(fields, key):
			c.err = fmt.Errorf("unknown field %q; the fields are %s", clip(key), strings.Join(fields, ", "))
		case slices.Contains(seen, key):
			c.err = fmt.Errorf("field %q occurs twice", clip(key))
		case len(seen) == maxFields:
			c.err = fmt.Errorf("an object has more than %d fields", maxFields)
		}
		seen = append(seen, key)
		c.at = skipSpace(c.text, c.at) + 1 // the colon
		c.value(nil, depth+1)
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
