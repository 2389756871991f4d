package dynamo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

func TestEntityIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.CreateEntity(limiter.Entity{ID: "plain", Name: "plain"})
	s.CreateEntity(limiter.Entity{
		ID: "key:1", Name: "Key One", Parent: "plain", Cascade: true,
		Metadata: map[string]string{"tier": "gold", "note": ""},
	})
	s.CheckItem("{ns}/ENTITY#plain", "#META", `
		entity_id S plain
		name S plain
		parent_id NULL
		cascade BOOL false
		metadata M {}
		created_at S 2026-03-14T15:09:26Z
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#plain`)
	s.CheckItem("{ns}/ENTITY#key:1", "#META", `
		entity_id S key:1
		name S Key One
		parent_id S plain
		cascade BOOL true
		metadata M {note S; tier S gold}
		created_at S 2026-03-14T15:09:26Z
		GSI1PK S {ns}/PARENT#plain
		GSI1SK S CHILD#key:1
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#key:1`)
}

// Python accepts metadata of any type.
func TestMetadataThatAreNotTextAreRendered(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	it := s.Attributes(
		"PK S {ns}/ENTITY#alice\nSK S #META\nentity_id S alice\nname S alice\nparent_id NULL\nGSI4PK S " +
			"{ns}\nGSI4SK S {ns}/ENTITY#alice",
	)
	it["metadata"] = &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		"text":   &types.AttributeValueMemberS{Value: "<a>"},
		"whole":  &types.AttributeValueMemberN{Value: "12345678901234567890"},
		"part":   &types.AttributeValueMemberN{Value: "0.5"},
		"yes":    &types.AttributeValueMemberBOOL{Value: true},
		"none":   &types.AttributeValueMemberNULL{Value: true},
		"nested": &types.AttributeValueMemberM{Value: s.Attributes("a N 1\nb S <x>")},
		"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{
			&types.AttributeValueMemberN{Value: "1"}, &types.AttributeValueMemberS{Value: "b"},
		}},
	}}
	_, err := s.Client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.TableName, Item: it})
	s.Must(err)
	want := limiter.Entity{ID: "alice", Name: "alice", Metadata: map[string]string{
		"text": "<a>", "whole": "12345678901234567890", "part": "0.5", "yes": "true", "none": "null",
		"nested": `{"a":1,"b":"<x>"}`, "list": `[1,"b"]`,
	}}
	got, err := s.Repo.Entity(t.Context(), "alice")
	s.Must(err)
	s.Equal("entity", got, want)
	s.Equal("entities", dynamotest.Collect(t, s.Repo.Entities(t.Context(), "")), []limiter.Entity{want})
}

// storeEntity stores an entity with every kind of item: 36 items and the counts
// of two resources.
func (s *storedTable) storeEntity(id string) {
	s.Helper()
	s.CreateEntity(limiter.Entity{ID: id, Name: id, Parent: "parent"})
	s.SetLimits(limiter.Scope{Entity: id}, perMinute)
	s.SetLimits(limiter.Scope{Entity: id, Resource: "gpt-4"}, perMinute)
	for i := range 33 {
		sk := fmt.Sprintf("#BUCKET#r%02d", i)
		if i%2 == 0 {
			sk = fmt.Sprintf("#USAGE#r%02d#2026-03-14T15:00:00Z", i)
		}
		s.PutItem("{ns}/ENTITY#"+id, sk, "GSI4PK S {ns}\nGSI4SK S {ns}/ENTITY#"+id)
	}
}

func (s *storedTable) deleteEntity(ctx context.Context, id string) error {
	return s.Repo.DeleteEntity(ctx, id, s.Event("entity_deleted", id, ""))
}

// deletions returns the numbers of deleted records in the events of an entity.
func (s *storedTable) deletions(id string) (records []any) {
	s.Helper()
	for _, ev := range dynamotest.Collect(s.T, s.Repo.AuditEvents(s.Context(), id, "")) {
		if ev.Action == "entity_deleted" {
			records = append(records, ev.Details["records_deleted"])
		}
	}
	return records
}

func TestEntitiesFollowPages(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.storeEntity("b")
	s.storeEntity("a")
	s.CreateEntity(limiter.Entity{ID: "a-1", Name: "a-1", Parent: "parent"})
	s.Wire.PageSize.Store(3)
	for _, parent := range []string{"", "parent"} {
		var ids []string
		for _, e := range dynamotest.Collect(t, s.Repo.Entities(t.Context(), parent)) {
			ids = append(ids, e.ID)
		}
		s.Equal("entities", ids, []string{"a", "a-1", "b"})
	}
}

// The service answers a part of a batch when it is busy.
func TestUnprocessedKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.CreateEntity(limiter.Entity{ID: "a", Name: "a"})
	s.CreateEntity(limiter.Entity{ID: "b", Name: "b"})
	var busy atomic.Int64
	s.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
		if c.Op != "BatchGetItem" || busy.Add(1) > 2 {
			return c.Send()
		}
		var sent struct{ RequestItems map[string]any }
		s.Must(json.Unmarshal([]byte(c.Body), &sent))
		return dynamotest.Respond(t, map[string]any{
			"Responses": map[string]any{}, "UnprocessedKeys": sent.RequestItems,
		})
	})
	s.Equal("number of entities", len(dynamotest.Collect(t, s.Repo.Entities(t.Context(), ""))), 2)
	if busy.Load() < 3 {
		t.Error("nothing was left unprocessed: the test shows nothing")
	}
}

func TestUnprocessedItemsAreDeletedAgain(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.storeEntity("alice")
	var busy atomic.Int64
	s.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
		if c.Op != "BatchWriteItem" || busy.Add(1)%2 == 0 {
			return c.Send()
		}
		var sent struct{ RequestItems map[string]any }
		s.Must(json.Unmarshal([]byte(c.Body), &sent))
		return dynamotest.Respond(t, map[string]any{"UnprocessedItems": sent.RequestItems})
	})
	s.Must(s.deleteEntity(t.Context(), "alice"))
	s.Equal("items", s.SortKeys("{ns}/ENTITY#alice"), []string(nil))
	s.Equal("requests", busy.Load(), int64(4))
}

// Python leaves the items after the first page, and the counts of its limits.
func TestDeletedEntityLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.storeEntity("alice")
	s.storeEntity("alice2")
	s.Wire.PageSize.Store(5)
	s.Must(s.deleteEntity(t.Context(), "alice"))
	s.Equal("items", s.SortKeys("{ns}/ENTITY#alice"), []string(nil))
	s.Equal("items of another", len(s.SortKeys("{ns}/ENTITY#alice2")), 36)
	s.CheckCounts("gpt-4 N 1\n_default_ N 1")
	s.Equal("deletions", s.deletions("alice"), []any{int64(36)})
	s.Must(s.deleteEntity(t.Context(), "alice2"))
	s.CheckCounts("")
}

func TestDeletedEntityNeedsNoRecord(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Entity: "limited"}, perMinute)
	s.SetLimits(limiter.Scope{Entity: "limited", Resource: "gpt-4"}, perMinute)
	s.PutItem("{ns}/ENTITY#charged", "#BUCKET#gpt-4", "ttl N 1")
	s.PutItem("{ns}/ENTITY#old", "#LIMIT#gpt-4#rpm", "")
	for id, records := range map[string]int64{"limited": 2, "charged": 1, "old": 1} {
		s.Must(s.deleteEntity(t.Context(), id))
		s.Equal("items", s.SortKeys("{ns}/ENTITY#"+id), []string(nil))
		s.Equal("deletions", s.deletions(id), []any{records})
		if err := s.deleteEntity(t.Context(), id); !errors.Is(err, limiter.ErrNotFound) {
			t.Errorf("error %v, want not found", err)
		}
	}
	s.CheckCounts("")
}

// TestDeleteThatStopsIsFinishedByAnother stops a delete at every write, before
// and after it is sent.
func TestDeleteThatStopsIsFinishedByAnother(t *testing.T) {
	t.Parallel()
	const writes = 7 // two configs with their clean-up, two batches, the last item
	for stop := range 2 * writes {
		t.Run(fmt.Sprintf("at %d", stop), func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.storeEntity("alice")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var sent atomic.Int64
			s.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
				if c.Op == "Query" || strings.Contains(c.Op, "Get") || int(sent.Add(1)) <= stop/2 {
					return c.Send()
				}
				if stop%2 == 1 {
					if reply, err := c.Send(); err == nil {
						_ = reply.Body.Close()
					}
				}
				cancel()
				return nil, ctx.Err()
			})
			first := s.deleteEntity(ctx, "alice")
			s.Wire.Intercept(nil)
			second := s.deleteEntity(t.Context(), "alice")
			if first == nil {
				t.Error("the first call was not stopped")
			}
			if second != nil && !errors.Is(second, limiter.ErrNotFound) {
				t.Error(second)
			}
			s.Equal("items", s.SortKeys("{ns}/ENTITY#alice"), []string(nil))
			s.Equal("number of events", len(s.deletions("alice")), 1)
			names, err := s.Repo.ResourcesWithLimits(t.Context())
			s.Must(err)
			s.Equal("resources with limits", names, []string(nil))
		})
	}
}

func TestEntityDeletedByTwoIsDeletedByOne(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.storeEntity("alice")
	var all sync.WaitGroup
	var deleted atomic.Int64
	for range 4 {
		ev := s.Event("entity_deleted", "alice", "")
		all.Go(func() {
			switch err := s.Repo.DeleteEntity(t.Context(), "alice", ev); {
			case err == nil:
				deleted.Add(1)
			case !errors.Is(err, limiter.ErrNotFound):
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.Equal("successes", deleted.Load(), int64(1))
	s.Equal("number of events", len(s.deletions("alice")), 1)
	s.Equal("items", s.SortKeys("{ns}/ENTITY#alice"), []string(nil))
}

// TTL may remove a bucket before the delete does.
func TestDeleteFinishesWithoutTheItemItWantedToEndWith(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.PutItem("{ns}/ENTITY#alice", "#BUCKET#a", "ttl N 1")
	s.PutItem("{ns}/ENTITY#alice", "#BUCKET#b", "ttl N 1")
	s.Wire.Before(isTransaction, func() { s.DeleteItem("{ns}/ENTITY#alice", "#BUCKET#b") })
	s.Must(s.deleteEntity(t.Context(), "alice"))
	s.Equal("deletions", s.deletions("alice"), []any{int64(2)})
}
