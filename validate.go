package limiter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What a byte may be in an id or a name.
const (
	letter   = 1 << iota // may begin a limit or a resource, and an id
	digit                // may begin an id
	idMark               // _ . - : @ inside an id
	nameMark             // _ . - inside a limit's name
	pathMark             // _ . - / inside a resource
	arnMark              // any other that is printed, but #, inside an ARN
)

var class = func() (t [256]uint8) {
	for c := range 128 {
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			t[c] = letter
		case c >= '0' && c <= '9':
			t[c] = digit
		}
	}
	for _, c := range "_.-" {
		t[c] = idMark | nameMark | pathMark
	}
	t[':'], t['@'], t['/'] = idMark, idMark, pathMark
	for c := '!'; c <= '~'; c++ {
		if c != '#' {
			t[c] |= arnMark
		}
	}
	return t
}()

// syntax is the form of one kind of name.
type syntax struct {
	longest     int
	begin, rest uint8
	rule        string
}

var (
	idSyntax = syntax{
		256, letter | digit, letter | digit | idMark,
		`must begin with an alphanumeric character, then letters, digits or "_.-:@"`,
	}
	limitSyntax = syntax{
		64, letter, letter | digit | nameMark,
		`must begin with a letter, then letters, digits or "_.-"`,
	}
	resourceSyntax = syntax{
		64, letter, letter | digit | pathMark,
		`must begin with a letter, then letters, digits or "_.-/"`,
	}
	arnSyntax = syntax{
		2048, letter, arnMark,
		`must be an ARN of printable ASCII characters without spaces or "#"`,
	}
)

// matches is the whole string, to the last byte: no newline slips through.
func (s *syntax) matches(v string) bool {
	if v == "" || len(v) > s.longest || class[v[0]]&s.begin == 0 {
		return false
	}
	for i := 1; i < len(v); i++ {
		if class[v[i]]&s.rest == 0 {
			return false
		}
	}
	return true
}

func (s *syntax) check(field, v string) error {
	switch {
	case s.matches(v):
		return nil
	case v == "":
		return invalid(field, v, "must not be empty")
	case utf8.RuneCountInString(v) > s.longest:
		return invalid(field, v, fmt.Sprintf("exceeds the maximum length of %d", s.longest))
	case strings.Contains(v, "#"):
		return invalid(field, v, `must not contain "#"`)
	}
	return invalid(field, v, s.rule)
}

func validEntity(id string) error { return idSyntax.check("entity_id", id) }

// validPrincipal takes an id, an ARN, or no principal at all.
func validPrincipal(p string) error {
	switch {
	case p == "":
		return nil
	case strings.HasPrefix(p, "arn:"):
		return arnSyntax.check("principal", p)
	}
	return idSyntax.check("principal", p)
}

// shortEnough refuses a name that is to be looked up and can be in no store.
func shortEnough(field, v string) error {
	const longest = 1024
	if len(v) > longest {
		return invalid(field, v, fmt.Sprintf("exceeds the maximum length of %d", longest))
	}
	return nil
}

// reservedLimits are attribute names of a stored usage record, where a limit's
// counter stands under the limit's own name.
var reservedLimits = []string{
	"entity_id", "resource", "window", "window_start", "total_events", "ttl",
	"PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK",
}

func validLimitName(name string) error {
	if err := limitSyntax.check("name", name); err != nil {
		return err
	}
	if slices.Contains(reservedLimits, name) {
		return invalid("name", name, "is reserved for usage records; choose another name")
	}
	return nil
}

func validResource(name string) error {
	if !resourceSyntax.matches(name) {
		return resourceSyntax.check("resource", name)
	}
	switch name {
	case "PK", "SK", "GSI4PK", "GSI4SK": // attributes of the registry that counts resources
		return invalid("resource", name, "is reserved by the stored format; choose another name")
	}
	return nil
}

// validCharge checks amounts to be acquired.
func validCharge(a *Amounts) error {
	if a.n == 0 {
		return invalid("consume", "", "must not be empty; name at least one limit")
	}
	for i := range a.n {
		at := a.ref(i)
		if at.limit == "" {
			return invalid("consume", "="+strconv.FormatInt(at.tokens, 10), "must name a limit")
		}
		if at.tokens < 0 {
			return invalid("consume", at.limit+"="+strconv.FormatInt(at.tokens, 10), "must not be negative; use Release or Rollback to give tokens back")
		}
	}
	return nil
}

// maxShown is how much of a value an InvalidError of this package keeps, and
// maxPrinted how much of one that a store made is printed: a path, say.
const maxShown, maxPrinted = 50, 500

// clip keeps an error message readable whatever was passed in.
func clip(v string) string { return clipTo(v, maxShown) }

func clipTo(v string, most int) string {
	n := 0
	for i := range v {
		if n == most {
			return v[:i] + "..."
		}
		n++
	}
	return v
}

func invalid(field, value, reason string) *InvalidError {
	return &InvalidError{Field: field, Value: clip(value), Reason: reason}
}
