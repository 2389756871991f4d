package manifest

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Apply plans and applies, and does so again when another apply was faster. The
// plan is the one that was applied.
func Apply(ctx context.Context, repo limiter.Repository, m *Manifest, opts *Options) (*Plan, *Report, error) {
	const maxTries = 100 // each of which somebody else made use of
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

// Apply makes the changes of a plan, and notes what is managed from now on. It
// waits for another apply that is at work. What fails is in the report and does
// not stop the rest; applying the manifest again completes it.
//
// The error is about the whole: [ErrStale], nothing was changed, plan again;
// ErrConflict, another apply took over, and the report tells what had been made
// by then; or what kept it from beginning, or from noting what it did. The
// report is nil if nothing was tried. When ctx ends, what was not begun fails
// with its error.
func (p *Plan) Apply(ctx context.Context) (*Report, error) {
	if p.Done() {
		return &Report{Same: p.Same}, nil
	}
	if p.known.claimed() { // whatever was compared, has been changed since then
		if err := p.await(ctx, p.known); err != nil {
			return nil, err
		}
		return nil, ErrStale
	}
	if p.keep {
		_, err := p.claim(ctx, p.known, state{p.known.scopes, p.next.stamped(p.known.content()), p.next})
		return &Report{}, err
	}
	listed := p.union()
	if p.DeletesFirst {
		listed = p.known.scopes
	}
	c, err := p.claim(ctx, p.known, state{listed, claimPrefix + rand.Text(), p.interim()})
	if err != nil {
		return nil, err
	}
	report := &Report{Results: make([]Result, len(p.Changes)), Same: p.Same}
	p.work(ctx, c, report.Results)
	after := p.after(report)
	if err = c.release(ctx, after); err == nil {
		report.owner, report.Adopted = after.owner, adoptions(p.Adopted)
	}
	if errors.Is(err, errTaken) {
		err = &takenError{len(report.Made()), len(report.Results)}
	}
	return report, err
}

// work makes all changes. With DeletesFirst, the list has room for the rest once
// the first ones are made.
func (p *Plan) work(ctx context.Context, c *claim, results []Result) {
	for i, change := range p.Changes {
		results[i].Change = change
	}
	first := len(results)
	if p.DeletesFirst {
		first = slices.IndexFunc(append(slices.Clone(p.Changes), Change{}), func(c Change) bool { return c.step() > 0 })
	}
	c.hold(ctx, func(ctx context.Context) { p.makeChanges(ctx, c, results[:first]) })
	rest := results[first:]
	if len(rest) == 0 {
		return
	}
	if err := c.swap(ctx, state{p.managedAfter(results), claimPrefix + rand.Text(), c.held.owner}); err != nil {
		leave(rest, err)
		return
	}
	c.hold(ctx, func(ctx context.Context) { p.makeChanges(ctx, c, rest) })
}

// interim is the owner until all is done: what belonged to others stays theirs.
func (p *Plan) interim() owner {
	if len(p.known.scopes) > 0 {
		return p.known.owner
	}
	return p.next
}

// after is what is noted in the end.
func (p *Plan) after(r *Report) state {
	s := state{p.managedAfter(r.Results), p.next.stamped(p.manifest.Hash()), p.next}
	if len(r.Failed()) > 0 {
		s.hash, s.owner = partialPrefix+rand.Text(), p.interim()
	}
	return s
}

// managedAfter is what is managed once the results are as they are: what is
// declared, but for what is known not to have come to be, and what could not be
// deleted.
func (p *Plan) managedAfter(results []Result) []limiter.Scope {
	declared, before := setOf(p.manifest.scopes()), setOf(p.known.scopes)
	after := maps.Clone(declared)
	for _, r := range results {
		switch {
		case r.Err == nil:
		case !declared[r.Scope]:
			after[r.Scope] = true
		case !r.unknown && !before[r.Scope]:
			delete(after, r.Scope)
		}
	}
	return slices.SortedFunc(maps.Keys(after), compareScopes)
}

func setOf(scopes []limiter.Scope) map[limiter.Scope]bool {
	set := make(map[limiter.Scope]bool, len(scopes))
	for _, s := range scopes {
		set[s] = true
	}
	return set
}

// makeChanges makes one phase after the other.
func (p *Plan) makeChanges(ctx context.Context, c *claim, results []Result) {
	for begin := 0; begin < len(results); {
		end := begin
		for end < len(results) && results[end].phase() == results[begin].phase() {
			end++
		}
		phase := results[begin:end]
		inParallel(ctx, writers, len(phase), func(i int) {
			if c.sure(ctx) {
				p.makeChange(ctx, &phase[i])
			}
		})
		begin = end
	}
	leave(results, context.Cause(ctx))
}

// leave gives what was not begun its error.
func leave(results []Result, why error) {
	for i := range results {
		if !results[i].tried {
			results[i].Err = why
		}
	}
}

// makeChange makes a change. When that fails, it is looked up what became of
// it: an answer may have been lost, or somebody else was faster.
func (p *Plan) makeChange(ctx context.Context, r *Result) {
	r.tried = true
	if r.Err = p.write(ctx, r.Change); r.Err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	stored, err := p.stored(ctx, r.Scope)
	switch {
	case err != nil:
		r.unknown = true
	case stored.damaged == nil && !stored.unlisted && same(stored.Config, r.After):
		r.Err = nil
	}
}
