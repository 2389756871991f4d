package infra_test

import (
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// streamOperations are what the aggregator does with records of the stream.
func streamOperations() []operation {
	return []operation{
		{"Aggregate", acquiring + " aggr", aggregate}, // usage is beside buckets: who writes those could count, too
		{"Archive", " aggr", archive},
	}
}

// aggregate counts and refills a bucket that was just emptied.
func aggregate(w *world) {
	now := time.Now()
	w.consume(w.others, "counted", now.Add(-time.Minute))
	w.consume(w.others, "counted", now.Add(-20*time.Second))
	w.aggregate("INSERT", "NewImage", now, w.stored("ENTITY#counted", "#BUCKET#"), `"snapshots_updated":3,"refills_written":1`)
}

// archive keeps an event that has expired, in a file that is read before it is
// written.
func archive(w *world) {
	w.aggregate("REMOVE", "OldImage", noon, w.stored("AUDIT#world", "#AUDIT#"), `"events_archived":1,"s3_objects_created":1`)
}

// aggregate has the function handle one record, and say so in its log.
func (w *world) aggregate(event, image string, at time.Time, item map[string]types.AttributeValue, want string) {
	w.Helper()
	raw, err := json.Marshal(tree{"Records": []any{tree{
		"eventName": event, "eventSourceARN": "arn:aws:dynamodb:us-east-1:123456789012:table/app/stream/2026-05-04T12:00:00.000",
		"dynamodb": tree{"ApproximateCreationDateTime": at.Unix(), "SequenceNumber": "1", image: w.image(item)},
	}}})
	w.ok(err)
	w.invoke("AggregatorFunction", string(raw), want)
}

// stored is an item of the namespace.
func (w *world) stored(pk, sk string) map[string]types.AttributeValue {
	w.Helper()
	found, err := w.client().Query(w.Context(), &dynamodb.QueryInput{
		TableName: &w.table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(1), KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": &types.AttributeValueMemberS{Value: w.space + "/" + pk}, ":sk": &types.AttributeValueMemberS{Value: sk},
		},
	})
	w.ok(err)
	if len(found.Items) == 0 {
		w.Fatalf("there is no item %s, %s", pk, sk)
	}
	return found.Items[0]
}

// image is an item as a function is given it.
func (w *world) image(item map[string]types.AttributeValue) tree {
	w.Helper()
	image := tree{}
	for name, v := range item {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			image[name] = tree{"S": v.Value}
		case *types.AttributeValueMemberN:
			image[name] = tree{"N": v.Value}
		case *types.AttributeValueMemberBOOL:
			image[name] = tree{"BOOL": v.Value}
		case *types.AttributeValueMemberNULL:
			image[name] = tree{"NULL": v.Value}
		case *types.AttributeValueMemberM:
			image[name] = tree{"M": w.image(v.Value)}
		default:
			w.Fatalf("%s is a %T", name, v)
		}
	}
	return image
}
