package chain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/chain"
)

// TestClimb follows chains of single letters. Each letter is its own parent's child; a
// capital letter has no generation, and a dot after a letter that it does not cascade.
func TestClimb(t *testing.T) {
	for _, test := range []struct {
		tree, want string
		tooDeep    bool
	}{
		{"a", "a", false},
		{"ab", "ab", false},
		{"abcd", "abcd", false},
		{"a.bc", "a", false},
		{"ab.c", "ab", false},
		{"Abcd", "Ab", false},
		{"aBcd", "aBc", false},
		{"abCd", "abCd", false},
		{"ABcd", "AB", false},
		{"aba", "ab", false},
		{"aa", "a", false},
		{"abcdefgh", "abcdefgh", false},
		{"abcdefghi", "abcdefghi", true},
		{"abcdefgh.i", "abcdefgh", false},
	} {
		places := map[string]chain.Place{}
		ids := strings.Split(strings.ReplaceAll(test.tree, ".", ""), "")
		for i, id := range ids[:len(ids)-1] {
			p := chain.Place{Parent: ids[i+1], Cascade: !strings.Contains(test.tree, id+".")}
			if strings.ToLower(id) == id {
				p.Generation = 1
			}
			places[id] = p
		}

		c := chain.Begin(ids[0])
		tooDeep := false
		for next := ids[0]; next != ""; {
			next, tooDeep = c.Next(places[next])
		}
		if got := strings.Join(c.Entities, ""); got != test.want || tooDeep != test.tooDeep {
			t.Errorf("%s: got %s, too deep %v; want %s, %v", test.tree, got, tooDeep, test.want, test.tooDeep)
		}
		if slices.Contains(c.Entities, "") {
			t.Errorf("%s: %q", test.tree, c.Entities)
		}
	}
}
