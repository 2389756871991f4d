package manifest

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Result is what came of a change. Err is nil if it was made.
type Result struct {
	Change
	Err error

	tried   bool
	unknown bool // whether it was made
}

// Report is what an apply did.
type Report struct {
	Results []Result // in the order of the plan
	Same    int      // levels that were as declared
}

// Count is how many changes of a kind were made.
func (r *Report) Count(a Action) int {
	n := 0
	for _, result := range r.Results {
		if result.Action == a && result.Err == nil {
			n++
		}
	}
	return n
}

// Failed are the changes that were not made, as far as is known.
func (r *Report) Failed() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(result Result) bool { return result.Err == nil })
}

// Apply plans and applies, and does so again when another apply was faster. The
// plan is the one that was applied.
func Apply(ctx context.Context, repo limiter.Repository, m *Manifest, opts *Options) (*Plan, *Report, error) {
	const mostTries = 100 // each of which somebody else made use of
	for try := 1; ; try++ {
		p, err := NewPlan(ctx, repo, m, opts)
		if err != nil {
			return nil, nil, err
		}
		report, err := p.Apply(ctx)
		if !errors.Is(err, ErrStale) || try == mostTries {
			return p, report, err
		}
	}
}

// Apply makes the changes of a plan, and notes what is managed from now on. It
// waits for another apply that is at work. What fails is in the report and does
// not stop the rest; applying the manifest again completes it.
//
// The error is about the whole: [ErrStale], nothing was changed, plan again;
// ErrConflict, another apply took over; or what kept it from beginning, or from
// noting what it did. The report is nil if nothing was tried. When ctx ends,
// what was not begun fails with its error.
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
	union := slices.Concat(p.known.scopes, p.manifest.scopes())
	slices.SortFunc(union, compareScopes)
	c, err := p.claim(ctx, p.known, slices.Compact(union))
	if err != nil {
		return nil, err
	}
	report := &Report{Results: make([]Result, len(p.Changes)), Same: p.Same}
	c.hold(ctx, func(ctx context.Context) { p.makeChanges(ctx, report.Results) })
	hash := p.manifest.Hash()
	if len(report.Failed()) > 0 {
		hash = partialPrefix + rand.Text()
	}
	return report, c.release(ctx, hash, p.managedAfter(report.Results))
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
func (p *Plan) makeChanges(ctx context.Context, results []Result) {
	for i, c := range p.Changes {
		results[i].Change = c
	}
	for begin := 0; begin < len(results); {
		end := begin
		for end < len(results) && results[end].phase() == results[begin].phase() {
			end++
		}
		phase := results[begin:end]
		inParallel(ctx, writers, len(phase), func(i int) { p.makeChange(ctx, &phase[i]) })
		begin = end
	}
	for i := range results {
		if !results[i].tried {
			results[i].Err = context.Cause(ctx)
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
	stored, err := p.config(ctx, r.Scope)
	_, damaged := errors.AsType[*limiter.CorruptError](err)
	switch {
	case err != nil:
		r.unknown = !damaged
	case same(stored, r.After):
		r.Err = nil
	}
}
