package manifest

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Action is what is to be done to a level.
type Action string

// The actions there are. Whether there is something to create, update or delete
// is decided by what is stored, not by what was applied before.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Change is one level that differs.
type Change struct {
	Action        Action
	Scope         limiter.Scope
	Before, After limiter.Config // as stored, and as it will be
	Damaged       bool           // what is stored cannot be read, so that Before is empty
}

// Fields are the values that differ, the mode first, then limits by name.
func (c Change) Fields() []Field { return fieldsOf(c.Before, c.After) }

// Plan is what a manifest would change.
type Plan struct {
	// Changes are in the order in which they are made: the system, resources that
	// are set, resources that are deleted, entities that are set, entities that
	// are deleted; each by name.
	Changes []Change
	// Same is how many levels are stored as they are declared. Of those, Adopted
	// have not been managed yet. Released are managed, but neither declared nor
	// stored any more. Applying only notes both.
	Same              int
	Adopted, Released []limiter.Scope

	*target
	manifest *Manifest
	known    state // what was managed when the plan was made
}

// NewPlan compares a manifest with what is stored in its namespace, or in that
// of repo if it names none. It only reads. ErrNotFound if the namespace is not
// there, errors.ErrUnsupported if the store is no [Store], *InvalidError.
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
	if err := p.compare(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Done tells that there is nothing to apply, not even to note.
func (p *Plan) Done() bool {
	return len(p.Changes)+len(p.Adopted)+len(p.Released) == 0 && p.known.hash == p.manifest.Hash()
}

func (p *Plan) compare(ctx context.Context) error {
	declared, managed := map[limiter.Scope]limiter.Config{}, setOf(p.known.scopes)
	for _, level := range p.manifest.Levels {
		declared[level.Scope] = level
	}
	scopes := slices.Concat(p.manifest.scopes(), p.known.scopes)
	slices.SortFunc(scopes, compareScopes)
	scopes = slices.Compact(scopes)
	stored, err := p.read(ctx, scopes)
	if err != nil {
		return err
	}
	for i, s := range scopes {
		want, isDeclared := declared[s]
		c := Change{Scope: s, Before: stored[i].Config, After: want, Damaged: stored[i].damaged}
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
	slices.SortStableFunc(p.Changes, func(a, b Change) int { return cmp.Compare(a.phase(), b.phase()) })
	return nil
}

// action is what has to be done, "" if nothing.
func (c Change) action() Action {
	switch {
	case !c.Damaged && same(c.Before, c.After):
		return ""
	case empty(c.After):
		return Delete
	case !c.Damaged && empty(c.Before):
		return Create
	}
	return Update
}

// phase is when a change is made. Those of one phase need no order.
func (c Change) phase() int {
	n := map[string]int{"system": 0, "resource": 1, "entity": 3}[Level(c.Scope)]
	if c.Action == Delete && n > 0 {
		n++
	}
	return n
}

func empty(cfg limiter.Config) bool { return len(cfg.Limits) == 0 && cfg.OnUnavailable == "" }

func same(a, b limiter.Config) bool {
	return a.OnUnavailable == b.OnUnavailable && slices.Equal(a.Limits, b.Limits)
}

// storedConfig is what a scope holds, or that it is damaged.
type storedConfig struct {
	limiter.Config
	damaged bool
}

// read is what scopes hold. It ends with the first error.
func (t *target) read(ctx context.Context, scopes []limiter.Scope) ([]storedConfig, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]storedConfig, len(scopes))
	inParallel(ctx, readers, len(scopes), func(i int) {
		cfg, err := t.config(ctx, scopes[i])
		_, damaged := errors.AsType[*limiter.CorruptError](err)
		if damaged {
			cfg, err = limiter.Config{Scope: scopes[i]}, nil
		}
		all[i] = storedConfig{cfg, damaged}
		if err != nil {
			cancel(err)
		}
	})
	return all, context.Cause(ctx)
}
