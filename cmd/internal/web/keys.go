package web

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxFields bounds the fields of an object, and maxDepth the nesting of a body.
const MaxFields, maxDepth = 100, 8

// keyCheck walks over the keys of a valid JSON text. Package encoding/json
// accepts a key twice and in any case, so that two readers of one body could see
// different requests.
type keyCheck struct {
	rules *Rules
	text  []byte
	at    int
	err   error
}

// checkKeys rejects fields of objects that shape does not have, fields that occur
// twice in any object, null, which would stand for 0 tokens, and bodies of too many
// or too deep values.
func (r *Rules) checkKeys(valid []byte, allowed *shape) error {
	c := keyCheck{rules: r, text: valid}
	c.value(allowed, 0)
	return c.err
}

// note keeps the answer to a fault, unless it may pass.
func (c *keyCheck) note(f *Fault) {
	if f != nil && c.err == nil {
		c.err = c.rules.refuse(f)
	}
}

// value passes a value of a shape; nil is any shape.
func (c *keyCheck) value(allowed *shape, depth int) {
	if depth > maxDepth {
		c.note(fault(Unusual, "", "body: values are nested more than %d deep", maxDepth))
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
		c.at = stringEnd(c.text, c.at)
	default:
		if c.text[c.at] == 'n' {
			c.note(fault(Unusual, "", "body: null is not a value; leave the field out"))
		}
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

func (c *keyCheck) array(element *shape, depth int) {
	for c.at++; c.err == nil && c.next(']'); {
		c.value(element, depth+1)
	}
}

func (c *keyCheck) object(allowed *shape, depth int) {
	seen := map[string]bool{}
	for c.at++; c.err == nil && c.next('}'); {
		key := c.key()
		field, unknown := allowed.field(key)
		c.note(unknown)
		if seen[key] {
			c.note(fault(RepeatedField, key, "body: field %q occurs twice", Clip(key)))
		}
		if seen[key] = true; len(seen) == MaxFields+1 {
			c.note(fault(Unusual, "", "body: an object has more than %d fields", MaxFields))
		}

		c.at = skipSpace(c.text, c.at) + 1 // the colon
		c.value(field, depth+1)
	}
}

// key passes a key and returns its value, as encoding/json sees it.
func (c *keyCheck) key() string {
	begin := c.at
	c.at = stringEnd(c.text, begin)
	quoted := c.text[begin:c.at]

	// Most keys need no decoder.
	if !slices.ContainsFunc(quoted, func(b byte) bool { return b == '\\' || b >= utf8.RuneSelf }) {
		return string(quoted[1 : len(quoted)-1])
	}

	var text string
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}

// skipSpace returns the index of the first byte from i on that is no space.
func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}
