package manifest

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go"
)

// state is the record of the managed levels in the store.
type state struct {
	scopes []limiter.Scope
	hash   string
	owner  owner
}

// readState reads the record. A damaged list is an error that names the remedy,
// unless Options.Forget is set.
func (t *target) readState(ctx context.Context) (state, error) {
	scopes, hash, by, err := t.store.Managed(ctx)
	if err == nil {
		err = checkScopes(scopes)
	}

	_, damaged := errors.AsType[*limiter.CorruptError](err)
	switch {
	// The hash stays, so that the apply replaces the list that was found
	// damaged, and no newer one.
	case damaged && t.Forget:
		return state{nil, hash, owner(by)}, nil
	case damaged:
		return state{}, fmt.Errorf(
			"reading the list of managed limits: %w; `zae-limiter limits apply FILE --forget` replaces the "+
				"list and keeps the stored limits", err)
	case err != nil:
		return state{}, fmt.Errorf("reading the list of managed limits: %w", err)
	}
	return state{scopes, hash, owner(by)}, nil
}

// checkScopes returns a *CorruptError if the list has an invalid name.
func checkScopes(scopes []limiter.Scope) error {
	for _, s := range scopes {
		if err := validateLevel(limiter.Config{Scope: s}); err != nil {
			return &limiter.CorruptError{Item: "list of managed limits", Reason: err.Error()}
		}
	}
	return nil
}

// storedConfig is a level as stored.
type storedConfig struct {
	limiter.Config
	damaged  error // if not nil, the level cannot be read and looks empty
	unlisted bool  // the lists of the store do not show the level
}

// maxReads is the number of concurrent reads.
const maxReads = 16

// readConfigs reads the levels of all scopes. It stops at the first error.
func (t *target) readConfigs(ctx context.Context, scopes []limiter.Scope) ([]storedConfig, error) {
	all := make([]storedConfig, len(scopes))
	reads, readCtx := errgroup.WithContext(ctx)
	reads.SetLimit(maxReads)
	for i, s := range scopes {
		if readCtx.Err() != nil {
			break
		}
		reads.Go(func() (err error) {
			all[i], err = t.readConfig(readCtx, s)
			return err
		})
	}

	err := reads.Wait()
	// When ctx ends, the loop stops early, maybe without an error of a read.
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return all, err
}

// readConfig reads the level of a scope.
func (t *target) readConfig(ctx context.Context, s limiter.Scope) (cfg storedConfig, err error) {
	if lister, ok := limiter.Optional[limiter.ConfigLister](t.repo); ok {
		var listed bool
		cfg.Config, listed, err = lister.ConfigListed(ctx, s)
		cfg.unlisted = !listed && !isEmpty(cfg.Config)
	} else {
		cfg.Config, err = t.config(ctx, s)
	}

	// A damaged level does not end the plan, since an apply can replace it.
	if _, damaged := errors.AsType[*limiter.CorruptError](err); damaged {
		return storedConfig{Config: limiter.Config{Scope: s}, damaged: err}, nil
	}
	return cfg, err
}

// config reads the level of a scope through the limiter. It returns a
// *CorruptError if the level cannot be read.
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
