package main

import (
	"fmt"
	"math/rand/v2"
)

// keyset holds the keys of a measurement and the order of requests. The order
// has the same length for one key as for a million, so choosing a key costs
// every contender the same.
type keyset struct {
	keys  []string // of equal length
	order []uint32 // indices; the length is a power of two
}

const orderLength = 1 << 20

// newKeyset returns n keys that are all requested equally often.
func newKeyset(n int) *keyset {
	// With a fixed seed, every run has the same order.
	random := rand.New(rand.NewPCG(1, 2))
	return orderedKeyset(n, func() uint32 { return uint32(random.IntN(n)) })
}

// newZipfKeyset returns n keys. Few are requested often, and many now and then:
// a request is for key k with a probability in proportion to 1/(k+1)^1.1.
func newZipfKeyset(n int) *keyset {
	const exponent = 1.1
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), exponent, 1, uint64(n-1))
	return orderedKeyset(n, func() uint32 { return uint32(zipf.Uint64()) })
}

func orderedKeyset(n int, pick func() uint32) *keyset {
	s := &keyset{keys: make([]string, n), order: make([]uint32, orderLength)}
	for i := range s.keys {
		s.keys[i] = fmt.Sprintf("key-%012d", i)
	}

	for i := range s.order {
		s.order[i] = pick()
	}
	return s
}

// picker iterates over the order of a keyset. It continues where the last
// sample ended. Otherwise a short sample would use the same few keys each time
// and find them in the CPU cache.
type picker struct {
	*keyset
	worker, at int
}

// pickers returns one picker for each worker, spread over the order.
func (s *keyset) pickers(workers int) []picker {
	all := make([]picker, workers)
	for w := range all {
		all[w] = picker{s, w, w * orderLength / workers}
	}
	return all
}

func (p *picker) next() string {
	key := p.keys[p.order[p.at&(orderLength-1)]]
	p.at++
	return key
}
