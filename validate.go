package limiter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Classes of bytes in IDs and names.
const (
	letter   = 1 << iota // starts a limit, a resource or an ID
	digit                // starts an ID
	idMark               // _ . - : @ inside an ID
	nameMark             // _ . - inside the name of a limit
	pathMark             // _ . - / inside a resource
	arnMark              // printable ASCII without #, inside an ARN
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

// syntax describes the form of one kind of name.
type syntax struct {
	maxLen      int
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

// matches reports whether every byte of v fits, so that a trailing newline does
// not pass.
func (s *syntax) matches(v string) bool {
	if v == "" || len(v) > s.maxLen || class[v[0]]&s.begin == 0 {
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
	case utf8.RuneCountInString(v) > s.maxLen:
		return invalid(field, v, fmt.Sprintf("exceeds the maximum length of %d", s.maxLen))
	case strings.Contains(v, "#"):
		return invalid(field, v, `must not contain "#"`)
	}
	return invalid(field, v, s.rule)
}

func validEntity(id string) error { return idSyntax.check("entity_id", id) }

// validPrincipal accepts an ID, an ARN, or "".
func validPrincipal(p string) error {
	switch {
	case p == "":
		return nil
	case strings.HasPrefix(p, "arn:"):
		return arnSyntax.check("principal", p)
	}
	return idSyntax.check("principal", p)
}

// validLength rejects a name that is too long to be in any store.
func validLength(field, v string) error {
	const maxLen = 1024
	if len(v) > maxLen {
		return invalid(field, v, fmt.Sprintf("exceeds the maximum length of %d", maxLen))
	}
	return nil
}

// reservedLimits lists the attribute names of a stored usage record, which keeps
// the counter of each limit under the name of the limit.
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
	// These are attributes of the registry that counts resources.
	switch name {
	case "PK", "SK", "GSI4PK", "GSI4SK":
		return invalid("resource", name, "is reserved by the stored format; choose another name")
	}
	return nil
}

// validCharge checks the amounts of an acquire.
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
			return invalid("consume", at.limit+"="+strconv.FormatInt(at.tokens, 10),
				"must not be negative; use Release or Rollback to give tokens back")
		}
	}
	return nil
}

// An InvalidError of this package keeps maxShown characters of its value. Error
// prints up to maxPrinted characters of a longer value from a store, such as a
// path.
const maxShown, maxPrinted = 50, 500

// truncate shortens a value for an error message.
func truncate(v string) string { return truncateTo(v, maxShown) }

func truncateTo(v string, maxRunes int) string {
	n := 0
	for i := range v {
		if n == maxRunes {
			return v[:i] + "..."
		}
		n++
	}
	return v
}

func invalid(field, value, reason string) *InvalidError {
	return &InvalidError{Field: field, Value: truncate(value), Reason: reason}
}

// unknown returns an *InvalidError that wraps ErrUnknown.
func unknown(field, value, reason string) *InvalidError {
	return &InvalidError{Field: field, Value: truncate(value), Reason: reason, Err: ErrUnknown}
}
