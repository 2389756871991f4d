package escrow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// touches returns a function that reports whether a change of the limits of a
// scope concerns a pot. A pot whose payers are not known yet may have any
// ancestors, so a change of any entity concerns it.
func touches(s limiter.Scope) func(*pot) bool {
	return func(p *pot) bool {
		if s.Resource != "" && s.Resource != p.key.Resource {
			return false
		}
		// An ancestor that pays nothing may begin to pay, or be switched off.
		return s.Entity == "" || s.Entity == p.key.Entity || p.payers == nil ||
			slices.Contains(p.exempt, s.Entity) ||
			slices.ContainsFunc(p.payers, func(a *limiter.Account) bool { return a.Entity == s.Entity })
	}
}

// change makes a change while the pots that it concerns are closed and empty. If
// the store does not identify its namespaces, two views may be of the same one, so
// the pots of all views count.
func (r *Repository) change(ctx context.Context, s limiter.Scope, change func() error) error {
	if _, ok := limiter.Optional[limiter.NamespaceIdentifier](r.Repository); !ok {
		return r.changeAll(ctx, touches(s), change)
	}
	return changePots(ctx, []*pots{r.pots}, touches(s), change)
}

// changeAll makes a change while the matching pots of all namespaces are closed
// and empty.
func (r *Repository) changeAll(ctx context.Context, match func(*pot) bool, change func() error) error {
	return changePots(ctx, r.everyPots(), match, change)
}

// changeNamespace makes a change while the pots of a namespace are closed and
// empty. If its ID is not known, the pots of all namespaces are.
func (r *Repository) changeNamespace(ctx context.Context, id string, change func() error) error {
	if _, ok := limiter.Optional[limiter.NamespaceIdentifier](r.Repository); !ok || id == "" {
		return r.changeAll(ctx, everything, change)
	}

	// A namespace without pots holds nothing, so it needs no fence.
	var list []*pots
	if all := r.knownPots(id); all != nil {
		list = append(list, all)
	}
	return changePots(ctx, list, everything, change)
}

// changePots makes a change while the matching pots are closed and empty. If ctx
// ends before they are, it changes nothing.
func changePots(ctx context.Context, list []*pots, match func(*pot) bool, change func() error) error {
	if len(list) == 0 {
		return change()
	}

	// A fence is up even if waiting for its pots failed, so it is taken down in
	// every case. It stays up until the innermost call has made the change.
	open, err := list[0].fence(ctx, match)
	defer open()
	if err != nil {
		return err
	}

	return changePots(ctx, list[1:], match, change)
}

// CreateEntity stores an entity, as the store does.
func (r *Repository) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	return r.change(ctx, limiter.Scope{Entity: e.ID}, func() error { return r.Repository.CreateEntity(ctx, e, ev) })
}

// DeleteEntity deletes an entity, as the store does.
func (r *Repository) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	return r.change(ctx, limiter.Scope{Entity: id}, func() error { return r.Repository.DeleteEntity(ctx, id, ev) })
}

// SetConfig stores limits, as the store does.
func (r *Repository) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	return r.change(ctx, cfg.Scope, func() error { return r.Repository.SetConfig(ctx, cfg, ev) })
}

// DeleteConfig deletes limits, as the store does.
func (r *Repository) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	return r.change(ctx, s, func() error { return r.Repository.DeleteConfig(ctx, s, ev) })
}

// DeleteNamespace deletes a namespace, as the store does.
func (r *Repository) DeleteNamespace(ctx context.Context, now time.Time, name string) error {
	// Without an ID, changeNamespace closes the pots of all namespaces. That
	// costs requests, but no pot outlives its namespace.
	id := ""
	if view, err := r.Repository.Namespace(ctx, name); err == nil {
		if identified, ok := limiter.Optional[limiter.NamespaceIdentifier](view); ok {
			id = identified.NamespaceID()
		}
	}

	return r.changeNamespace(ctx, id, func() error { return r.Repository.DeleteNamespace(ctx, now, name) })
}

// RecoverNamespace recovers a namespace, as the store does.
func (r *Repository) RecoverNamespace(ctx context.Context, now time.Time, id string) (n limiter.Namespace, err error) {
	err = r.changeNamespace(ctx, id, func() (err error) {
		n, err = r.Repository.RecoverNamespace(ctx, now, id)
		return err
	})
	return n, err
}

// PurgeNamespace purges a namespace, as the store does, and forgets its pots.
func (r *Repository) PurgeNamespace(ctx context.Context, id string) error {
	return r.changeNamespace(ctx, id, func() error {
		err := r.Repository.PurgeNamespace(ctx, id)
		if err == nil {
			r.forgetPots(id)
		}
		return err
	})
}

// Unwrap returns the store.
func (r *Repository) Unwrap() limiter.Repository { return r.Repository }

// NamespaceID returns the ID of the namespace. If the store does not identify its
// namespaces, it returns the name of a view, or "".
func (r *Repository) NamespaceID() string {
	if store, ok := limiter.Optional[limiter.NamespaceIdentifier](r.Repository); ok {
		return store.NamespaceID()
	}
	return r.name
}

// Managed calls Managed of the store. It returns errors.ErrUnsupported if the
// store is no limiter.ManagedStore.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	store, ok := limiter.Optional[limiter.ManagedStore](r.Repository)
	if !ok {
		return nil, "", "", errors.ErrUnsupported
	}

	return store.Managed(ctx)
}

// SetManaged calls SetManaged of the store. It returns errors.ErrUnsupported if
// the store is no limiter.ManagedStore.
func (r *Repository) SetManaged(
	ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope,
) error {
	store, ok := limiter.Optional[limiter.ManagedStore](r.Repository)
	if !ok {
		return errors.ErrUnsupported
	}

	return store.SetManaged(ctx, now, previous, hash, owner, scopes)
}

// ReplaceConfig replaces limits, as the store does. It returns
// errors.ErrUnsupported if the store is no limiter.ManagedStore.
func (r *Repository) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	store, ok := limiter.Optional[limiter.ManagedStore](r.Repository)
	if !ok {
		return errors.ErrUnsupported
	}

	return r.change(ctx, cfg.Scope, func() error { return store.ReplaceConfig(ctx, cfg, ev) })
}

// ConfigListed calls ConfigListed of the store. If the store is no
// limiter.ConfigLister, its lists are complete.
func (r *Repository) ConfigListed(ctx context.Context, s limiter.Scope) (cfg limiter.Config, listed bool, err error) {
	if store, ok := limiter.Optional[limiter.ConfigLister](r.Repository); ok {
		return store.ConfigListed(ctx, s)
	}

	cfg, err = r.Config(ctx, s)
	return cfg, true, err
}

// CheckManaged calls CheckManaged of the store, if it is a limiter.ManagedChecker.
func (r *Repository) CheckManaged(scopes []limiter.Scope) error {
	if store, ok := limiter.Optional[limiter.ManagedChecker](r.Repository); ok {
		return store.CheckManaged(scopes)
	}
	return nil
}

// SetSwitch turns a level off, as the store does. The pots that it concerns return
// their tokens first.
func (r *Repository) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	return r.change(ctx, s.Scope, func() error { return r.Repository.SetSwitch(ctx, s, ev) })
}

// DeleteSwitch turns a level on, as the store does.
func (r *Repository) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	return r.change(ctx, of, func() error { return r.Repository.DeleteSwitch(ctx, of, ev) })
}

// Fill resets or tops up a bucket, as the store does. The pots that it concerns
// return their tokens first.
func (r *Repository) Fill(
	ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent,
) (done bool, err error) {
	of := limiter.Scope{Entity: f.Entity, Resource: f.Resource}
	err = r.change(ctx, of, func() (err error) { done, err = r.Repository.Fill(ctx, now, f, ev); return err })
	return done, err
}

func isDisabled(err error) bool {
	_, disabled := errors.AsType[*limiter.DisabledError](err)
	return disabled
}

// closeDisabled returns what the pot of a bucket holds, after an answer that it is
// disabled.
func (all *pots) closeDisabled(key limiter.Scope, err error) {
	if !isDisabled(err) {
		return
	}
	if p := all.lock(key, false); p != nil {
		defer p.mu.Unlock()
		p.endAll()
	}
}

// landDisabled answers the callers of a flight with the error that their bucket is
// disabled, and has everything returned that the pot and the flight have. It
// reports false for every other answer.
func (f *flight) landDisabled(err error) bool {
	if !isDisabled(err) {
		return false
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropExtra()
	f.unclaim(f.reserved)
	f.giveBack(&f.accounts, f.granted)
	f.endAll()

	for _, w := range f.batch {
		w.answer(result{err: err})
	}
	return true
}
