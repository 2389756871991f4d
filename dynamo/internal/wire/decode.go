package wire

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// decode returns the attributes in the response to an update:
//
//	{"Attributes":{"name":{"N":"1"},...}}
//
// It returns false for every other response, such as one with lists or capacity
// units, and for malformed JSON.
func decode(body string) (map[string]types.AttributeValue, bool) {
	d := decoder{left: body, ok: utf8.ValidString(body)}

	d.expect('{')
	if d.text() != "Attributes" {
		return nil, false
	}

	d.expect(':')
	item := d.item()
	d.expect('}')
	d.skip()
	return item, d.ok && d.left == ""
}

// decoder reads JSON from left to right.
type decoder struct {
	left    string
	ok      bool // everything so far was as expected
	numbers []types.AttributeValueMemberN
}

// skip skips white space.
func (d *decoder) skip() {
	for d.left != "" && (d.left[0] == ' ' || d.left[0] == '\n' || d.left[0] == '\t' || d.left[0] == '\r') {
		d.left = d.left[1:]
	}
}

// take skips a character, if it is the next.
func (d *decoder) take(c byte) bool {
	d.skip()
	if d.left == "" || d.left[0] != c {
		return false
	}
	d.left = d.left[1:]
	return true
}

// expect skips a character that must be the next.
func (d *decoder) expect(c byte) { d.ok = d.take(c) && d.ok }

// text reads a string.
func (d *decoder) text() string {
	d.expect('"')
	for i := 0; d.ok && i < len(d.left); i++ {
		switch c := d.left[i]; {
		case c == '"':
			s := d.left[:i]
			d.left = d.left[i+1:]
			return s
		case c == '\\':
			return d.escaped(i)
		case c < ' ':
			d.ok = false
		}
	}
	d.ok = false
	return ""
}

// escaped reads a string whose first escape is at a position.
func (d *decoder) escaped(at int) (s string) {
	for i := at; i < len(d.left); i++ {
		switch d.left[i] {
		// A quotation mark after a backslash does not end the string.
		case '\\':
			i++
		// Escapes are rare, so the slower decoder of the library may read them.
		case '"':
			literal := `"` + d.left[:i+1]
			d.left = d.left[i+1:]
			d.ok = json.Unmarshal([]byte(literal), &s) == nil
			return s
		}
	}
	d.ok = false
	return ""
}

// truth reads a boolean.
func (d *decoder) truth() bool {
	d.skip()
	for _, word := range [...]string{"true", "false"} {
		if rest, ok := strings.CutPrefix(d.left, word); ok {
			d.left = rest
			return word == "true"
		}
	}
	d.ok = false
	return false
}

// usual is the number of attributes for which memory is reserved: those of a
// bucket with two limits, and a few more.
const usual = 24

// item reads attributes.
func (d *decoder) item() map[string]types.AttributeValue {
	item := make(map[string]types.AttributeValue, usual)
	d.expect('{')
	if d.take('}') {
		return item
	}

	for more := true; d.ok && more; more = d.take(',') {
		name := d.text()
		d.expect(':')
		d.expect('{')
		item[name] = d.value()
		d.expect('}')
	}
	d.expect('}')
	return item
}

// value reads the kind and the value of an attribute.
func (d *decoder) value() types.AttributeValue {
	kind := d.text()
	d.expect(':')
	switch kind {
	case "N":
		return d.number()
	case "S":
		return &types.AttributeValueMemberS{Value: d.text()}
	case "BOOL":
		return &types.AttributeValueMemberBOOL{Value: d.truth()}
	case "NULL":
		d.ok = d.truth() && d.ok
		return &types.AttributeValueMemberNULL{Value: true}
	}
	d.ok = false
	return nil
}

// number reads a number. Numbers are most of a bucket, so they share memory.
func (d *decoder) number() types.AttributeValue {
	// Growing the list would move values that the item points to.
	if len(d.numbers) == cap(d.numbers) {
		d.numbers = make([]types.AttributeValueMemberN, 0, usual)
	}

	d.numbers = append(d.numbers, types.AttributeValueMemberN{Value: d.text()})
	return &d.numbers[len(d.numbers)-1]
}
