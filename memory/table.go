package memory

import (
	"iter"
	"math/bits"
)

// table is a hash table of buckets or usage, by the hash of their entity. It grows
// and shrinks by one chain at a time, with about one node in each. No call waits
// for a rehash of the whole table, and memory of removed nodes is freed, unlike
// that of a map. The zero value is empty.
type table[T any, P node[T]] struct {
	segments []*segment[T]
	chains   int
	nodes    int
}

// node is an element of a table. It embeds a link.
type node[T any] interface {
	*T
	linked() *link[T]
}

// link connects a node to its table.
type link[T any] struct {
	next *T     // in the same chain
	hash uint64 // of the entity
}

func (l *link[T]) linked() *link[T] { return l }

// segment holds the heads of some chains.
type segment[T any] [perSegment]*T

const perSegment = 64

// chain returns a pointer to the head of a chain.
func (t *table[T, P]) chain(i int) **T { return &t.segments[i/perSegment][i%perSegment] }

// index returns the chain of a hash. The table has at least one chain. The number
// of chains need not be a power of two: the nodes of a chain that does not exist
// yet are in the chain that it will be split from.
func (t *table[T, P]) index(hash uint64) int {
	hash >>= shardBits // the low bits select the shard
	// The table has between half and 2*half chains. A chain that does not exist
	// yet is still part of its partner.
	half := 1 << (bits.Len(uint(t.chains)) - 1)
	if i := int(hash) & (2*half - 1); i < t.chains {
		return i
	}
	return int(hash) & (half - 1)
}

// first returns the first node of the chain for a hash, or nil.
func (t *table[T, P]) first(hash uint64) *T {
	if t.chains == 0 {
		return nil
	}
	return *t.chain(t.index(hash))
}

// add inserts a node whose hash is set.
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

// remove removes a node.
func (t *table[T, P]) remove(n *T) {
	t.prune(t.index(P(n).linked().hash), func(other *T) bool { return other != n })
	t.fit()
}

// prune removes the nodes of a chain for which keep returns false. The caller
// calls fit afterwards.
func (t *table[T, P]) prune(i int, keep func(*T) bool) {
	for at := t.chain(i); *at != nil; {
		// The loop keeps a pointer to the link, so that removing the head is no
		// special case.
		if keep(*at) {
			at = &P(*at).linked().next
			continue
		}
		*at = P(*at).linked().next
		t.nodes--
	}
}

// all iterates over the nodes. The loop must not add or remove nodes.
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

// grow adds a chain and moves the nodes that belong to it.
func (t *table[T, P]) grow() {
	if t.chains%perSegment == 0 {
		t.segments = append(t.segments, new(segment[T]))
	}

	t.chains++
	last := t.chains - 1
	// The first chain has no partner to split.
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

// fit removes chains until there are at most two for each node. It takes about as
// many steps as nodes were removed.
func (t *table[T, P]) fit() {
	for t.chains > 2*t.nodes {
		t.shrink()
	}
}

// shrink merges the last chain into the chain it was split from.
func (t *table[T, P]) shrink() {
	last := t.chains - 1

	if last > 0 {
		// The order in a chain does not matter, so one chain is appended to the
		// other.
		end := t.chain(partner(last))
		for *end != nil {
			end = &P(*end).linked().next
		}
		*end = *t.chain(last)
	}

	*t.chain(last) = nil
	t.chains = last
	// A segment without chains is freed, and the list as well once the table is
	// empty.
	if last%perSegment == 0 {
		t.segments[last/perSegment] = nil
		t.segments = t.segments[:last/perSegment]
	}

	if last == 0 {
		t.segments = nil
	}
}

// partner returns the chain that chain i is split from and merged into.
func partner(i int) int { return i - 1<<(bits.Len(uint(i))-1) }
