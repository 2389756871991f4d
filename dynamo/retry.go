package dynamo

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// newRetryer is for calls that have little time: the SDK's own waits up to a
// second before the second try, and up to two before the third.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 1 + maxUnknown
		o.Backoff = retry.BackoffDelayerFunc(func(try int, err error) (time.Duration, error) {
			if retryable(err) { // the table is busy, or is not there for the moment
				try += 3
			}
			return delay(try), nil
		})
	})
}

// api is the client that retries by itself, with the patience that ctx asks for.
func (s *store) api(ctx context.Context) *dynamodb.Client {
	if limit, known := ctx.Value(tryKey{}).(time.Duration); known && limit == 0 {
		return s.slow
	}
	return s.client
}

// delay is longer for each try, and never as long as that of another process
// which failed at the same moment.
func delay(try int) time.Duration {
	longest := 10 * time.Millisecond << min(try, 6)
	return longest/4 + rand.N(longest)
}
