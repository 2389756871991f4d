package dynamo

import (
	"context"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// listing yields what decode takes of the items of a query. Nothing happens
// before it is ranged over, and it may be more than once.
func listing[T any](ctx context.Context, r *Repository, ask func() *dynamodb.QueryInput, decode func(item) (T, bool, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		if err := r.requireActive(ctx); err != nil {
			yield(zero, err)
			return
		}
		for it, err := range r.query(ctx, r.ns, ask()) {
			if err != nil {
				yield(zero, err)
				return
			}
			v, ok, err := decode(it)
			if err != nil {
				yield(zero, err)
				return
			}
			if ok && !yield(v, nil) {
				return
			}
		}
	}
}

// between is a query of the items of a partition whose sort key is in a range
// that includes both ends, in the order of that key.
func between(pk, first, last string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("#pk = :pk AND #sk BETWEEN :first AND :last"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: item{":pk": text(pk), ":first": text(first), ":last": text(last)},
		ConsistentRead:            aws.Bool(true),
	}
}
