package memory

import (
	"math/rand/v2"
	"testing"
)

// A table finds what was added and not removed, as a map would, and has about as
// many chains as nodes at any time.
func TestTableFollowsItsNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var of table[entry, *entry]
	want := map[*entry]bool{}
	check := func() {
		t.Helper()
		if of.nodes != len(want) || of.chains < len(want) || of.chains > 2*len(want) {
			t.Fatalf("%d nodes in %d chains, want %d", of.nodes, of.chains, len(want))
		}
		if most := of.chains/perSegment + 1; len(of.segments) > most {
			t.Fatalf("%d chains have %d segments", of.chains, len(of.segments))
		}
		all := 0
		for n := range of.all() {
			if all++; !want[n] {
				t.Fatal("something is there that should not be")
			}
		}
		if all != len(want) {
			t.Fatalf("%d nodes were found, want %d", all, len(want))
		}
		for n := range want {
			found := of.first(n.hash)
			for found != nil && found != n {
				found = found.next
			}
			if found == nil {
				t.Fatal("a node is not in the chain of its hash")
			}
		}
	}
	for _, size := range []int{1, 500, 3, 5000, 200, 0} { // it grows and shrinks to each
		for len(want) < size {
			n := &entry{}
			n.hash = rng.Uint64()
			of.add(n)
			want[n] = true
		}
		for n := range want {
			if len(want) == size {
				break
			}
			of.remove(n)
			delete(want, n)
		}
		check()
	}
	if of.segments != nil {
		t.Error("an empty table has segments")
	}
}
