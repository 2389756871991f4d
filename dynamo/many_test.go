package dynamo_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// manyLimits are n limits with long names, and one token of each.
func manyLimits(prefix string, n int) (limits []limiter.Limit, amounts limiter.Amounts) {
	for i := range n {
		name := fmt.Sprintf("%s-%055d", prefix, i)
		limits, amounts = append(limits, limiter.PerMinute(name, 60)), amounts.And(name, 1)
	}
	return limits, amounts
}

// An expression has a longest size. As many limits as a bucket may have fit
// into every write, also when all of them are replaced.
func TestAsManyLimitsAsAnExpressionHolds(t *testing.T) {
	const most = 24
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	charge := func(d time.Duration, amounts limiter.Amounts) *limiter.Account {
		return consume(t, repo, d, limiter.Charge{Entity: "alice", Resource: model, Amounts: amounts}, true).Self.Account
	}
	limits, amounts := manyLimits("old", most)
	setDefaults(t, repo, limits...)
	charge(0, amounts)                      // creates
	charge(0, amounts)                      // plain
	account := charge(time.Minute, amounts) // locked
	must(t, repo.Credit(t.Context(), at(time.Minute), limiter.Credit{Account: account, Amounts: amounts, Undo: true}))
	limits, amounts = manyLimits("new", most)
	setDefaults(t, repo, limits...)
	charge(time.Minute, amounts) // repairs
}

func TestMoreLimitsThanAnExpressionHoldsAreBadInput(t *testing.T) {
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	limits, amounts := manyLimits("a", 25)
	invalid := func(what string, err error) {
		if bad, ok := errors.AsType[*limiter.InvalidError](err); !ok || bad.Field != "limits" {
			t.Errorf("%s: error %v, want *limiter.InvalidError about limits", what, err)
		}
	}
	cfg := limiter.Config{Scope: limiter.Scope{Resource: model}, Limits: limits}
	invalid("stored", repo.SetConfig(t.Context(), cfg, event("limits_set")))
	setDefaults(t, repo, limits[:13]...)
	charge := limiter.Charge{Entity: "alice", Resource: model, Limits: limits[:12], Amounts: limiter.Tokens(limits[0].Name, 1)}
	consume(t, repo, 0, charge, true)
	_, err := repo.Consume(t.Context(), start, limiter.Charge{Entity: "bob", Resource: model, Limits: limits, Amounts: amounts})
	invalid("brought", err)
	charge.Limits, charge.Amounts = manyLimits("b", 13)
	_, err = repo.Consume(t.Context(), start, charge)
	invalid("brought to a bucket that has others", err)
}
