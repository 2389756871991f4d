package dynamo_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// An aggregator whose clock is ahead begins the next window of an idle bucket, which
// is full then. A client whose clock is before the boundary must not take it for
// expired and create it again in the window before: the quota would step twice.
func TestAWindowDoesNotGoBackWhenABucketExpires(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.Quota("spend", 10, limiter.EveryHour), perMinute60)
	client := dynamotest.Connect(t, s.TableName, &exactOptions)
	consume(t, client, 0, chargeNamed(limiter.Tokens("spend", 10)), true)
	boundary := start.Truncate(time.Hour).Add(time.Hour).Sub(start)
	ahead := at(boundary + 500*time.Millisecond)
	a, err := aggregator.New(s.Repo.UsageStore(0), &aggregator.Options{Now: func() time.Time { return ahead }})
	s.Must(err)
	dynamo.Aggregate(t.Context(), a, []dynamo.StreamRecord{{
		Feed: "feed", Sequence: "1", Event: "INSERT", At: ahead, New: s.bucketItem(),
	}})
	s.Equal("tokens after the early step", quotaAttributes(s.bucketItem())["b_spend_tk"], "N 10000")
	consume(t, client, boundary-400*time.Millisecond, chargeNamed(limiter.Tokens("spend", 10)), true)
	consume(t, client, boundary+time.Second, chargeNamed(limiter.Tokens("spend", 1)), false)
	consume(t, client, boundary+time.Hour, chargeNamed(limiter.Tokens("spend", 10)), true)
}
