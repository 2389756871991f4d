package dynamo

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Two items of a namespace are registries of limits. One is the set of resources
// that have defaults. The other counts, for each resource, the entities that
// have limits for it, in an attribute named like the resource.

// ResourcesWithDefaults returns the resources that have limits, sorted.
func (r *Repository) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	it, err := r.getActive(ctx, resourcesKey(r.ns))
	if err != nil {
		return nil, err
	}

	set, _ := it[attrResources].(*types.AttributeValueMemberSS)

	// DynamoDB removes an empty set.
	if set == nil {
		return nil, nil
	}

	return slices.Sorted(slices.Values(set.Value)), nil
}

// ResourcesWithLimits returns the resources for which any entity has limits,
// sorted.
func (r *Repository) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	it, err := r.getActive(ctx, entityConfigsKey(r.ns))
	if err != nil {
		return nil, err
	}

	var names []string
	for attr, v := range it {
		// The item also has its keys, which count nothing.
		if _, counter := v.(*types.AttributeValueMemberN); !counter {
			continue
		}

		n, err := it.number(attr)
		if err != nil {
			return nil, err
		}

		// Removing a counter of zero may have failed.
		if n > 0 {
			names = append(names, portResource(attr))
		}
	}

	slices.Sort(names)
	return names, nil
}

// EntitiesWithLimits iterates over the entities that have limits for a resource,
// by ID.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return listing(ctx, r, func() *dynamodb.QueryInput {
		in := queryPartition(configsPK(r.ns, storedResource(resource)))

		// Reads of an index cannot be consistent.
		in.IndexName, in.ConsistentRead = aws.String(indexConfigs), nil
		in.ExpressionAttributeNames["#pk"] = attrGSI3PK

		return in
	}, func(it item) (string, bool, error) {
		id := it.text(attrGSI3SK)
		return id, id != "", nil
	})
}

// countDefaults returns the update that adds a resource to the set of those with
// defaults, or removes it. The action is ADD or DELETE.
func (r *Repository) countDefaults(resource, action string) types.TransactWriteItem {
	return r.indexedUpdate(resourcesKey(r.ns), " "+action+" #r :r", map[string]string{"#r": attrResources},
		item{":r": &types.AttributeValueMemberSS{Value: []string{resource}}})
}

// countLimits returns the update that counts one more entity with limits for a
// resource.
func (r *Repository) countLimits(resource string) types.TransactWriteItem {
	return r.indexedUpdate(entityConfigsKey(r.ns), " ADD #r :one", map[string]string{"#r": storedResource(resource)},
		item{":one": number(1)})
}

// removeEntityConfig deletes the config item at k of an entity, decrements its
// count and executes the writes in more. If there is no item, the transaction is
// refused at its first write.
//
// A config that Python's provisioner wrote is neither indexed nor counted, so
// its removal does not decrement the count. The count may also be too low, so it
// never falls below zero.
func (r *Repository) removeEntityConfig(ctx context.Context, k key, more ...types.TransactWriteItem) error {
	resource := strings.TrimPrefix(k.sk, configSKPrefix)
	gone := r.deleteIf(k, new(condition).exists(attrGSI3PK))

	err := r.change(ctx, append([]types.TransactWriteItem{gone, r.uncountLimits(resource)}, more...)...)
	if _, bare := refusedAt(err, 0); bare {
		// It may be a config that is neither indexed nor counted.
		err = r.change(ctx, append([]types.TransactWriteItem{r.deleteIf(k, present())}, more...)...)
	} else if _, uncounted := refusedAt(err, 1); uncounted {
		err = r.change(ctx, append([]types.TransactWriteItem{gone}, more...)...)
	}

	if err == nil {
		r.dropCount(ctx, resource)
	}
	return err
}

// uncountLimits returns the update that reverts countLimits, for a resource as
// stored.
func (r *Repository) uncountLimits(resource string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &r.table, Key: entityConfigsKey(r.ns).at(),
		UpdateExpression: aws.String("ADD #r :less"), ConditionExpression: aws.String("#r > :zero"),
		ExpressionAttributeNames:  map[string]string{"#r": resource},
		ExpressionAttributeValues: item{":less": number(-1), ":zero": number(0)},
	}}
}

// dropCount removes a counter that has reached zero. It ignores failures, since a
// counter of zero has no effect.
func (r *Repository) dropCount(ctx context.Context, resource string) {
	// Another call may have counted the resource again, so the condition
	// repeats that it is zero.
	_, _ = r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: entityConfigsKey(r.ns).at(),
		UpdateExpression: aws.String("REMOVE #r"), ConditionExpression: aws.String("#r <= :zero"),
		ExpressionAttributeNames:  map[string]string{"#r": resource},
		ExpressionAttributeValues: item{":zero": number(0)},
	})
}
