package dynamo

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// attrManagedOwner is Go only: Python's provisioner neither reads nor keeps it.
const attrManagedOwner = "owner"

// managedItem returns the item that lists the managed scopes. It equals that of
// Python's provisioner, but is indexed.
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

// managedScopes decodes the scopes of managedItem. A missing attribute lists
// nothing. For one of another type, it returns a *limiter.CorruptError.
func managedScopes(it item) (scopes []limiter.Scope, err error) {
	system := it[attrManagedSystem]
	if _, ok := system.(*types.AttributeValueMemberBOOL); system != nil && !ok {
		return nil, it.corrupt(attrManagedSystem + " is neither true nor false")
	}

	if it.truth(attrManagedSystem) {
		scopes = append(scopes, limiter.Scope{})
	}

	resources, ok := nameList(it[attrManagedResources])
	if !ok {
		return nil, it.corrupt(attrManagedResources + " is not a list of names")
	}

	for _, resource := range resources {
		scopes = append(scopes, limiter.Scope{Resource: resource})
	}

	entities := it[attrManagedEntities]
	lists, ok := entities.(*types.AttributeValueMemberM)
	if entities != nil && !ok {
		return nil, it.corrupt(attrManagedEntities + " is not a map of lists")
	}

	if lists == nil {
		return rules.SortedScopes(scopes), nil
	}

	for entity, list := range lists.Value {
		resources, ok := nameList(list)
		if !ok {
			return nil, it.corrupt(attrManagedEntities + ": the value of " + entity + " is not a list of names")
		}
		for _, resource := range resources {
			scopes = append(scopes, limiter.Scope{Entity: entity, Resource: portResource(resource)})
		}
	}
	return rules.SortedScopes(scopes), nil
}

// nameList returns the strings of a list or a set. A nil value is an empty list.
func nameList(v types.AttributeValue) (names []string, ok bool) {
	switch list := v.(type) {
	case nil:
		return nil, true
	case *types.AttributeValueMemberSS:
		return list.Value, true
	case *types.AttributeValueMemberL:
		for _, e := range list.Value {
			name, ok := e.(*types.AttributeValueMemberS)
			if !ok {
				return nil, false
			}
			names = append(names, name.Value)
		}
		return names, true
	}
	return nil, false
}

// sortedList returns a list of names, sorted.
func sortedList(names []string) types.AttributeValue {
	list := make([]types.AttributeValue, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		list = append(list, text(name))
	}
	return &types.AttributeValueMemberL{Value: list}
}

// size returns the size in bytes that the service counts for an item of strings,
// booleans, lists and maps.
func (it item) size() int {
	n := 0
	for attr, v := range it {
		n += len(attr) + valueSize(v)
	}
	return n
}

func valueSize(v types.AttributeValue) int {
	const collection, element = 3, 1

	// The service counts three bytes for a list or a map, and one for each of
	// its elements.
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberL:
		n := collection
		for _, e := range v.Value {
			n += element + valueSize(e)
		}
		return n
	case *types.AttributeValueMemberM:
		return collection + element*len(v.Value) + item(v.Value).size()
	}
	return 1
}

// isoFormat formats a time as Python does in this item.
func isoFormat(t time.Time) string {
	t = t.UTC().Truncate(time.Millisecond)
	// Python's isoformat leaves out a fraction of zero.
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}
