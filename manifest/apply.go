package manifest

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go"
)

// Apply makes a plan and applies it. It plans again when another apply was
// faster. It returns the plan that it applied.
func Apply(ctx context.Context, repo limiter.Repository, m *Manifest, opts *Options) (*Plan, *Report, error) {
	const maxTries = 100 // a try fails only if another apply succeeded
	for try := 1; ; try++ {
		p, err := NewPlan(ctx, repo, m, opts)
		if err != nil {
			return nil, nil, err
		}

		report, err := p.Apply(ctx)
		if !errors.Is(err, ErrStale) || try == maxTries {
			return p, report, err
		}
	}
}

// Apply makes the changes of the plan and updates the list of managed levels. It
// waits while another apply is running. A change that fails does not stop the
// others: its error is in the report, and applying the manifest again completes
// it.
//
// The error of Apply concerns the whole apply. [ErrStale] means that nothing was
// changed and the caller has to plan again. limiter.ErrConflict means that another apply
// took over; the report holds the changes made until then. Other errors mean
// that Apply could not begin, or could not store the list. The report is nil if
// no change was tried. When ctx ends, the remaining changes fail with its error.
func (p *Plan) Apply(ctx context.Context) (*Report, error) {
	if p.Done() {
		return &Report{Same: p.Same}, nil
	}

	// The levels were read while another apply changed them, so the comparison
	// is worth nothing.
	if p.known.claimed() {
		if err := p.waitForClaim(ctx, p.known); err != nil {
			return nil, err
		}
		return nil, ErrStale
	}

	// Nothing but the record changes, so one swap is the whole apply.
	if p.ownerOnly {
		_, err := p.claim(ctx, p.known, state{p.known.scopes, p.next.stampHash(p.known.content()), p.next})
		return &Report{}, err
	}

	// If this process dies, the next apply has to find every level that it may
	// have written. The two lists together may be too long for the store. Then
	// the deletes come first, whose levels are listed already.
	listed := p.allScopes()
	if p.DeletesFirst {
		listed = p.known.scopes
	}

	c, err := p.claim(ctx, p.known, state{listed, claimPrefix + rand.Text(), p.interimOwner()})
	if err != nil {
		return nil, err
	}

	report := &Report{Results: make([]Result, len(p.Changes)), Same: p.Same}
	p.makeAll(ctx, c, report.Results)

	final := p.finalState(report)
	if err = c.release(ctx, final); err == nil {
		report.owner, report.Adopted = final.owner, adoptions(p.Adopted)
	}

	if errors.Is(err, errTakenOver) {
		err = &takenOverError{len(report.Made()), len(report.Results)}
	}
	return report, err
}

// makeAll makes all changes. With DeletesFirst, the list of managed levels has
// room for the other changes only after the deletes.
func (p *Plan) makeAll(ctx context.Context, c *claim, results []Result) {
	for i, change := range p.Changes {
		results[i].Change = change
	}

	first := len(results)
	// The change at the end is no delete, so that there is a first one to find
	// even if all others are deletes.
	if p.DeletesFirst {
		first = slices.IndexFunc(append(slices.Clone(p.Changes), Change{}), func(c Change) bool { return c.step() > 0 })
	}

	c.during(ctx, func(ctx context.Context) { p.makeChanges(ctx, c, results[:first]) })

	rest := results[first:]
	if len(rest) == 0 {
		return
	}

	// The deletes have made room in the list. What the rest may create is
	// listed before it is written.
	if err := c.swap(ctx, state{p.managedAfter(results), claimPrefix + rand.Text(), c.held.owner}); err != nil {
		failUntried(rest, err)
		return
	}

	c.during(ctx, func(ctx context.Context) { p.makeChanges(ctx, c, rest) })
}

// interimOwner returns the owner during the apply. Levels that are managed
// already keep their owner until all changes are made.
func (p *Plan) interimOwner() owner {
	if len(p.known.scopes) > 0 {
		return p.known.owner
	}
	return p.next
}

// finalState returns the state to store after the apply.
func (p *Plan) finalState(r *Report) state {
	s := state{p.managedAfter(r.Results), p.next.stampHash(p.manifest.Hash()), p.next}
	// A failed apply leaves a hash that equals no manifest, so that the next
	// one is not taken for done.
	if len(r.Failed()) > 0 {
		s.hash, s.owner = partialPrefix+rand.Text(), p.interimOwner()
	}
	return s
}

// managedAfter returns the scopes that are managed after the given results:
// the declared ones without those that were surely not created, and those that
// could not be deleted.
func (p *Plan) managedAfter(results []Result) []limiter.Scope {
	declared, before := scopeSet(p.manifest.scopes()), scopeSet(p.known.scopes)
	after := maps.Clone(declared)

	for _, r := range results {
		switch {
		case r.Err == nil:
		case !declared[r.Scope]:
			after[r.Scope] = true
		// A create whose outcome is not known may have succeeded. The level
		// stays managed, so that it can be deleted later.
		case !r.unknown && !before[r.Scope]:
			delete(after, r.Scope)
		}
	}

	return slices.SortedFunc(maps.Keys(after), compareScopes)
}

func scopeSet(scopes []limiter.Scope) map[limiter.Scope]bool {
	set := make(map[limiter.Scope]bool, len(scopes))
	for _, s := range scopes {
		set[s] = true
	}
	return set
}

// maxWrites is the number of concurrent writes. On DynamoDB, writes of entities
// update one shared register, so more of them would only conflict.
const maxWrites = 4

// makeChanges makes the changes phase by phase, and stops when ctx ends.
func (p *Plan) makeChanges(ctx context.Context, c *claim, results []Result) {
	for begin := 0; begin < len(results); {
		end := begin
		for end < len(results) && results[end].phase() == results[begin].phase() {
			end++
		}

		var writes errgroup.Group
		writes.SetLimit(maxWrites)

		for i := begin; i < end && ctx.Err() == nil; i++ {
			writes.Go(func() error {
				if c.ensureHeld(ctx) {
					p.makeChange(ctx, &results[i])
				}
				return nil
			})
		}

		// The results hold the errors.
		_ = writes.Wait()
		begin = end
	}
	failUntried(results, context.Cause(ctx))
}

// failUntried sets the error of the changes that were not tried.
func failUntried(results []Result, err error) {
	for i := range results {
		if !results[i].tried {
			results[i].Err = err
		}
	}
}

// makeChange makes a change. After an error it reads the level: the write may
// have succeeded, or another caller may have made the same change.
func (p *Plan) makeChange(ctx context.Context, r *Result) {
	r.tried = true
	if r.Err = p.write(ctx, r.Change); r.Err == nil {
		return
	}

	// The outcome is read even if the caller has cancelled the apply.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	stored, err := p.readConfig(ctx, r.Scope)

	switch {
	case err != nil:
		r.unknown = true
	case stored.damaged == nil && !stored.unlisted && equalConfigs(stored.Config, r.After):
		r.Err = nil
	}
}

// Report describes the outcome of an apply.
type Report struct {
	Results []Result // in the order of the plan
	Same    int      // levels that were as declared
	Adopted []Change // of those, the ones that became managed

	owner owner // as stored
}

// Result is the outcome of one change. Err is nil if the change was made.
type Result struct {
	Change
	Err error

	tried   bool
	unknown bool // the write failed, and so did reading its outcome
}

// Begun reports whether the change was tried. If not, Err is the error that
// stopped the apply.
func (r Result) Begun() bool { return r.tried }

// Count returns the number of changes made with the given action.
func (r *Report) Count(a Action) int {
	n := 0
	for _, result := range r.Results {
		if result.Action == a && result.Err == nil {
			n++
		}
	}
	return n
}

// Made returns the changes that were made.
func (r *Report) Made() []Change {
	var made []Change
	for _, result := range r.Results {
		if result.Err == nil {
			made = append(made, result.Change)
		}
	}
	return made
}

// Failed returns the results with an error. A failed write may still have
// reached the store.
func (r *Report) Failed() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(result Result) bool { return result.Err == nil })
}

// Left returns the number of changes that were not tried, and the reason.
func (r *Report) Left() (n int, why error) {
	for _, result := range r.Results {
		if result.Err != nil && !result.tried {
			n, why = n+1, result.Err
		}
	}
	return n, why
}
