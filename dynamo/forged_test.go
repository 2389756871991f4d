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
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// An IAM policy can limit the partition keys of a tenant, but not the values it
// writes there, and so not the index keys of its items.

// forge copies all items into partitions of another namespace. The copies keep
// their index keys; changes replaces other attributes.
func (s *storedTable) forge(foreign, changes string) {
	s.Helper()
	for _, it := range dynamotest.Scan(s.T, s.TableName) {
		_, rest, _ := strings.Cut(dynamotest.Text(it, "PK"), "/")
		it["PK"] = &types.AttributeValueMemberS{Value: foreign + "/" + rest}
		maps.Copy(it, s.Attributes(changes))
		_, err := s.Client.PutItem(s.Context(), &dynamodb.PutItemInput{TableName: &s.TableName, Item: it})
		s.Must(err)
	}
}

// forbidRequests reports requests for items of a namespace. It ignores the start
// of a page, which is the last item of the page before, in any namespace.
func (s *storedTable) forbidRequests(foreign string) {
	s.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
		var sent map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.Body), &sent); err != nil {
			s.Errorf("%s: %v", c.Op, err)
		}
		delete(sent, "ExclusiveStartKey")
		for name, part := range sent {
			if strings.Contains(string(part), foreign+"/") {
				s.Errorf("%s asks for what is another's: %s %s", c.Op, name, part)
			}
		}
		return c.Send()
	})
}

// listings returns the results of all listings that an index answers, and the
// namespaces.
func (s *storedTable) listings() map[string][]string {
	s.Helper()
	ctx := s.Context()
	shown := map[string][]string{
		"usage":      s.usage(limiter.UsageQuery{Resource: "gpt-4"}),
		"namespaces": texts(dynamotest.Collect(s.T, s.Repo.Namespaces(ctx))),
	}
	for _, b := range readPages(s.T.Context(), s.T, s.Repo, dynamotest.Dawn, limiter.BucketQuery{Max: 1}) {
		shown["pages"] = append(shown["pages"], fmt.Sprint(b.Account.Entity, b.Tokens))
	}
	for _, parent := range []string{"", "parent"} {
		shown["entities of "+parent] = texts(dynamotest.Collect(s.T, s.Repo.Entities(ctx, parent)))
	}
	for _, resource := range []string{"", "gpt-4"} {
		shown["entities with limits for "+resource] = dynamotest.Collect(s.T, s.Repo.EntitiesWithLimits(ctx, resource))
		for _, b := range dynamotest.Collect(
			s.T, s.Repo.Buckets(ctx, dynamotest.Dawn, limiter.Scope{Resource: resource}),
		) {
			shown["buckets of "+resource] = append(shown["buckets of "+resource],
				fmt.Sprint(b.Account.Entity, b.Tokens))
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

// storeListed stores items for every listing.
func (s *storedTable) storeListed() {
	s.Helper()
	for _, id := range []string{"alice", "bob"} {
		s.CreateEntity(limiter.Entity{ID: id, Name: id, Parent: "parent"})
		s.SetLimits(limiter.Scope{Entity: id}, perMinute)
		s.SetLimits(limiter.Scope{Entity: id, Resource: "gpt-4"}, perMinute)
		s.charge(id, 10)
		s.PutSnapshot(id, "gpt-4", "hourly", "2026-03-14T15:00:00Z", "", "rpm N 3\ntotal_events N 4")
	}
}

func TestListingsShowNothingForged(t *testing.T) {
	t.Parallel()
	lean := func(t *testing.T) *storedTable {
		t.Helper()
		return &storedTable{dynamotest.OpenStoredTable(t, dynamotest.NewLeanTable(t), nil)}
	}
	for name, c := range map[string]struct {
		open    func(*testing.T) *storedTable
		changes string
	}{"whole": {newStoredTable, ""}, "damaged": {newStoredTable, "rf S x\nrpm N 0.5"}, "keys only": {lean, ""}} {
		for _, pageCut := range []int64{0, 1, 3} {
			t.Run(fmt.Sprint(name, " in pages of ", pageCut), func(t *testing.T) {
				t.Parallel()
				s := c.open(t)
				s.storeListed()
				want := s.listings()
				s.Equal("number of listings", len(want), 9)
				for what, list := range want {
					if len(list) == 0 {
						t.Errorf("%s: nothing is listed, so the test shows nothing", what)
					}
				}
				foreign := s.NS + "x"
				s.forge(foreign, c.changes)
				s.Wire.PageSize.Store(pageCut)
				s.forbidRequests(foreign)
				s.Equal("listings", s.listings(), want)
			})
		}
	}
}

func TestAPurgeTakesNothingForged(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	n, _, _ := registerOther(t, s.Repo)
	s.NS = n.ID
	s.PutItem("{ns}/ENTITY#alice", "#BUCKET#gpt-4", "GSI4PK S {ns}\nGSI4SK S {ns}/ENTITY#alice")
	s.forge(n.ID+"x", "")
	want := tableItems(t, s.TableName)
	for _, gone := range []string{
		n.ID + "/ENTITY#alice #BUCKET#gpt-4", "_/SYSTEM# #NAMESPACE#other", "_/SYSTEM# #NSID#" + n.ID,
	} {
		delete(want, gone)
	}
	s.Must(s.Repo.DeleteNamespace(t.Context(), deletedAt, "other"))
	s.forbidRequests(n.ID + "x")
	s.Must(s.Repo.PurgeNamespace(t.Context(), n.ID))
	s.Equal("what is left", tableItems(t, s.TableName), want)
}
