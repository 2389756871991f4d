package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// waitSimulation drives waiters that ask, take, give back and leave at random. Its
// time stands still, so nothing refills and the balances are known.
type waitSimulation struct {
	*testing.T
	waitQueues
	rand   *rand.Rand
	tokens map[string]int64 // the balance of each bucket
	needs  map[*waiter][]string
	all    []*waiter
}

var moment = time.Unix(1e9, 0)

// ask makes one attempt of a waiter. Tokens may be given back in between.
func (c *waitSimulation) ask(w *waiter) {
	need := int64(1 + w.arrival%5)
	c.beforeAcquire(w)
	var d Decision
	for _, e := range c.needs[w] {
		if have := c.tokens[e]; have < need {
			limit := PerDay("rpm", 100)
			d.Statuses = append(d.Statuses, Status{
				Entity: e, Resource: "r", Limit: limit, Available: have, Requested: need, Exceeded: true,
				RetryAfter: time.Hour,
			})
		}
	}
	if d.Statuses == nil {
		for _, e := range c.needs[w] {
			c.tokens[e] -= need
		}
		c.admitted(w, &Lease{}, moment)
		c.drop(w)
		return
	}
	if c.rand.IntN(4) == 0 {
		c.give()
	}
	if !c.refused(w, d, moment) {
		c.ask(w)
	}
}

func (c *waitSimulation) drop(w *waiter) {
	c.leave(w, moment)
	c.all = slices.DeleteFunc(c.all, func(other *waiter) bool { return other == w })
}

func (c *waitSimulation) give() {
	e := fmt.Sprint(c.rand.IntN(4))
	n := min(1+c.rand.Int64N(4), 100-c.tokens[e])
	c.tokens[e] += n
	c.credited("", []Credit{{Account: &Account{Entity: e, Resource: "r"}, Amounts: Tokens("rpm", n)}}, moment)
}

// check fails the test if a waiter sleeps though the estimates cover its needs, or
// if a reference count is wrong.
func (c *waitSimulation) check() {
	c.Helper()
	refs := map[*estimate]int{}
	for _, w := range c.all {
		enough := len(w.shortages) > 0
		for _, s := range w.shortages {
			refs[s.estimate]++
			enough = enough && s.level >= s.need
		}
		if !w.reserved && (enough || w.waitsFor == nil || w.waitsFor.waiters[w.heapIndex] != w) {
			c.Fatalf("a waiter sleeps at %v, enough: %t", w.waitsFor, enough)
		}
		if w.reserved && (w.waitsFor != nil || len(w.wake) == 0) {
			c.Fatal("a waiter was not woken")
		}
	}
	for key, est := range c.byKey {
		if est.refs != refs[est] || est.refs == 0 {
			c.Fatalf("%v has %d waiters by its own count, want %d", key, est.refs, refs[est])
		}
	}
}

// run lets woken waiters ask until none is left.
func (c *waitSimulation) run() {
	for again := true; again; {
		again = false
		for _, w := range c.all {
			if w.reserved {
				<-w.wake
				c.ask(w)
				again = true
				break
			}
		}
	}
}

// TestNoWaiterIsForgotten checks that no waiter sleeps while the estimates cover
// its needs, under random histories.
func TestNoWaiterIsForgotten(t *testing.T) {
	for seed := range uint64(300) {
		c := &waitSimulation{
			T: t, rand: rand.New(rand.NewPCG(seed, 2)), tokens: map[string]int64{},
			needs: map[*waiter][]string{},
		}
		for i := range 200 {
			switch c.rand.IntN(6) {
			case 0, 1:
				w, _ := c.join(queueKey{entity: fmt.Sprint(i)}, "")
				c.needs[w] = []string{fmt.Sprint(c.rand.IntN(4)), fmt.Sprint(c.rand.IntN(4))}
				if c.needs[w][0] == c.needs[w][1] {
					c.needs[w] = c.needs[w][:1]
				}
				c.all = append(c.all, w)
				c.ask(w)
			case 2, 3, 4:
				c.give()
			case 5:
				if len(c.all) > 0 {
					c.drop(c.all[c.rand.IntN(len(c.all))])
				}
			}
			c.check()
			if c.rand.IntN(2) == 0 {
				c.run()
				c.check()
			}
		}
		c.run()
		for _, w := range c.all { // the estimates are exact here, so every waiter that fits was served
			fits := true
			for _, e := range c.needs[w] {
				fits = fits && c.tokens[e] >= int64(1+w.arrival%5)
			}
			if fits {
				t.Fatalf("seed %d: a waiter sleeps, though there is enough", seed)
			}
		}
	}
}
