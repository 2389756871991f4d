package memory

import (
	"math/rand/v2"
	"testing"
)

// TestTableFollowsItsNodes checks that a table holds the same nodes as a map, and
// about as many chains as nodes.
func TestTableFollowsItsNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var table table[entry, *entry]
	want := map[*entry]bool{}
	check := func() {
		t.Helper()
		if table.nodes != len(want) || table.chains < len(want) || table.chains > 2*len(want) {
			t.Fatalf("%d nodes in %d chains, want %d", table.nodes, table.chains, len(want))
		}
		if len(table.segments) > table.chains/perSegment+1 {
			t.Fatalf("%d chains have %d segments", table.chains, len(table.segments))
		}
		all := 0
		for n := range table.all() {
			if all++; !want[n] {
				t.Fatal("the table holds a node that was not added, or was removed")
			}
		}
		if all != len(want) {
			t.Fatalf("%d nodes were found, want %d", all, len(want))
		}
		for n := range want {
			found := table.first(n.hash)
			for found != nil && found != n {
				found = found.next
			}
			if found == nil {
				t.Fatal("a node is not in the chain of its hash")
			}
		}
	}
	for _, size := range []int{1, 500, 3, 5000, 200, 0} { // the table grows and shrinks to each size
		for len(want) < size {
			n := &entry{}
			n.hash = rng.Uint64()
			table.add(n)
			want[n] = true
		}
		for n := range want {
			if len(want) == size {
				break
			}
			table.remove(n)
			delete(want, n)
		}
		check()
	}
	if table.segments != nil {
		t.Error("an empty table has segments")
	}
}
