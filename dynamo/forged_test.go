package dynamo_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// A policy can limit the partition keys that a tenant writes under, but not the
// values it writes there, so not the keys under which indexes show its items.

// forge copies every item there is into partitions of another namespace. The
// copies keep their index keys, and what else they say is changed.
func (s *storedTable) forge(foreign, changes string) {
	s.Helper()
	for _, it := range scanned(s.T, s.name) {
		_, rest, _ := strings.Cut(rawText(it, "PK"), "/")
		it["PK"] = &types.AttributeValueMemberS{Value: foreign + "/" + rest}
		maps.Copy(it, s.attributes(changes))
		_, err := s.client.PutItem(s.Context(), &dynamodb.PutItemInput{TableName: &s.name, Item: it})
		s.ok(err)
	}
}

// avoid reports requests for what is in a namespace. Where a page begins is
// none: the service names the item it ended with, whosever that is.
func (s *storedTable) avoid(foreign string) {
	s.wire.cut(func(c *wireCall) (*http.Response, error) {
		var sent map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.body), &sent); err != nil {
			s.Errorf("%s: %v", c.op, err)
		}
		delete(sent, "ExclusiveStartKey")
		for name, part := range sent {
			if strings.Contains(string(part), foreign+"/") {
				s.Errorf("%s asks for what is another's: %s %s", c.op, name, part)
			}
		}
		return c.send()
	})
}

// listings are all that an index may answer, and the namespaces.
func (s *storedTable) listings() map[string][]string {
	s.Helper()
	ctx := s.Context()
	shown := map[string][]string{
		"usage":      s.usage(limiter.UsageQuery{Resource: "gpt-4"}),
		"namespaces": texts(gathered(s.T, s.repo.Namespaces(ctx))),
	}
	for _, parent := range []string{"", "parent"} {
		shown["entities of "+parent] = texts(gathered(s.T, s.repo.Entities(ctx, parent)))
	}
	for _, resource := range []string{"", "gpt-4"} {
		shown["entities with limits for "+resource] = gathered(s.T, s.repo.EntitiesWithLimits(ctx, resource))
		for _, b := range gathered(s.T, s.repo.Buckets(ctx, dawn, limiter.Scope{Resource: resource})) {
			shown["buckets of "+resource] = append(shown["buckets of "+resource], fmt.Sprint(b.Account.Entity, b.Tokens))
		}
	}
	return shown
}

func texts[T any](all []T) (shown []string) {
	for _, v := range all {
		shown = append(shown, fmt.Sprint(v))
	}
	return shown
}

// inhabit stores what each listing shows.
func (s *storedTable) inhabit() {
	s.Helper()
	for _, id := range []string{"alice", "bob"} {
		s.create(limiter.Entity{ID: id, Name: id, Parent: "parent"})
		s.set(limiter.Scope{Entity: id}, perMinute)
		s.set(limiter.Scope{Entity: id, Resource: "gpt-4"}, perMinute)
		s.charge(id, 10)
		s.snapshot(id, "gpt-4", "hourly", "2026-03-14T15:00:00Z", "", "rpm N 3\ntotal_events N 4")
	}
}

func TestListingsShowNothingForged(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string]string{"whole": "", "damaged": "rf S x\nrpm N 0.5"} {
		for _, pageCut := range []int64{0, 1, 3} {
			t.Run(fmt.Sprint(name, " in pages of ", pageCut), func(t *testing.T) {
				t.Parallel()
				s := newStoredTable(t)
				s.inhabit()
				want := s.listings()
				s.equal("number of listings", len(want), 8)
				for what, list := range want {
					if len(list) == 0 {
						t.Errorf("%s: nothing is listed, so the test shows nothing", what)
					}
				}
				foreign := s.ns + "x"
				s.forge(foreign, changes)
				s.wire.pageCut.Store(pageCut)
				s.avoid(foreign)
				s.equal("listings", s.listings(), want)
			})
		}
	}
}

func TestAPurgeTakesNothingForged(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	n, _, _ := registered(t, s.repo)
	s.ns = n.ID
	s.write("{ns}/ENTITY#alice", "#BUCKET#gpt-4", "GSI4PK S {ns}\nGSI4SK S {ns}/ENTITY#alice")
	s.forge(n.ID+"x", "")
	want := tableItems(t, s.name)
	for _, gone := range []string{n.ID + "/ENTITY#alice #BUCKET#gpt-4", "_/SYSTEM# #NAMESPACE#other", "_/SYSTEM# #NSID#" + n.ID} {
		delete(want, gone)
	}
	s.ok(s.repo.DeleteNamespace(t.Context(), goneAt, "other"))
	s.avoid(n.ID + "x")
	s.ok(s.repo.PurgeNamespace(t.Context(), n.ID))
	s.equal("what is left", tableItems(t, s.name), want)
}
