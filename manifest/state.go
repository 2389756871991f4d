package manifest

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

// state is what the store remembers.
type state struct {
	scopes []limiter.Scope
	hash   string
	owner  owner
}

// state reads it. A list that is damaged is an error that says what to do,
// unless it is to be forgotten.
func (t *target) state(ctx context.Context) (state, error) {
	scopes, hash, of, err := t.store.Managed(ctx)
	if err == nil {
		err = checkList(scopes)
	}
	_, damaged := errors.AsType[*limiter.CorruptError](err)
	switch {
	case damaged && t.Forget:
		return state{nil, hash, owner(of)}, nil
	case damaged:
		return state{}, fmt.Errorf(
			"reading what is managed: %w; `zae-limiter limits apply FILE --forget` begins a new list and leaves what is stored as it is", err)
	case err != nil:
		return state{}, fmt.Errorf("reading what is managed: %w", err)
	}
	return state{scopes, hash, owner(of)}, nil
}

// checkList is a *CorruptError if something is listed that nothing can be
// called.
func checkList(scopes []limiter.Scope) error {
	for _, s := range scopes {
		if err := validLevel(limiter.Config{Scope: s}); err != nil {
			return &limiter.CorruptError{Item: "list of what a manifest manages", Reason: err.Error()}
		}
	}
	return nil
}

// storedConfig is what a scope holds.
type storedConfig struct {
	limiter.Config
	damaged  error // why it cannot be read, so that it looks empty
	unlisted bool  // no list shows it
}

// stored is what a scope holds.
func (t *target) stored(ctx context.Context, s limiter.Scope) (cfg storedConfig, err error) {
	if lister, ok := t.store.(limiter.ConfigLister); ok {
		var listed bool
		cfg.Config, listed, err = lister.ConfigListed(ctx, s)
		cfg.unlisted = !listed && !empty(cfg.Config)
	} else {
		cfg.Config, err = t.config(ctx, s)
	}
	if _, damaged := errors.AsType[*limiter.CorruptError](err); damaged {
		return storedConfig{Config: limiter.Config{Scope: s}, damaged: err}, nil
	}
	return cfg, err
}

// config is what a scope holds. *CorruptError.
func (t *target) config(ctx context.Context, s limiter.Scope) (cfg limiter.Config, err error) {
	cfg.Scope = s
	switch Level(s) {
	case "entity":
		cfg.Limits, err = t.lim.Limits(ctx, s.Entity, s.Resource)
	case "resource":
		cfg.Limits, err = t.lim.ResourceDefaults(ctx, s.Resource)
	default:
		cfg.Limits, cfg.OnUnavailable, err = t.lim.SystemDefaults(ctx)
	}
	return cfg, err
}

// read is what scopes hold. It ends with the first error.
func (t *target) read(ctx context.Context, scopes []limiter.Scope) ([]storedConfig, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]storedConfig, len(scopes))
	inParallel(ctx, readers, len(scopes), func(i int) {
		var err error
		if all[i], err = t.stored(ctx, scopes[i]); err != nil {
			cancel(err)
		}
	})
	return all, context.Cause(ctx)
}
