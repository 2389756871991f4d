package manifest

import (
	"cmp"
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Plan holds the changes that a manifest asks for.
type Plan struct {
	// Changes holds the changes in the order in which Apply makes them: the
	// system, resources to set, resources to delete, entities to set, entities to
	// delete; each group by name. With DeletesFirst, all deletes come first.
	Changes []Change
	// DeletesFirst reports whether the managed and the declared levels together
	// are more than the store can list.
	DeletesFirst bool
	// Same is the number of levels that are stored as declared. Adopted holds
	// those among them that are not managed yet. Released holds the managed
	// levels that are neither declared nor stored. Apply only updates the list of
	// managed levels for both.
	Same              int
	Adopted, Released []limiter.Scope

	*target
	manifest  *Manifest
	known     state // as read for this plan
	next      owner
	ownerOnly bool // only the owner changes
}

// NewPlan compares a manifest with its namespace, or with the namespace of repo
// if the manifest names none. It only reads. It returns
// limiter.ErrNotFound if the namespace does not exist, errors.ErrUnsupported if
// repo is not a limiter.ManagedStore, a *limiter.InvalidError if m is invalid or
// has more levels than the store can list, and a *limiter.CorruptError if the
// list of managed levels cannot be read.
func NewPlan(ctx context.Context, repo limiter.Repository, m *Manifest, opts *Options) (*Plan, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}

	t, err := newTarget(ctx, repo, m.Namespace, opts)
	if err != nil {
		return nil, err
	}

	p := &Plan{target: t, manifest: m.sorted()}
	if p.known, err = t.readState(ctx); err != nil {
		return nil, err
	}

	// A plan that was made during another apply is never applied: Apply returns
	// ErrStale.
	if !p.known.claimed() {
		if p.next, p.ownerOnly, err = t.ownership(p.known); err != nil {
			return nil, err
		}
	}

	if p.ownerOnly {
		return p, nil
	}

	if err := p.compare(ctx); err != nil {
		return nil, err
	}

	if err := p.sortChanges(); err != nil {
		return nil, err
	}
	return p, nil
}

// Steps returns the changes, followed by one Adopt for each adopted level.
func (p *Plan) Steps() []Change { return append(slices.Clone(p.Changes), adoptions(p.Adopted)...) }

func adoptions(scopes []limiter.Scope) []Change {
	all := make([]Change, len(scopes))
	for i, s := range scopes {
		all[i] = Change{Action: Adopt, Scope: s}
	}
	return all
}

// Done reports whether Apply would write nothing.
func (p *Plan) Done() bool {
	upToDate := len(p.Changes)+len(p.Adopted)+len(p.Released) == 0 && p.known.content() == p.manifest.Hash()
	return (p.ownerOnly || upToDate) && p.known.owner == p.next
}

// Busy reports whether another apply was running when the plan was made. Apply
// of such a plan waits for the other one, changes nothing, and returns
// ErrStale.
func (p *Plan) Busy() bool { return p.known.claimed() }

// TakesFrom returns the ID of the CloudFormation stack that loses the namespace
// to this plan, or "" if there is none.
func (p *Plan) TakesFrom() string {
	if stack := p.known.owner.stack(); stack != p.next.stack() {
		return stack
	}
	return ""
}

func (p *Plan) compare(ctx context.Context) error {
	declared, managed := map[limiter.Scope]limiter.Config{}, scopeSet(p.known.scopes)
	for _, level := range p.manifest.Levels {
		declared[level.Scope] = level
	}

	scopes := p.allScopes()
	stored, err := p.readConfigs(ctx, scopes)
	if err != nil {
		return err
	}

	for i, s := range scopes {
		want, isDeclared := declared[s]
		c := Change{
			Scope: s, Before: stored[i].Config, After: want, Damaged: stored[i].damaged != nil,
			Unlisted: stored[i].unlisted,
		}
		// The zero value of a level that is not declared has no scope.
		c.After.Scope = s

		c.Action = c.requiredAction()
		switch {
		case c.Action != "":
			p.Changes = append(p.Changes, c)
		// What is neither declared nor stored only leaves the list.
		case !isDeclared:
			p.Released = append(p.Released, s)
		// A level that is stored as declared is the same, managed or not.
		case !managed[s]:
			p.Adopted = append(p.Adopted, s)
			fallthrough
		default:
			p.Same++
		}
	}
	return nil
}

// allScopes returns the managed and the declared scopes.
func (p *Plan) allScopes() []limiter.Scope {
	all := slices.Concat(p.known.scopes, p.manifest.scopes())
	slices.SortFunc(all, compareScopes)
	return slices.Compact(all)
}

// sortChanges puts the changes in the order in which Apply can make them. It
// returns an *InvalidError if the store cannot list the declared levels.
func (p *Plan) sortChanges() error {
	slices.SortStableFunc(p.Changes, func(a, b Change) int { return cmp.Compare(a.phase(), b.phase()) })

	// A store without a checker can list any number of levels.
	store, bounded := limiter.Optional[limiter.ManagedChecker](p.repo)
	if !bounded {
		return nil
	}

	if err := store.CheckManaged(p.manifest.scopes()); err != nil {
		return err
	}

	// Deletes make room for the other changes in the list.
	if p.DeletesFirst = store.CheckManaged(p.allScopes()) != nil; p.DeletesFirst {
		slices.SortStableFunc(p.Changes, func(a, b Change) int { return cmp.Compare(a.step(), b.step()) })
	}
	return nil
}

// step returns 0 for a delete and 1 for any other change.
func (c Change) step() int {
	if c.Action == Delete {
		return 0
	}
	return 1
}
