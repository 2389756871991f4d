package dynamo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/exact"
)

// Managed are the scopes that a manifest rules, and the hash stored with them.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash string, err error) {
	if err := r.usable(ctx); err != nil {
		return nil, "", err
	}
	it, err := r.get(ctx, managedKey(r.ns))
	if err != nil {
		return nil, "", err
	}
	return managedScopes(it), it.text(attrAppliedHash), nil
}

// SetManaged replaces both, if previous is the stored hash; ErrConflict. The
// list is one item, so that it ends where an item does: an *InvalidError says
// so, and nothing was written.
func (r *Repository) SetManaged(ctx context.Context, now time.Time, previous, hash string, scopes []limiter.Scope) error {
	if err := r.changeable(ctx, now); err != nil {
		return err
	}
	stored := item{}
	if previous != "" {
		stored[attrAppliedHash] = text(previous)
	}
	err := r.change(ctx, r.putIf(r.managedItem(now, hash, scopes), new(condition).same(stored, attrAppliedHash)))
	if _, overtaken := refusedAt(err, 0); overtaken {
		return exact.Overtaken()
	}
	if isTooLarge(err) {
		return &limiter.InvalidError{
			Field: "manifest", Value: fmt.Sprintf("%d levels", len(scopes)),
			Reason: "must be shorter on DynamoDB, where the list of what is managed is one item of at most 400 KB: some 5,000 entities in a namespace",
		}
	}
	return err
}

// isTooLarge tells whether the service refused an item for its size.
func isTooLarge(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Item size") && strings.Contains(err.Error(), "exceeded")
}

// managedItem is the record that Python's provisioner keeps, and in an index
// besides.
func (r *Repository) managedItem(now time.Time, hash string, scopes []limiter.Scope) item {
	it := newItem(r.ns, managedKey(r.ns))
	var resources []string
	entities := map[string][]string{}
	for _, s := range scopes {
		switch {
		case s.Entity != "":
			entities[s.Entity] = append(entities[s.Entity], storedResource(s.Resource))
		case s.Resource != "":
			resources = append(resources, s.Resource)
		}
	}
	lists := make(map[string]types.AttributeValue, len(entities))
	for entity, of := range entities {
		lists[entity] = sortedList(of)
	}
	it[attrManagedSystem] = truth(slices.Contains(scopes, limiter.Scope{}))
	it[attrManagedResources] = sortedList(resources)
	it[attrManagedEntities] = &types.AttributeValueMemberM{Value: lists}
	it[attrLastApplied], it[attrAppliedHash] = text(isoFormat(now)), text(hash)
	return it
}

// managedScopes is managedItem backwards.
func managedScopes(it item) (scopes []limiter.Scope) {
	if it.truth(attrManagedSystem) {
		scopes = append(scopes, limiter.Scope{})
	}
	for _, resource := range it.texts(attrManagedResources) {
		scopes = append(scopes, limiter.Scope{Resource: resource})
	}
	lists, _ := it[attrManagedEntities].(*types.AttributeValueMemberM)
	if lists == nil {
		return exact.SortedScopes(scopes)
	}
	for entity := range lists.Value {
		for _, resource := range item(lists.Value).texts(entity) {
			scopes = append(scopes, limiter.Scope{Entity: entity, Resource: portResource(resource)})
		}
	}
	return exact.SortedScopes(scopes)
}

func sortedList(names []string) types.AttributeValue {
	list := make([]types.AttributeValue, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		list = append(list, text(name))
	}
	return &types.AttributeValueMemberL{Value: list}
}

// isoFormat is a time as Python writes it in this one record.
func isoFormat(t time.Time) string {
	t = t.UTC().Truncate(time.Millisecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}
