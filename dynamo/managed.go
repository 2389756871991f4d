package dynamo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Managed returns the scopes that a manifest manages, and the hash and the owner
// stored with them. If the scopes are unreadable, it returns hash and owner with
// a *limiter.CorruptError.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	it, err := r.getActive(ctx, managedKey(r.ns))
	if err != nil {
		return nil, "", "", err
	}
	scopes, err = managedScopes(it)
	return scopes, it.text(attrAppliedHash), it.text(attrManagedOwner), err
}

// SetManaged replaces scopes, hash and owner, or returns limiter.ErrConflict if previous
// is not the stored hash. The list is stored in one item. If that would become
// too large, SetManaged returns a *limiter.InvalidError.
func (r *Repository) SetManaged(
	ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope,
) error {
	if err := r.requireActiveNow(ctx, now); err != nil {
		return err
	}

	it := r.managedItem(now, hash, scopes)
	if owner != "" {
		it[attrManagedOwner] = text(owner)
	}

	err := r.change(ctx, r.putIf(it, hashIs(previous)))
	if _, overtaken := refusedAt(err, 0); overtaken {
		return rules.Overtaken()
	}
	if isTooLarge(err) {
		return tooManyScopes(scopes)
	}
	return err
}

// hashIs returns the condition that hash is stored. A missing or malformed hash
// counts as "".
func hashIs(hash string) *condition {
	c := new(condition)
	if hash != "" {
		return c.same(item{attrAppliedHash: text(hash)}, attrAppliedHash)
	}

	name := c.name(attrAppliedHash)
	c.values = item{":text": text("S")}
	return c.and("(attribute_not_exists(" + name + ") OR NOT attribute_type(" + name + ", :text))")
}

// maxManaged is the maximum size of the item in bytes. The service allows 400 KB.
const maxManaged = 400_000

// CheckManaged returns a *limiter.InvalidError if there are more scopes than
// SetManaged can store. It sends no request.
func (r *Repository) CheckManaged(scopes []limiter.Scope) error {
	const rest = 1024 // for the keys, hash, time and owner
	if rest+r.managedItem(time.Time{}, "", scopes).size() > maxManaged {
		return tooManyScopes(scopes)
	}
	return nil
}

func tooManyScopes(scopes []limiter.Scope) error {
	return &limiter.InvalidError{
		Field: "manifest", Value: fmt.Sprintf("%d levels", len(scopes)),
		Reason: "is too long for DynamoDB, which stores the list of managed limits in one item of at most " +
			"400 KB, about 5,000 entities; use several namespaces",
	}
}

// isTooLarge reports whether the service rejected an item because of its size.
func isTooLarge(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Item size") && strings.Contains(err.Error(), "exceeded")
}

// ConfigListed returns what Config returns, and whether listings include the
// scope. Python's provisioner writes items that are in no index or registry.
func (r *Repository) ConfigListed(ctx context.Context, s limiter.Scope) (cfg limiter.Config, listed bool, err error) {
	it, err := r.getActive(ctx, configKey(r.ns, s.Entity, s.Resource))
	if err != nil {
		return limiter.Config{}, false, err
	}

	cfg, err = decodeConfig(s, it)
	if err != nil {
		return limiter.Config{}, false, err
	}
	return cfg, it[attrConfigVersion] != nil && (s.Entity == "" || it[attrGSI3PK] != nil), nil
}

// ReplaceConfig replaces the config of a scope and writes its event. Listings
// then include the scope.
func (r *Repository) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if cfg.Scope != (limiter.Scope{}) {
		// SetConfig replaces all limits of a level, and only the system's has
		// more than limits.
		return r.SetConfig(ctx, cfg, ev)
	}

	if err := checkLimits(len(cfg.Limits)); err != nil {
		return err
	}

	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return err
	}

	event, err := r.auditPut(ctx, ev)
	if err != nil {
		return err
	}

	// SetConfig would keep a stored mode that cfg lacks.
	err = r.putSystem(ctx, false, event, func(item) limiter.Config { return cfg })
	r.configChanged(ctx, ev.At.UnixMilli(), cfg.Scope, err)
	return err
}
