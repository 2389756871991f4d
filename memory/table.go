package memory

import (
	"iter"
	"math/bits"
)

// table finds buckets, or usage, by the hash of their entity. It grows and
// shrinks by one chain at a time, with about one node in each: no call waits
// while all of it moves, and the memory of nodes that went comes back, which that
// of a map does not. The zero value is empty.
type table[T any, P node[T]] struct {
	segments []*segment[T]
	chains   int
	nodes    int
}

// node is what tables hold: something with a link.
type node[T any] interface {
	*T
	linked() *link[T]
}

// link is what a node has for its table.
type link[T any] struct {
	next *T     // in the same chain
	hash uint64 // of the entity
}

func (l *link[T]) linked() *link[T] { return l }

// segment is the heads of some chains.
type segment[T any] [perSegment]*T

const perSegment = 64

// chain is the place of the first node of a chain.
func (t *table[T, P]) chain(i int) **T { return &t.segments[i/perSegment][i%perSegment] }

// index is the chain of a hash, in a table that has one at least. The number of
// chains need not be a power of two: those that are not there yet are still part
// of the chain they will come from.
func (t *table[T, P]) index(hash uint64) int {
	hash >>= shardBits // which have chosen the shard
	half := 1 << (bits.Len(uint(t.chains)) - 1)
	if i := int(hash) & (2*half - 1); i < t.chains {
		return i
	}
	return int(hash) & (half - 1)
}

// first is the first of the chain in which nodes with a hash are, nil if there
// is none.
func (t *table[T, P]) first(hash uint64) *T {
	if t.chains == 0 {
		return nil
	}
	return *t.chain(t.index(hash))
}

// add puts a node in, which has its hash.
func (t *table[T, P]) add(n *T) {
	t.nodes++
	if t.nodes > t.chains {
		t.grow()
	}
	t.push(t.index(P(n).linked().hash), n)
}

func (t *table[T, P]) push(i int, n *T) {
	head := t.chain(i)
	P(n).linked().next, *head = *head, n
}

// remove takes a node out.
func (t *table[T, P]) remove(n *T) {
	t.prune(t.index(P(n).linked().hash), func(other *T) bool { return other != n })
	t.fit()
}

// prune takes those nodes out of a chain that keep does not want, and counts
// what it looked at. Chains go when fit is called.
func (t *table[T, P]) prune(i int, keep func(*T) bool) (looked int) {
	for at := t.chain(i); *at != nil; looked++ {
		if keep(*at) {
			at = &P(*at).linked().next
			continue
		}
		*at = P(*at).linked().next
		t.nodes--
	}
	return looked
}

// all ranges over the nodes. None may be added or removed meanwhile.
func (t *table[T, P]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range t.chains {
			for n := *t.chain(i); n != nil; n = P(n).linked().next {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// grow adds a chain, and moves to it what belongs there.
func (t *table[T, P]) grow() {
	if t.chains%perSegment == 0 {
		t.segments = append(t.segments, new(segment[T]))
	}
	t.chains++
	last := t.chains - 1
	if last == 0 {
		return
	}
	for at := t.chain(partner(last)); *at != nil; {
		n := *at
		if l := P(n).linked(); t.index(l.hash) != last {
			at = &l.next
			continue
		}
		*at = P(n).linked().next
		t.push(last, n)
	}
}

// fit drops chains until there are at most two for each node: about as many
// steps as nodes were removed since.
func (t *table[T, P]) fit() {
	for t.chains > 2*t.nodes {
		t.shrink()
	}
}

// shrink moves the last chain to where it came from.
func (t *table[T, P]) shrink() {
	last := t.chains - 1
	if last > 0 {
		end := t.chain(partner(last))
		for *end != nil {
			end = &P(*end).linked().next
		}
		*end = *t.chain(last)
	}
	*t.chain(last) = nil
	t.chains = last
	if last%perSegment == 0 {
		t.segments[last/perSegment] = nil
		t.segments = t.segments[:last/perSegment]
	}
	if last == 0 {
		t.segments = nil
	}
}

// partner is the chain that a later one comes from, and goes back to.
func partner(i int) int { return i - 1<<(bits.Len(uint(i))-1) }
