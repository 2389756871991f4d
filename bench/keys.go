package main

import (
	"fmt"
	"math/rand/v2"
)

// keyset is the keys of a measurement and the order in which they are asked
// for. The order is as long for one key as for a million, so choosing a key
// costs every contender the same.
type keyset struct {
	keys  []string // all of the same length
	order []uint32 // indices, a power of two of them
}

const orderLength = 1 << 20

func newKeyset(n int) *keyset {
	s := &keyset{keys: make([]string, n), order: make([]uint32, orderLength)}
	for i := range s.keys {
		s.keys[i] = fmt.Sprintf("key-%012d", i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range s.order {
		s.order[i] = uint32(random.IntN(n))
	}
	return s
}

// picker goes through the order of a keyset. It goes on where the last sample
// ended: otherwise a short sample would meet the same few keys each time, and
// find them in the cache.
type picker struct {
	*keyset
	at int
}

// pickers is one for each worker, spread over the order.
func (s *keyset) pickers(workers int) []picker {
	all := make([]picker, workers)
	for w := range all {
		all[w] = picker{s, w * orderLength / workers}
	}
	return all
}

func (p *picker) next() string {
	key := p.keys[p.order[p.at&(orderLength-1)]]
	p.at++
	return key
}
