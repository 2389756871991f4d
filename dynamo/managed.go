package dynamo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Managed are the scopes that a manifest rules, with the hash and the owner
// stored with them. *CorruptError if it is the scopes that cannot be read.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	it, err := r.look(ctx, managedKey(r.ns))
	if err != nil {
		return nil, "", "", err
	}
	scopes, err = managedScopes(it)
	return scopes, it.text(attrAppliedHash), it.text(attrManagedOwner), err
}

// SetManaged replaces all three, if previous is the stored hash; ErrConflict.
// The list is one item, so that it ends where an item does: an *InvalidError
// says so, and nothing was written.
func (r *Repository) SetManaged(ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope) error {
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
		return tooLong(scopes)
	}
	return err
}

// hashIs holds while a hash is stored. What is none counts as "".
func hashIs(hash string) *condition {
	c := new(condition)
	if hash != "" {
		return c.same(item{attrAppliedHash: text(hash)}, attrAppliedHash)
	}
	name := c.name(attrAppliedHash)
	c.values = item{":text": text("S")}
	return c.and("(attribute_not_exists(" + name + ") OR NOT attribute_type(" + name + ", :text))")
}

// maxManaged is how many bytes of an item are used. The service takes up to
// 400 KB.
const maxManaged = 400_000

// CheckManaged is an *InvalidError if there are more scopes than SetManaged can
// store. It asks nobody.
func (r *Repository) CheckManaged(scopes []limiter.Scope) error {
	const rest = 1024 // the keys, hash, time and owner
	if rest+r.managedItem(time.Time{}, "", scopes).size() > maxManaged {
		return tooLong(scopes)
	}
	return nil
}

func tooLong(scopes []limiter.Scope) error {
	return &limiter.InvalidError{
		Field: "manifest", Value: fmt.Sprintf("%d levels", len(scopes)),
		Reason: "must be shorter on DynamoDB, where the list of what is managed is one item of at most 400 KB: some 5,000 entities in a namespace",
	}
}

// isTooLarge tells whether the service refused an item for its size.
func isTooLarge(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Item size") && strings.Contains(err.Error(), "exceeded")
}
