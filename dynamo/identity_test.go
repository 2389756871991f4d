package dynamo_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

const callerARN = "arn:aws:sts::123456789012:assumed-role/ops/ada+x=y,z@example.com"

func callerIdentity(arn string) string {
	return `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>` + arn +
		`</Arn><UserId>AROA:ada</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`
}

// connectIdentified returns a quiet table with an STS and a limiter on it.
func connectIdentified(
	t *testing.T, opts *dynamo.Options, sts func(nth int) (int, string, time.Duration),
) (*dynamotest.QuietTable, *limiter.RateLimiter) {
	t.Helper()
	q, r := dynamotest.ConnectQuietTable(t, opts)
	q.Script(nil)
	q.STS = sts
	lim, err := limiter.New(r, &limiter.Options{Now: func() time.Time { return start }})
	must(t, err)
	return q, lim
}

func TestChangesAreSignedByTheCallersIdentity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, lim := connectIdentified(t, nil, func(int) (int, string, time.Duration) {
			return 200, callerIdentity(callerARN), 100 * time.Millisecond
		})
		ctx := t.Context()
		_, err := lim.Acquire(ctx, limiter.Request{Entity: "bob", Resource: model, Consume: limiter.Tokens("rpm", 1)})
		must(t, err)
		must(t, lim.Ping(ctx))
		must(t, lim.As("ada").SetSystemDefaults(ctx, limiter.PerMinute("rpm", 10)))
		if n := q.Count("GetCallerIdentity"); n != 0 {
			t.Errorf("asked %d times before there was a change without a principal", n)
		}
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				if _, err := lim.CreateEntity(ctx, limiter.Entity{ID: fmt.Sprint("key-", i)}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		must(t, lim.SetSystemDefaults(ctx, limiter.PerMinute("rpm", 20)))
		want := append([]string{`"S":"ada"`}, slices.Repeat([]string{`"S":"` + callerARN + `"`}, 17)...)
		if diff := cmp.Diff(want, q.Principals); diff != "" {
			t.Errorf("principals: %s", diff)
		}
		if n := q.Count("GetCallerIdentity"); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

// If the identity is unavailable, no change fails, and only the first one waits
// for it.
func TestAnIdentityThatCannotBeFoundIsLeftOut(t *testing.T) {
	t.Parallel()
	for what, sts := range map[string]func(int) (int, string, time.Duration){
		"refused": func(int) (int, string, time.Duration) {
			return 403, "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>", 0
		},
		"failing":  func(int) (int, string, time.Duration) { return 500, "", 0 },
		"silent":   func(int) (int, string, time.Duration) { return 200, "", dynamotest.Never },
		"nonsense": func(int) (int, string, time.Duration) { return 200, callerIdentity("somebody"), 0 },
	} {
		synctest.Test(t, func(t *testing.T) {
			q, lim := connectIdentified(t, nil, sts)
			for nth, limit := range []time.Duration{time.Second, 0} {
				took, err := elapsed(func() error {
					return lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10))
				})
				if err != nil || took > limit {
					t.Errorf("%s, change %d: %v after %v", what, nth, err, took)
				}
			}
			if diff := cmp.Diff(
				[]string{`"NULL":true`, `"NULL":true`}, q.Principals,
			); diff != "" || q.Count("GetCallerIdentity") != 1 {
				t.Errorf("%s: asked %d times, %s", what, q.Count("GetCallerIdentity"), diff)
			}
		})
	}
}

// A change whose context ends does not wait for the identity.
func TestACallerWhoLeavesDoesNotWaitForTheIdentity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, lim := connectIdentified(t, nil, func(int) (int, string, time.Duration) { return 200, "", dynamotest.Never })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		took, err := elapsed(func() error { return lim.SetSystemDefaults(ctx, limiter.PerMinute("rpm", 10)) })
		if err == nil || took > 100*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A custom endpoint belongs to no account: no request may go to AWS.
func TestACustomEndpointHasNoIdentity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, lim := connectIdentified(t, &dynamo.Options{Endpoint: "http://localhost:1"}, nil)
		must(t, lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)))
		if diff := cmp.Diff([]string{`"NULL":true`}, q.Principals); diff != "" || q.Count("GetCallerIdentity") != 0 {
			t.Errorf("asked %d times, %s", q.Count("GetCallerIdentity"), diff)
		}
	})
}
