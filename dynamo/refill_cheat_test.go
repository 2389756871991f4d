package dynamo_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// cheat is a refill without one of its safeguards. The zero value is correct.
type cheat struct {
	anyJoined  bool // does not notice limits that joined, or became rates
	anyTokens  bool // fills a limit with any balance
	anyLimits  bool // does not compare the limits
	anyRates   bool // compares the capacity only
	anyTime    bool // does not compare the refill time
	onlyFirst  bool // refills only one limit
	leavesTime bool // does not move the refill time
	turnsBack  bool // may move the refill time back
	rounds     bool // rounds every addition down
}

// A comparison that cannot fail proves nothing.
func TestComparisonFindsRefillsThatCheat(t *testing.T) {
	t.Parallel()
	dynamotest.Endpoint(t)
	const first, perCheat, histories = 23, 400, 10
	compare := func(t *testing.T, seed uint64, c cheat) string {
		t.Helper()
		return failureOf(t, func(tb testing.TB) {
			tb.Helper()
			compareWithAggregator(tb, seed, perCheat, aggregator.Options{Windows: []limiter.Window{}}, c.store,
				"override", "usage")
		})
	}
	t.Run("and nothing else", func(t *testing.T) { // or the others prove nothing
		t.Parallel()
		if said := compare(t, first, cheat{}); said != "" {
			t.Errorf("a refill that does not cheat: %s", said)
		}
	})
	for name, c := range map[string]cheat{
		"fill whatever it holds":      {anyTokens: true},
		"by limits that are no more":  {anyLimits: true},
		"by rates that are no more":   {anyRates: true},
		"as if no limit had joined":   {anyJoined: true},
		"what was refilled since":     {anyTime: true},
		"one limit of all":            {onlyFirst: true},
		"and leave the time":          {leavesTime: true},
		"and turn the time back":      {turnsBack: true},
		"and round what it adds down": {rounds: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(first); seed < first+histories; seed++ { // the first finds them all
				said := compare(t, seed, c)
				if said != "" {
					t.Logf("found in history %d: %.200s", seed, said)
					return
				}
			}
			t.Errorf("not found in %d histories", histories)
		})
	}
}

// cheater is a usage store whose refills cheat.
type cheater struct {
	*dynamo.UsageStore
	client *dynamodb.Client
	table  string
	cheat
}

// store returns the usage store of the table with refills that cheat.
func (c cheat) store(s *dynamotest.WriteLog, repo *dynamo.Repository) aggregator.Store {
	return &cheater{repo.UsageStore(0), dynamodb.NewFromConfig(*s.Config(dynamotest.Endpoint(s.TB))), s.Table, c}
}

// Refill sends one write, as the real store does.
func (c *cheater) Refill(ctx context.Context, now time.Time, of aggregator.ID, state *aggregator.State) (bool, error) {
	in := &dynamodb.UpdateItemInput{
		TableName: &c.table,
		Key: dynamotest.Item{
			"PK": &types.AttributeValueMemberS{Value: of.Namespace + "/ENTITY#" + of.Entity},
			"SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + of.Resource},
		},
		ExpressionAttributeValues: dynamotest.Item{},
	}
	adds, conditions := c.limits(now, state, in.ExpressionAttributeValues)
	if len(adds) == 0 || now.UnixMilli() <= state.RefilledAt.UnixMilli() && !c.turnsBack {
		return false, nil
	}
	update := "ADD " + strings.Join(adds, ", ")
	if !c.leavesTime {
		update += " SET rf = :now"
		in.ExpressionAttributeValues[":now"] = thousandths(now.UnixMilli())
	}
	conditions = append(conditions, "attribute_exists(rf)")
	if !c.anyJoined {
		conditions = append(conditions, otherRates(state)...)
	}
	if !c.anyTime {
		conditions = append(conditions, "rf = :rf")
		in.ExpressionAttributeValues[":rf"] = thousandths(state.RefilledAt.UnixMilli())
	}
	in.UpdateExpression, in.ConditionExpression = &update, aws.String(strings.Join(conditions, " AND "))
	_, err := c.client.UpdateItem(ctx, in)
	if err != nil && strings.Contains(err.Error(), "ConditionalCheckFailed") {
		return false, nil
	}
	return err == nil, err
}

// limits returns the additions to the tokens and the conditions.
func (c *cheater) limits(now time.Time, state *aggregator.State, values dynamotest.Item) (adds, conditions []string) {
	from, to := state.RefilledAt.UnixMilli(), now.UnixMilli()
	for i, l := range state.Limits {
		if l.IsQuota() { // the refill time does not concern it
			continue
		}
		r := bucket.RateOf(l.Capacity, l.Refill, l.Period)
		gain := bucket.Advance(state.Tokens[i], from, to, r) - state.Tokens[i]
		if c.rounds {
			gain = bucket.Advance(state.Tokens[i], 0, to-from, r) - state.Tokens[i]
		}
		name := "b_" + l.Name
		for field, n := range map[string]int64{"_cp": r.Capacity, "_ra": r.Amount, "_rp": r.Period} {
			if !c.anyLimits && (field == "_cp" || !c.anyRates) {
				conditions = append(conditions, name+field+" = :"+name+field)
				values[":"+name+field] = thousandths(n)
			}
		}
		full := state.Tokens[i]+gain >= r.Capacity
		switch {
		case full && !c.anyTokens:
			conditions = append(conditions, name+"_tk = :"+name+"_tk")
			values[":"+name+"_tk"] = thousandths(state.Tokens[i])
		case !full:
			conditions = append(conditions, name+"_tk <= :"+name+"_tk")
			values[":"+name+"_tk"] = thousandths(r.Capacity - gain)
		}
		adds = append(adds, fmt.Sprintf("%s_tk :%s", name, name))
		values[":"+name] = thousandths(gain)
		if c.onlyFirst {
			break
		}
	}
	return adds, conditions
}

// otherRates returns the conditions that a bucket has no rates that a state does not
// have.
func otherRates(state *aggregator.State) (conditions []string) {
	for _, name := range []string{"rpm", "tpm", "tpd"} {
		i := slices.IndexFunc(state.Limits, func(l limiter.Limit) bool { return l.Name == name })
		switch {
		case i < 0:
			conditions = append(conditions, "attribute_not_exists(b_"+name+"_tk)")
		case state.Limits[i].IsQuota():
			conditions = append(conditions, "attribute_exists(b_"+name+"_wn)")
		}
	}
	return conditions
}

func thousandths(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// failureOf returns the failure text of a run, or "" if it passes.
func failureOf(t *testing.T, run func(testing.TB)) (said string) {
	t.Helper()
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case finding:
			said = string(failed)
		default:
			panic(failed)
		}
	}()
	run(&recorder{TB: t})
	return ""
}

type finding string

// recorder is a testing.TB whose failures do not fail the real test.
type recorder struct{ testing.TB }

func (r *recorder) Errorf(format string, args ...any) { r.Fatalf(format, args...) }
func (r *recorder) Fatalf(format string, args ...any) { panic(finding(fmt.Sprintf(format, args...))) }
func (r *recorder) Helper()                           {}
