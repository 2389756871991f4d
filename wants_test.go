package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// crush is waiters that ask, take, give back and leave at random, at one moment:
// so nothing refills, and what is there is known.
type crush struct {
	*testing.T
	lines
	rand   *rand.Rand
	tokens map[string]int64 // of each bucket
	needs  map[*waiter][]string
	all    []*waiter
}

var moment = time.Unix(1e9, 0)

// ask is one attempt of a waiter. Something may be given back while it asks.
func (c *crush) ask(me *waiter) {
	need := int64(1 + me.arrived%5)
	c.asks(me)
	var d Decision
	for _, e := range c.needs[me] {
		if have := c.tokens[e]; have < need {
			limit := PerDay("rpm", 100)
			d.Statuses = append(d.Statuses, Status{
				Entity: e, Resource: "r", Limit: limit, Available: have, Requested: need, Exceeded: true, RetryAfter: time.Hour,
			})
		}
	}
	if d.Statuses == nil {
		for _, e := range c.needs[me] {
			c.tokens[e] -= need
		}
		c.served(me, &Lease{}, moment)
		c.drop(me)
		return
	}
	if c.rand.IntN(4) == 0 {
		c.give()
	}
	if !c.refused(me, d, moment) {
		c.ask(me)
	}
}

func (c *crush) drop(me *waiter) {
	c.leave(me, moment)
	c.all = slices.DeleteFunc(c.all, func(w *waiter) bool { return w == me })
}

func (c *crush) give() {
	e := fmt.Sprint(c.rand.IntN(4))
	n := min(1+c.rand.Int64N(4), 100-c.tokens[e])
	c.tokens[e] += n
	c.credited("", []Credit{{Account: &Account{Entity: e, Resource: "r"}, Amounts: Tokens("rpm", n)}}, moment)
}

// check finds waiters that sleep though the estimate covers them, and books that
// do not agree.
func (c *crush) check() {
	c.Helper()
	refs := map[*want]int{}
	for _, me := range c.all {
		enough := len(me.lacks) > 0
		for _, k := range me.lacks {
			refs[k.want]++
			enough = enough && k.level >= k.need
		}
		if !me.granted && (enough || me.watched == nil || me.watched.watch[me.index] != me) {
			c.Fatalf("a waiter sleeps at %v, enough: %t", me.watched, enough)
		}
		if me.granted && (me.watched != nil || len(me.wake) == 0) {
			c.Fatal("a waiter was not woken")
		}
	}
	for of, in := range c.of {
		if in.refs != refs[in] || in.refs == 0 {
			c.Fatalf("%v has %d waiters by its own count, %d in truth", of, in.refs, refs[in])
		}
	}
}

// run lets waiters who were woken ask, until none is left.
func (c *crush) run() {
	for again := true; again; {
		again = false
		for _, me := range c.all {
			if me.granted {
				<-me.wake
				c.ask(me)
				again = true
				break
			}
		}
	}
}

// No waiter sleeps while what it lacks is there by all that this process knows,
// whatever happens in between.
func TestNoWaiterIsForgotten(t *testing.T) {
	for seed := range uint64(300) {
		c := &crush{T: t, rand: rand.New(rand.NewPCG(seed, 2)), tokens: map[string]int64{}, needs: map[*waiter][]string{}}
		for i := range 200 {
			switch c.rand.IntN(6) {
			case 0, 1:
				me, _ := c.join(place{entity: fmt.Sprint(i)}, "")
				c.needs[me] = []string{fmt.Sprint(c.rand.IntN(4)), fmt.Sprint(c.rand.IntN(4))}
				if c.needs[me][0] == c.needs[me][1] {
					c.needs[me] = c.needs[me][:1]
				}
				c.all = append(c.all, me)
				c.ask(me)
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
		for _, me := range c.all { // all is known here, so none who fits is left
			fits := true
			for _, e := range c.needs[me] {
				fits = fits && c.tokens[e] >= int64(1+me.arrived%5)
			}
			if fits {
				t.Fatalf("seed %d: a waiter sleeps, though there is enough", seed)
			}
		}
	}
}
