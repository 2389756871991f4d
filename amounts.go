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

// Amounts says how many whole tokens of which limits: Tokens("rpm", 1).And("tpm", 500).
// It is an immutable value; up to four limits need no memory of their own. The
// zero value is nothing at all. Naming a limit with amount 0 is not the same as
// leaving it out: an acquire of 0 is refused while that limit is in debt.
type Amounts struct {
	first [4]amount
	more  *[]amount // from the fifth on; never written once shared
	n     int
}

type amount struct {
	limit  string
	tokens int64
}

// Tokens is n whole tokens of one limit.
func Tokens(limit string, n int64) Amounts {
	return Amounts{first: [4]amount{{limit, n}}, n: 1}
}

// And is a plus n whole tokens of limit; the same limit named twice adds up.
func (a Amounts) And(limit string, n int64) Amounts {
	for i := range a.n {
		if a.ref(i).limit == limit {
			a.own()
			at := a.ref(i)
			at.tokens = bucket.Add(at.tokens, n)
			return a
		}
	}
	if a.n < len(a.first) {
		a.first[a.n] = amount{limit, n}
	} else {
		a.own()
		*a.more = append(*a.more, amount{limit, n})
	}
	a.n++
	return a
}

// own makes more a copy that nobody shares.
func (a *Amounts) own() {
	var more []amount
	if a.more != nil {
		more = slices.Clone(*a.more)
	}
	if a.n >= len(a.first) {
		a.more = &more
	}
}

func (a *Amounts) ref(i int) *amount {
	if i < len(a.first) {
		return &a.first[i]
	}
	return &(*a.more)[i-len(a.first)]
}

// Len is how many limits are named.
func (a Amounts) Len() int { return a.n }

// At is the limit named i-th, counted from 0 in the order given, and its amount.
// It is a method of the pointer because stores call it where copies count.
func (a *Amounts) At(i int) (limit string, n int64) {
	at := a.ref(i)
	return at.limit, at.tokens
}

// Get is the amount of limit, 0 when it is not named.
func (a Amounts) Get(limit string) int64 {
	n, _ := a.Lookup(limit)
	return n
}

// Lookup returns the amount of limit, and whether limit is named at all.
func (a *Amounts) Lookup(limit string) (n int64, named bool) {
	for i := range a.n {
		if at := a.ref(i); at.limit == limit {
			return at.tokens, true
		}
	}
	return 0, false
}

// All ranges over limits and amounts in the order given.
func (a Amounts) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for i := range a.n {
			if at := a.ref(i); !yield(at.limit, at.tokens) {
				return
			}
		}
	}
}

// Equal tells whether both name the same limits with the same amounts, in any
// order.
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

// String reads like "rpm=1 tpm=500".
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

// MarshalJSON gives an object of amounts by limit.
func (a Amounts) MarshalJSON() ([]byte, error) {
	return json.Marshal(maps.Collect(a.All()))
}

// plus is the sum of both.
func (a Amounts) plus(b Amounts) Amounts {
	for limit, n := range b.All() {
		a = a.And(limit, n)
	}
	return a
}

// negated is every amount with the other sign.
func (a Amounts) negated() Amounts {
	a.own()
	for i := range a.n {
		at := a.ref(i)
		at.tokens = bucket.Sub(0, at.tokens)
	}
	return a
}

// where is the part of a that keep accepts.
func (a Amounts) where(keep func(limit string, n int64) bool) Amounts {
	var out Amounts
	for limit, n := range a.All() {
		if keep(limit, n) {
			out = out.And(limit, n)
		}
	}
	return out
}

// of is the part of a that has a limit among limits.
func (a Amounts) of(limits []Limit) Amounts {
	return a.where(func(limit string, _ int64) bool { return hasLimit(limits, limit) })
}

func (a Amounts) nonzero() Amounts { return a.where(func(_ string, n int64) bool { return n != 0 }) }

func (a Amounts) positive() Amounts { return a.where(func(_ string, n int64) bool { return n > 0 }) }

func (a Amounts) negative() Amounts { return a.where(func(_ string, n int64) bool { return n < 0 }) }

func hasLimit(limits []Limit, name string) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.Name == name })
}
