package dynamo_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// Calls that carry quotas and rates of any kind get the same answers as in memory,
// with and without a level that holds one of the names.
func TestOverridesAgreeWithMemory(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(21, 0))
	stores := []limiter.Repository{dynamotest.Connect(t, dynamotest.NewTable(t), nil), memory.New(nil)}
	var now time.Duration
	var log []string
	for i := range 200 {
		now += time.Duration(rng.Int64N(int64(8 * time.Hour)))
		if i == 120 {
			for _, repo := range stores {
				setDefaults(t, repo, limiter.Quota("held", 30, limiter.EveryDay))
			}
		}
		c := chargeNamed(limiter.Tokens("held", rng.Int64N(8)).And("spend", rng.Int64N(8)))
		c.Limits = []limiter.Limit{carried(rng, "held"), carried(rng, "spend")}
		log = append(log, fmt.Sprint(at(now), c.Amounts, c.Limits))
		var answers [2]limiter.Outcome
		for side, repo := range stores {
			out, err := repo.Consume(t.Context(), at(now), c)
			must(t, err)
			out.Payers[0].Account = &limiter.Account{Limits: out.Payers[0].Account.Limits}
			answers[side] = out
		}
		if diff := cmp.Diff(answers[1], answers[0]); diff != "" {
			t.Fatalf("memory and dynamo differ (-memory +dynamo):\n%s\nthe last calls: %v", diff,
				log[max(0, len(log)-5):])
		}
	}
}

// carried returns a random limit of a name.
func carried(rng *rand.Rand, name string) limiter.Limit {
	n := 1 + rng.Int64N(20)
	switch rng.IntN(5) {
	case 0:
		return limiter.Custom(name, n, n, 24*time.Hour)
	case 1:
		return limiter.Quota(name, n, limiter.EveryMonth)
	case 2:
		return limiter.Quota(name, n, limiter.EveryDay).In("Europe/Berlin").Shadow()
	}
	return limiter.Quota(name, n, limiter.EveryDay)
}
