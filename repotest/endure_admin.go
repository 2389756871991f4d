package repotest

import (
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// fill resets a limit of a bucket or tops it up, and repeats a top-up at times.
func (e *endurance) fill() {
	e.Helper()

	l := pick(e.rng, e.limits)
	f := limiter.Fill{Entity: pick(e.rng, someEntities), Resource: pick(e.rng, someResources), Limits: []string{l.Name}}
	again := false

	switch {
	case e.lastTopUp.ID != "" && e.chance(3) && e.now.Before(e.topUpUntil):
		f, again = e.lastTopUp, true
	case e.chance(2):
		e.topUps++
		f.Limits, f.ID = nil, fmt.Sprintf("top-up-%d", e.topUps)
		f.Amounts = limiter.Tokens(l.Name, 1+e.rng.Int64N(20))
		e.lastTopUp, e.topUpUntil = f, e.now.Add(limiter.TopUpLife-skew)
	}

	// A top-up of a limit that was dropped would be invalid.
	if again && indexOf(e.limits, nameOf(f)) < 0 {
		return
	}

	// A repetition adds nothing.
	if !again {
		e.expectFill(f, l)
	}

	done, err := e.admin.Fill(e.ctx, e.now, f, e.event("bucket_reset"))
	e.must(err)
	e.note("%s Fill %s %s %v %s %q: %v", stamp(e.now), f.Entity, f.Resource, f.Limits, f.Amounts, f.ID, done)

	if done == again {
		e.fail("top-up %s is carried out: %v, but it was made before: %v", f.ID, done, again)
	}
}

// nameOf returns the limit of a top-up.
func nameOf(f limiter.Fill) string {
	name, _ := f.Amounts.At(0)
	return name
}

// expectFill books what a fill may add, before others can spend it.
func (e *endurance) expectFill(f limiter.Fill, l limiter.Limit) {
	n := l.Capacity
	if f.ID != "" {
		n = f.Amounts.Get(l.Name)
	}

	b := e.book(e.now.UnixMilli(), &limiter.Account{Entity: f.Entity, Resource: f.Resource}, l.Name)
	b.credited = max(b.credited, b.largest)
	// A reset begins a window again that a clock ahead has begun, so it may
	// give to the next window.
	e.giveWindow(b, l.Name, e.now.UnixMilli(), func(l limiter.Limit) int64 {
		if f.ID == "" {
			return l.Capacity
		}
		return n
	}, f.ID == "")

	switch {
	// A reset leaves the bucket full. During another call, only the store knows
	// which of the two came first.
	case f.ID == "" || e.calling:
		b.meter.known = false
	case b.meter.known:
		b.meter.advance(b.largest, e.ratesOf(b, l.Name))
		b.meter.room += n * milli
	}

	// The other call may come before the fill or after it.
	if e.calling {
		e.later = append(e.later, func() { b.meter.known, b.floorKnown = false, false })
	}
}

// levelOff is the level that a history switches off and on.
type levelOff struct {
	scope   limiter.Scope
	off     bool
	changed time.Time
}

// toggle switches a level off, or on again.
func (e *endurance) toggle() {
	e.Helper()

	if e.level.off {
		e.must(e.admin.DeleteSwitch(e.ctx, e.level.scope, e.event("enabled")))
		e.level.off, e.level.changed = false, e.now
		e.note("%s DeleteSwitch %v", stamp(e.now), e.level.scope)
		return
	}

	// Some clients may not know yet that the last level is on.
	if e.now.Sub(e.level.changed) <= maxCacheAge {
		return
	}

	e.level = levelOff{off: true, changed: e.now, scope: pick(e.rng, []limiter.Scope{
		{Entity: "alice"},
		{Entity: "key-1"},
		{Entity: "team"},
		{Entity: "key-2", Resource: model},
		{Entity: "team", Resource: model},
		{Resource: "claude"},
	})}

	e.must(e.admin.SetSwitch(e.ctx, limiter.Switch{Scope: e.level.scope, Reason: "a test", Since: e.now},
		e.event("disabled")))
	e.note("%s SetSwitch %v", stamp(e.now), e.level.scope)
}

// checkSwitch checks the answer to a charge against the level that is off. Clients
// learn of a change within a minute.
func (e *endurance) checkSwitch(c limiter.Charge, err error) {
	e.Helper()

	_, disabled := errors.AsType[*limiter.DisabledError](err)
	if disabled && !e.mayConcern(c) {
		e.fail("%s and %s: %v, but the level that was off last is %v", c.Entity, c.Resource, err, e.level.scope)
	}

	settled := e.now.Sub(e.level.changed) > maxCacheAge
	switch {
	case disabled && !e.level.off && settled:
		e.fail("%s and %s: %v, but the level is on for more than a minute", c.Entity, c.Resource, err)
	case err == nil && e.level.off && settled && e.concerns(c):
		e.fail("%s and %s: a charge passes %v, which is off for more than a minute", c.Entity, c.Resource,
			e.level.scope)
	}
}

// concerns reports whether the level surely decides about a charge.
func (e *endurance) concerns(c limiter.Charge) bool {
	s := e.level.scope
	if s.Resource != "" && s.Resource != c.Resource {
		return false
	}

	// Entities that begin with key- cascade to the team from the start. Bob and
	// carol may not cascade yet.
	return s.Entity == "" || s.Entity == c.Entity || s.Entity == "team" && len(c.Entity) > 4 && c.Entity[:4] == "key-"
}

// mayConcern reports whether the level may decide about a charge. Some entities get
// their parent during the run.
func (e *endurance) mayConcern(c limiter.Charge) bool {
	s := e.level.scope
	return e.concerns(c) || s.Entity == "team" && (s.Resource == "" || s.Resource == c.Resource)
}
