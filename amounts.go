package limiter

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Amounts is a number of whole tokens for each named limit, such as
// Tokens("rpm", 1).And("tpm", 500). It is an immutable value; up to four limits
// need no allocation. The zero value names no limit. A limit with amount 0 differs
// from an absent one: an acquire of 0 is refused while the limit is in debt.
type Amounts struct {
	first [4]amount
	more  *[]amount // from the fifth on; copied before each write
	n     int
}

type amount struct {
	limit  string
	tokens int64
}

// Tokens returns n whole tokens of one limit.
func Tokens(limit string, n int64) Amounts {
	return Amounts{first: [4]amount{{limit, n}}, n: 1}
}

// And returns a plus n whole tokens of limit. Naming a limit again adds to it.
func (a Amounts) And(limit string, n int64) Amounts {
	for i := range a.n {
		if a.ref(i).limit == limit {
			// The copy of a shares its fifth and later limits with the
			// original.
			a.unshare()
			at := a.ref(i)
			at.tokens = bucket.Add(at.tokens, n)
			return a
		}
	}

	if a.n < len(a.first) {
		a.first[a.n] = amount{limit, n}
	} else {
		a.unshare()
		*a.more = append(*a.more, amount{limit, n})
	}

	a.n++
	return a
}

// unshare replaces more by a copy, so that it can be written.
func (a *Amounts) unshare() {
	if a.n < len(a.first) {
		return
	}

	var more []amount
	if a.more != nil {
		more = slices.Clone(*a.more)
	}
	a.more = &more
}

func (a *Amounts) ref(i int) *amount {
	if i < len(a.first) {
		return &a.first[i]
	}
	return &(*a.more)[i-len(a.first)]
}

// Len returns the number of named limits.
func (a Amounts) Len() int { return a.n }

// At returns the i-th limit, counted from 0 in the order given, and its amount.
// It has a pointer receiver because stores call it on the hot path.
func (a *Amounts) At(i int) (limit string, n int64) {
	at := a.ref(i)
	return at.limit, at.tokens
}

// Get returns the amount of limit, or 0 if it is not named.
func (a Amounts) Get(limit string) int64 {
	n, _ := a.Lookup(limit)
	return n
}

// Lookup returns the amount of limit and reports whether limit is named.
func (a *Amounts) Lookup(limit string) (n int64, named bool) {
	for i := range a.n {
		if at := a.ref(i); at.limit == limit {
			return at.tokens, true
		}
	}
	return 0, false
}

// All iterates over limits and amounts in the order given.
func (a Amounts) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for i := range a.n {
			if at := a.ref(i); !yield(at.limit, at.tokens) {
				return
			}
		}
	}
}

// Equal reports whether a and b name the same limits with the same amounts, in
// any order.
func (a Amounts) Equal(b Amounts) bool {
	if a.n != b.n {
		return false
	}

	for i := range a.n {
		at := a.ref(i)
		if n, named := b.Lookup(at.limit); !named || n != at.tokens {
			return false
		}
	}
	return true
}

// String formats a like "rpm=1 tpm=500".
func (a Amounts) String() string {
	var b strings.Builder
	for limit, n := range a.All() {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(limit + "=" + strconv.FormatInt(n, 10))
	}
	return b.String()
}

// MarshalJSON encodes a as an object with the amount of each limit.
func (a Amounts) MarshalJSON() ([]byte, error) {
	return json.Marshal(maps.Collect(a.All()))
}

// names returns the named limits.
func (a Amounts) names() []string {
	names := make([]string, 0, a.n)
	for limit := range a.All() {
		names = append(names, limit)
	}
	return names
}

// plus returns the sum of a and b.
func (a Amounts) plus(b Amounts) Amounts {
	for limit, n := range b.All() {
		a = a.And(limit, n)
	}
	return a
}

// negated returns a with the sign of every amount changed.
func (a Amounts) negated() Amounts {
	// The copy of a shares its fifth and later limits with the original.
	a.unshare()
	for i := range a.n {
		at := a.ref(i)
		at.tokens = bucket.Sub(0, at.tokens)
	}
	return a
}

// filter returns the part of a that keep accepts.
func (a Amounts) filter(keep func(limit string, n int64) bool) Amounts {
	var out Amounts
	for limit, n := range a.All() {
		if keep(limit, n) {
			out = out.And(limit, n)
		}
	}
	return out
}

// forLimits returns the part of a that limits cover.
func (a Amounts) forLimits(limits []Limit) Amounts {
	return a.filter(func(limit string, _ int64) bool { return hasLimit(limits, limit) })
}

func (a Amounts) nonzero() Amounts { return a.filter(func(_ string, n int64) bool { return n != 0 }) }

func (a Amounts) positive() Amounts { return a.filter(func(_ string, n int64) bool { return n > 0 }) }

func (a Amounts) negative() Amounts { return a.filter(func(_ string, n int64) bool { return n < 0 }) }

func hasLimit(limits []Limit, name string) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.Name == name })
}
