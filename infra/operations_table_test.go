package infra_test

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

func historyOperations() []operation {
	return []operation{
		{"AuditEvents", reading, func(w *world) { drain(w, w.repo.AuditEvents(w.Context(), "world", "")) }},
		{"Usage: of an entity", reading, func(w *world) {
			drain(w, w.repo.Usage(w.Context(), limiter.UsageQuery{Entity: "first"}))
		}},
		{"Usage: of a resource", reading, func(w *world) {
			drain(w, w.repo.Usage(w.Context(), limiter.UsageQuery{Resource: gpt}))
		}},
	}
}

// tableOperations are about the table, whatever the namespace, and what programs
// do beside the port.
func tableOperations() []operation {
	return slices.Concat([]operation{
		{"Connect", reading + applying, func(w *world) { w.connect(w.config(&w.recorder), "") }},
		{"Connect: to the table itself", reading + applying + " aggr", func(w *world) { w.connect(w.config(&w.recorder), "_") }},
		{"Ping", reading + applying, func(w *world) { w.ok(w.repo.Ping(w.Context())) }},
		{"Version", reading + applying, func(w *world) {
			_, err := w.repo.Version(w.Context())
			w.ok(err)
		}},
		{"Follow", administering, func(w *world) {
			w.ok(w.repo.Follow(w.Context(), &dynamo.FollowOptions{UntilEmpty: true}, func(_ context.Context, records []dynamo.StreamRecord) (int, error) {
				return len(records), nil
			}))
		}},
		{"PendingMigrations", "acq full read", func(w *world) {
			_, err := dynamo.PendingMigrations(w.Context(), w.table, w.migration())
			w.ok(err)
		}},
		{"Migrate", administering, func(w *world) {
			_, err := w.client().PutItem(w.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: map[string]types.AttributeValue{
				"PK": &types.AttributeValueMemberS{Value: "ENTITY#old"}, "SK": &types.AttributeValueMemberS{Value: "#META"},
				"entity_id": &types.AttributeValueMemberS{Value: "old"},
			}})
			w.ok(err)
			_, err = dynamo.Migrate(w.Context(), w.table, w.migration())
			w.ok(err)
		}},
		{"DescribeTable", "full read", func(w *world) { // as status does
			_, err := dynamodb.NewFromConfig(*w.config(&w.recorder)).DescribeTable(w.Context(), &dynamodb.DescribeTableInput{TableName: &w.table})
			w.ok(err)
		}},
	}, provisionOperations(), streamOperations())
}

func (w *world) migration() *dynamo.MigrateOptions {
	return &dynamo.MigrateOptions{Options: dynamo.Options{AWS: w.config(&w.recorder)}, All: true, DeleteOriginals: true}
}
