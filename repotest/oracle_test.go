package repotest

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// TestOracleLeavesOpenWhatALostAnswerHides has a limit that joins the bucket if a change
// whose answer was lost took place. It may hold what is left of it, or be new.
func TestOracleLeavesOpenWhatALostAnswerHides(t *testing.T) {
	for _, left := range []int64{16_000, 29_000} {
		h := &history{TB: t, where: &pair{}}
		o := newOracle()
		bucketOf := func(l limiter.Limit, tokens int64) limiter.Bucket {
			account := limiter.Account{Entity: "key-1", Resource: model, Limits: []limiter.Limit{l}}
			return limiter.Bucket{Account: &account, Tokens: []int64{tokens}}
		}
		enter := func(d time.Duration, l limiter.Limit, tokens int64) {
			o.enter(h, at(d).UnixMilli(), ask("key-1", rpm(0)), balanceOf(bucketOf(l, tokens), false), true)
		}

		enter(0, limiter.PerMinute("tpm", 60), 60_000)
		o.synced(h, at(time.Second), bucketOf(limiter.PerMinute("rpm", 16), 16_000), false)
		enter(2*time.Second, limiter.PerHour("rpm", 29), left)
	}
}
