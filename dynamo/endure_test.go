package dynamo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// badDays is a plan in which one request of a dozen goes wrong, in any way.
func badDays(seed uint64) plan {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 2))
	faults := []fault{dropReply, resetBefore, fail500, fail500After, throttle, conflict, delay(time.Millisecond), unprocessed}
	return func(op string, _ []byte) fault {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(12) > 0 {
			return pass
		}
		f := faults[rng.IntN(len(faults))]
		if f.name == unprocessed.name && op != "BatchGetItem" || f.name == conflict.name && (op == "BatchGetItem" || op == "GetItem") {
			return pass
		}
		return f
	}
}

// TestEndure has two processes with slack, memory of refusals and a bad network
// share a table: no window may admit more than the limits and the slack allow,
// and nothing may be given back twice.
func TestEndure(t *testing.T) {
	seed := *compareSeed
	for left := *compareOps / 2; left > 0; left -= perHistory / 2 { // each takes several requests, and many wait
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			endure(t, seed, min(left, perHistory/2))
		})
		seed++
	}
}

func endure(t *testing.T, seed uint64, ops int) {
	t.Helper()
	table := newTable(t)
	admin := connect(t, table, nil)
	first := newProxy(t, nil)
	second := newProxy(t, nil)
	one := connect(t, table, &dynamo.Options{AWS: awsConfig(first.URL)})
	two := connect(t, table, &dynamo.Options{AWS: awsConfig(second.URL)})
	first.Plan(badDays(seed))
	second.Plan(badDays(seed + 1))
	for _, net := range repotest.Endure(t, seed, ops, 0.02, admin, one, two) {
		if total := storedTotal(t, table, admin.NamespaceID(), net); total < net.Least*1000 {
			t.Errorf("seed %d: %s of %s and %s counts %d thousandths, but %d tokens were surely consumed: something was given back twice",
				seed, net.Limit, net.Entity, net.Resource, total, net.Least)
		}
	}
}

// storedTotal is the net consumption that the bucket itself counts.
func storedTotal(t *testing.T, table, ns string, net repotest.Net) int64 {
	t.Helper()
	out, err := client(t).GetItem(context.Background(), &dynamodb.GetItemInput{TableName: &table, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: ns + "/ENTITY#" + net.Entity},
		"SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + net.Resource},
	}})
	must(t, err)
	n, ok := out.Item["b_"+net.Limit+"_tc"].(*types.AttributeValueMemberN)
	if !ok {
		t.Fatalf("%s of %s and %s has no total: %v", net.Limit, net.Entity, net.Resource, out.Item)
	}
	total, err := strconv.ParseInt(n.Value, 10, 64)
	must(t, err)
	return total
}
