package infra_test

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

func bucketOperations() []operation {
	return []operation{
		{"Consume: first use", acquiring, func(w *world) { w.consume(w.repo, "first", noon) }},
		{"Consume: again", acquiring, func(w *world) {
			w.consume(w.others, "again", noon)
			w.consume(w.repo, "again", noon.Add(time.Minute))
			w.consume(w.repo, "again", noon.Add(2*time.Minute))
		}},
		{"Consume: refused", acquiring, func(w *world) {
			w.consume(w.repo, "refused", noon)
			if w.consume(w.repo, "refused", noon).Admitted {
				w.Error("not refused")
			}
		}},
		{"Consume: under limits that changed", acquiring, func(w *world) {
			w.consume(w.others, "changed", noon)
			w.set(limiter.Scope{Entity: "changed"}, limiter.PerMinute("rpm", 1000))
			w.consume(w.repo, "changed", noon)
		}},
		{"Consume: first use with a parent", acquiring, func(w *world) {
			w.create(limiter.Entity{ID: "child", Parent: "parent", Cascade: true})
			w.consume(w.repo, "child", noon)
		}},
		{"Consume: the parent refuses, the child gets it back", acquiring, func(w *world) {
			w.create(limiter.Entity{ID: "rich", Parent: "poor", Cascade: true})
			w.set(limiter.Scope{Entity: "rich"}, limiter.PerMinute("rpm", 1000))
			w.set(limiter.Scope{Entity: "poor"}, limiter.PerMinute("rpm", 130))
			w.consume(w.repo, "rich", noon)
			w.consume(w.others, "poor", noon)
			w.consume(w.repo, "rich", noon)
		}},
		{"Peek", reading, func(w *world) {
			_, err := w.repo.Peek(w.Context(), noon, limiter.Charge{Entity: "peeked", Resource: gpt})
			w.ok(err)
		}},
		{"Credit: less was used", acquiring, func(w *world) { w.credit("less", limiter.Credit{Amounts: limiter.Tokens("rpm", 1)}) }},
		{"Credit: more was used", acquiring, func(w *world) { w.credit("more", limiter.Credit{Amounts: limiter.Tokens("rpm", -70)}) }},
		{"Credit: rollback", acquiring, func(w *world) {
			w.credit("rolled-back", limiter.Credit{Amounts: limiter.Tokens("rpm", 60), Undo: true})
		}},
		{"Credit: the bucket has expired", acquiring, func(w *world) {
			out := w.consume(w.repo, "expired", noon)
			_, err := w.client().DeleteItem(w.Context(), &dynamodb.DeleteItemInput{TableName: &w.table, Key: map[string]types.AttributeValue{
				"PK": &types.AttributeValueMemberS{Value: w.space + "/ENTITY#expired"}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + gpt},
			}})
			w.ok(err)
			w.take(w.T)
			w.ok(w.repo.Credit(w.Context(), noon.Add(24*time.Hour), limiter.Credit{Account: out.Self.Account, Amounts: limiter.Tokens("rpm", -1)}))
		}},
		{"Buckets: of an entity and a resource", reading, func(w *world) { w.buckets(limiter.Scope{Entity: "first", Resource: gpt}) }},
		{"Buckets: of an entity", reading, func(w *world) { w.buckets(limiter.Scope{Entity: "first"}) }},
		{"Buckets: of a resource", reading, func(w *world) { w.buckets(limiter.Scope{Resource: "rare"}) }},
		{"Buckets: all", listing, func(w *world) {
			w.inhabit("buckets")
			w.buckets(limiter.Scope{})
		}},
	}
}

// credit settles a charge, and records nothing else.
func (w *world) credit(entity string, c limiter.Credit) {
	w.Helper()
	c.Account = w.consume(w.repo, entity, noon).Self.Account
	w.take(w.T)
	w.ok(w.repo.Credit(w.Context(), noon, c))
}

func (w *world) buckets(of limiter.Scope) {
	w.Helper()
	drain(w, w.repo.Buckets(w.Context(), noon, of))
}
