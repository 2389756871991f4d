package limiter_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// wantFailed checks which waiters a switch refused.
func (c *crowd) wantFailed(want ...string) {
	c.t.Helper()
	c.reset()
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []string
	for e, err := range c.failed {
		if _, off := errors.AsType[*limiter.DisabledError](err); !off {
			c.t.Errorf("%s: error %v, want *limiter.DisabledError", e, err)
		}
		got = append(got, e)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Errorf("refused are %v, want %v", got, want)
	}
}

// TestWaitersHearOfDisable checks that a waiter returns as soon as a level of its
// entity, of its parent or of its resource is disabled.
func TestWaitersHearOfDisable(t *testing.T) {
	all := []string{alice, "bob", "carol"} // alice and bob lack tokens of the project
	for name, test := range map[string]struct {
		of    limiter.Scope
		stops []string
	}{
		"first waiter of an estimate": {limiter.Scope{Entity: alice}, []string{alice}},
		"last waiter of an estimate":  {limiter.Scope{Entity: "bob"}, []string{"bob"}},
		"parent":                      {limiter.Scope{Entity: project}, all},
		"parent and resource":         {limiter.Scope{Entity: project, Resource: resource}, all},
		"resource":                    {limiter.Scope{Resource: resource}, all},
		"everything":                  {limiter.Scope{}, all},
		"another entity":              {limiter.Scope{Entity: "dave"}, nil},
		"another resource":            {limiter.Scope{Resource: "other"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runCrowd(t, func(c *crowd) {
				check(c.t, c.SetLimits(bg, project, "", limiter.PerDay("rpm", 60)))
				c.children(all...)
				c.take(c.t, "carol", rpm(20))
				check(c.t, c.SetLimits(bg, "carol", "", limiter.PerDay("rpm", 20)))
				c.take(c.t, alice, rpm(40))
				for _, e := range all {
					c.wait(e, rpm(20))
				}
				begin := time.Now()
				check(c.t, c.Disable(bg, test.of, "leaked"))
				c.wantFailed(test.stops...)
				if took := time.Since(begin); took != 0 {
					c.t.Errorf("it took %v", took)
				}
				c.wantServed()
			}, limiter.PerDay("rpm", 100))
		})
	}
}

// TestDisableWhileAskingIsNotOverlooked disables a level while the answer to a
// waiter is on its way.
func TestDisableWhileAskingIsNotOverlooked(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.take(c.t, alice, rpm(100))
		c.after[alice] = func(out limiter.Outcome) (limiter.Outcome, error) {
			return out, c.Disable(bg, limiter.Scope{Entity: alice}, "leaked")
		}
		c.wait(alice, rpm(20))
		c.wantFailed(alice)
	}, limiter.PerDay("rpm", 100))
}

// TestWaitersHearOfFills checks that a top-up and a reset serve the waiters that
// they may serve at once.
func TestWaitersHearOfFills(t *testing.T) {
	topUp := func(n int64) func(*crowd, string) {
		return func(c *crowd, entity string) {
			done, err := c.TopUp(bg, entity, resource, rpm(n), "id-1")
			if check(c.t, err); !done {
				c.t.Error("the top-up was not carried out")
			}
		}
	}
	for name, test := range map[string]struct {
		fill   func(*crowd, string)
		of     string
		served []string
	}{
		"top-up":               {topUp(30), alice, []string{alice}},
		"top-up of the parent": {topUp(30), project, []string{"bob"}},
		"small top-up":         {topUp(29), alice, nil},
		"reset": {func(c *crowd, e string) {
			check(c.t, c.Reset(bg, e, resource))
		}, alice, []string{alice}},
		"reset of a limit": {func(c *crowd, e string) {
			check(c.t, c.Reset(bg, e, resource, "rpm"))
		}, alice, []string{alice}},
		"reset of the parent": {func(c *crowd, e string) {
			check(c.t, c.Reset(bg, e, resource))
		}, project, []string{"bob"}},
		"reset of another bucket": {func(c *crowd, e string) { check(c.t, c.Reset(bg, e, resource)) }, "dave", nil},
	} {
		for when, asking := range map[string]bool{"asleep": false, "asking": true} {
			t.Run(name+"/"+when, func(t *testing.T) {
				runCrowd(t, func(c *crowd) {
					c.children("bob")
					for _, e := range []string{alice, project, "dave"} {
						c.take(c.t, e, rpm(100))
					}
					if asking {
						last := map[string]string{alice: alice, project: "bob", "dave": alice}[test.of]
						c.after[last] = func(out limiter.Outcome) (limiter.Outcome, error) {
							test.fill(c, test.of)
							return out, nil
						}
					}
					begin := time.Now()
					for _, e := range []string{alice, "bob"} {
						c.wait(e, rpm(30))
					}
					if !asking {
						test.fill(c, test.of)
					}
					c.wantServed(test.served...)
					if took := time.Since(begin); took != 0 {
						c.t.Errorf("it took %v", took)
					}
				}, limiter.PerDay("rpm", 100))
			})
		}
	}
}
