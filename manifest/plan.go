package manifest

import (
	"cmp"
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Plan is what a manifest would change.
type Plan struct {
	// Changes are in the order in which they are made: the system, resources that
	// are set, resources that are deleted, entities that are set, entities that
	// are deleted; each by name. With DeletesFirst, all that is deleted goes
	// before the rest.
	Changes []Change
	// DeletesFirst says that what was managed and what is declared are, together,
	// more than the store can list.
	DeletesFirst bool
	// Same is how many levels are stored as they are declared. Of those, Adopted
	// have not been managed yet. Released are managed, but neither declared nor
	// stored any more. Applying only notes both.
	Same              int
	Adopted, Released []limiter.Scope

	*target
	manifest *Manifest
	known    state // what was managed when the plan was made
	next     owner
	keep     bool // only the owner changes
}

// NewPlan compares a manifest with what is stored in its namespace, or in that
// of repo if it names none. It only reads. ErrNotFound if the namespace is not
// there, errors.ErrUnsupported if the store is no [limiter.ManagedStore], *InvalidError, also
// for more levels than the store can list, *CorruptError if what is managed
// cannot be read.
func NewPlan(ctx context.Context, repo limiter.Repository, m *Manifest, opts *Options) (*Plan, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	t, err := enter(ctx, repo, m.Namespace, opts)
	if err != nil {
		return nil, err
	}
	p := &Plan{target: t, manifest: m.sorted()}
	if p.known, err = t.state(ctx); err != nil {
		return nil, err
	}
	if !p.known.claimed() { // else it is planned again
		if p.next, p.keep, err = t.ownership(p.known); err != nil {
			return nil, err
		}
	}
	if p.keep {
		return p, nil
	}
	if err := p.compare(ctx); err != nil {
		return nil, err
	}
	if err := p.order(); err != nil {
		return nil, err
	}
	return p, nil
}

// Steps are the changes, and then what is adopted.
func (p *Plan) Steps() []Change { return append(slices.Clone(p.Changes), adoptions(p.Adopted)...) }

func adoptions(scopes []limiter.Scope) []Change {
	all := make([]Change, len(scopes))
	for i, s := range scopes {
		all[i] = Change{Action: Adopt, Scope: s}
	}
	return all
}

// Done tells that there is nothing to apply, not even to note.
func (p *Plan) Done() bool {
	upToDate := len(p.Changes)+len(p.Adopted)+len(p.Released) == 0 && p.known.content() == p.manifest.Hash()
	return (p.keep || upToDate) && p.known.owner == p.next
}

// Busy tells that another apply was at work, so that what was compared is
// changing. Applying such a plan waits for the other, changes nothing, and is
// ErrStale.
func (p *Plan) Busy() bool { return p.known.claimed() }

// TakesFrom is the ID of the CloudFormation stack that manages the namespace up
// to now, "" if none does or it will go on doing so.
func (p *Plan) TakesFrom() string {
	if stack := p.known.owner.stack(); stack != p.next.stack() {
		return stack
	}
	return ""
}

func (p *Plan) compare(ctx context.Context) error {
	declared, managed := map[limiter.Scope]limiter.Config{}, setOf(p.known.scopes)
	for _, level := range p.manifest.Levels {
		declared[level.Scope] = level
	}
	scopes := p.union()
	stored, err := p.read(ctx, scopes)
	if err != nil {
		return err
	}
	for i, s := range scopes {
		want, isDeclared := declared[s]
		c := Change{Scope: s, Before: stored[i].Config, After: want, Damaged: stored[i].damaged != nil, Unlisted: stored[i].unlisted}
		c.After.Scope = s
		c.Action = c.action()
		switch {
		case c.Action != "":
			p.Changes = append(p.Changes, c)
		case !isDeclared:
			p.Released = append(p.Released, s)
		case !managed[s]:
			p.Adopted = append(p.Adopted, s)
			fallthrough
		default:
			p.Same++
		}
	}
	return nil
}

// union is what was managed and what is declared.
func (p *Plan) union() []limiter.Scope {
	all := slices.Concat(p.known.scopes, p.manifest.scopes())
	slices.SortFunc(all, compareScopes)
	return slices.Compact(all)
}

// order puts changes in the order in which they can be made. *InvalidError.
func (p *Plan) order() error {
	slices.SortStableFunc(p.Changes, func(a, b Change) int { return cmp.Compare(a.phase(), b.phase()) })
	store, bounded := p.store.(limiter.ManagedChecker)
	if !bounded {
		return nil
	}
	if err := store.CheckManaged(p.manifest.scopes()); err != nil {
		return err
	}
	if p.DeletesFirst = store.CheckManaged(p.union()) != nil; p.DeletesFirst {
		slices.SortStableFunc(p.Changes, func(a, b Change) int { return cmp.Compare(a.step(), b.step()) })
	}
	return nil
}

// step is 0 for what is deleted first.
func (c Change) step() int {
	if c.Action == Delete {
		return 0
	}
	return 1
}
