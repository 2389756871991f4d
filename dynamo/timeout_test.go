package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

func quietCharge(entity string) limiter.Charge {
	return limiter.Charge{Entity: entity, Resource: model, Amounts: limiter.Tokens("rpm", 1)}
}

// elapsed runs a call and returns how long it took.
func elapsed(call func() error) (time.Duration, error) {
	began := time.Now()
	err := call()
	return time.Since(began), err
}

// timedCalls returns the calls that Options.Timeout limits as a whole.
func timedCalls(ctx context.Context, r *dynamo.Repository) map[string]func() error {
	return map[string]func() error{
		"ping": func() error { return r.Ping(ctx) },
		"charge": func() error {
			_, err := r.Consume(ctx, start, quietCharge("bob"))
			return err
		},
		"charge of an unknown bucket": func() error {
			r.Forget()
			_, err := r.Consume(ctx, start, quietCharge("bob"))
			return err
		},
		"charge that cascades": func() error {
			_, err := r.Consume(ctx, start, quietCharge("alice"))
			return err
		},
		"look": func() error { _, err := r.Peek(ctx, start, quietCharge("bob")); return err },
		"read of limits": func() error {
			_, err := r.Config(ctx, limiter.Scope{})
			return err
		},
		"read of an entity": func() error {
			_, err := r.Entity(ctx, "alice")
			return err
		},
		"page of a listing": func() error {
			for _, err := range r.AuditEvents(ctx, "alice", "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"change": func() error {
			return r.SetConfig(ctx, limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)}},
				limiter.AuditEvent{ID: "1", Entity: "$SYSTEM", At: start, Principal: "x"})
		},
	}
}

func TestATableThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, 200 * time.Millisecond, 30 * time.Second} {
		want := max(timeout, 200*time.Millisecond)
		if timeout == 0 {
			want = time.Second
		}
		synctest.Test(t, func(t *testing.T) {
			q, r := dynamotest.ConnectQuietTable(t, &dynamo.Options{Timeout: timeout})
			_, err := r.Consume(t.Context(), start, quietCharge("bob")) // caches the bucket
			must(t, err)
			q.Script(dynamotest.Silent)
			for what, call := range timedCalls(t.Context(), r) {
				took, err := elapsed(call)
				if err == nil || !strings.Contains(
					err.Error(),
					`table "quiet" did not answer in time; check that its region, us-east-1, is reachable`,
				) {
					t.Errorf("%s with a Timeout of %v: %v", what, timeout, err)
				}
				limit := want + 10*time.Millisecond
				if what == "page of a listing" { // also checks the namespace once a minute
					limit *= 2
				}
				if took > limit || took < want/2 {
					t.Errorf("%s with a Timeout of %v took %v", what, timeout, took)
				}
			}
		})
	}
}

func TestSilenceIsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := dynamotest.ConnectQuietTable(t, nil)
		q.Script(dynamotest.Silent)
		lim, err := limiter.New(r, &limiter.Options{Now: func() time.Time { return start }})
		must(t, err)
		req := limiter.Request{Entity: "bob", Resource: model, Consume: limiter.Tokens("rpm", 1)}
		if _, err := lim.Acquire(t.Context(), req); !isError[*limiter.UnavailableError](err) {
			t.Errorf("blocked: %v", err)
		}
		if err := lim.Ping(t.Context()); !isError[*limiter.UnavailableError](err) {
			t.Errorf("ping: %v", err)
		}
		req.OnUnavailable = limiter.Allow
		if lease, err := lim.Acquire(t.Context(), req); err != nil || lease.Outage() == nil {
			t.Errorf("allowed: %v", err)
		}
	})
}

// The second attempt uses another connection, and its reply is in time.
func TestOneConnectionThatHangsIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := dynamotest.ConnectQuietTable(t, nil)
		for what, call := range timedCalls(t.Context(), r) {
			q.Script(dynamotest.FirstSilent)
			took, err := elapsed(call)
			if err != nil && !strings.Contains(err.Error(), "not found") || took > time.Second {
				t.Errorf("%s: %v after %v", what, err, took)
			}
			if took < 300*time.Millisecond {
				t.Errorf("%s: nothing hung", what)
			}
		}
	})
}

// A shorter deadline of the caller is divided among the attempts too.
func TestTriesFitIntoTheCallersTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := dynamotest.ConnectQuietTable(t, &dynamo.Options{Timeout: time.Minute})
		q.Script(dynamotest.FirstSilent)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, r.Ping(ctx))
		q.Script(dynamotest.Silent)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took, err := elapsed(func() error { return r.Ping(ctx) }); err == nil || took > time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestANegativeTimeoutIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := dynamotest.ConnectQuietTable(t, &dynamo.Options{Timeout: -1})
		q.Script(func(string, int) time.Duration { return time.Hour })
		if took, err := elapsed(func() error { return r.Ping(t.Context()) }); err != nil || took < time.Hour {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// slowCredentials expire at once, so every request fetches them.
type slowCredentials struct{ fails error }

// Retrieve returns the credentials after ten seconds.
func (c slowCredentials) Retrieve(context.Context) (aws.Credentials, error) {
	time.Sleep(10 * time.Second) // in the bubble
	return aws.Credentials{
		AccessKeyID: "a", SecretAccessKey: "b", CanExpire: true, Expires: time.Now().Add(time.Second),
	}, c.fails
}

func TestFetchingCredentialsDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &dynamotest.QuietTable{}
		cfg := aws.Config{Region: "us-east-1", HTTPClient: q, Credentials: slowCredentials{}}
		r, err := dynamo.Connect(t.Context(), "quiet", &dynamo.Options{AWS: &cfg})
		must(t, err)
		q.Script(dynamotest.FirstSilent)
		for what, call := range map[string]func() error{
			"ping":   func() error { return r.Ping(t.Context()) },
			"charge": func() error { _, err := r.Consume(t.Context(), start, quietCharge("bob")); return err },
		} {
			time.Sleep(time.Minute) // in the bubble: the credentials have expired
			if took, err := elapsed(call); err != nil || took < 10*time.Second || took > 11*time.Second {
				t.Errorf("%s: %v after %v", what, err, took)
			}
		}
		cfg.Credentials = slowCredentials{errors.New("no credentials in sight")}
		took, err := elapsed(func() error {
			_, err := dynamo.Connect(t.Context(), "quiet", &dynamo.Options{AWS: &cfg})
			return err
		})
		if !isError[*limiter.UnavailableError](err) || !strings.Contains(
			err.Error(), "no AWS credentials; set AWS_PROFILE",
		) || took > 11*time.Second {
			t.Errorf("without credentials: %v after %v", err, took)
		}
	})
}

// trickle is a body that delivers byte by byte, or stops half-way.
type trickle struct {
	*bytes.Reader
	ctx   context.Context
	pause time.Duration
	stop  int
}

// Read waits for the next byte.
func (b *trickle) Read(p []byte) (int, error) {
	if b.Len() == b.stop {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	time.Sleep(b.pause) // in the bubble
	return b.Reader.Read(p[:1])
}

// Close does nothing.
func (*trickle) Close() error { return nil }

// A page has up to a megabyte, and a slow connection must not make it an outage.
func TestAPageMayTakeAsLongAsItComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := dynamotest.ConnectQuietTable(t, nil)
		must(t, r.Ping(t.Context()))
		list := func() error {
			for _, err := range r.AuditEvents(t.Context(), "bob", "") {
				if err != nil {
					return err
				}
			}
			return nil
		}
		must(t, list()) // caches the namespace
		q.Body = func(ctx context.Context, reply string) io.ReadCloser {
			return &trickle{bytes.NewReader([]byte(reply)), ctx, 250 * time.Millisecond, -1}
		}
		if took, err := elapsed(list); err != nil || took < 30*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		q.Body = func(ctx context.Context, reply string) io.ReadCloser {
			return &trickle{bytes.NewReader([]byte(reply)), ctx, 0, 20}
		}
		if took, err := elapsed(list); err == nil || !strings.Contains(err.Error(), "did not answer in time") ||
			took > 2*time.Second {
			t.Errorf("a page that stops half-way: %v after %v", err, took)
		}
	})
}

// A give-back has the timeout of a settlement. An idempotent one is retried;
// another waits for its reply.
func TestAGiveBackKeepsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := dynamotest.ConnectQuietTable(t, nil)
		lim, err := limiter.New(r, &limiter.Options{Now: func() time.Time { return start }})
		must(t, err)
		lease := func() *limiter.Lease {
			t.Helper()
			q.Script(nil)
			l, err := lim.Acquire(t.Context(), limiter.Request{
				Entity: "bob", Resource: model, Consume: limiter.Tokens("rpm", 5),
			})
			must(t, err)
			return l
		}
		l := lease()
		q.Script(dynamotest.FirstSilent)
		if took, err := elapsed(func() error { return l.Rollback(t.Context()) }); err != nil || took > 2*time.Second {
			t.Errorf("a rollback on a connection that hangs: %v after %v", err, took)
		}
		l = lease()
		q.Script(func(string, int) time.Duration { return 4 * time.Second })
		must(t, l.Adjust(limiter.Tokens("rpm", -2)))
		if took, err := elapsed(func() error {
			return l.Commit(t.Context())
		}); err != nil || took != 4*time.Second || q.Count("UpdateItem") != 1 {
			t.Errorf("a give-back whose answer is late: %v after %v and %d requests", err, took, q.Count("UpdateItem"))
		}
		l = lease()
		q.Script(dynamotest.Silent)
		took, err := elapsed(func() error { return l.Rollback(t.Context()) })
		if !isError[*limiter.UnavailableError](err) || took < 4*time.Second || took > limiter.DefaultSettleTimeout {
			t.Errorf("a rollback without an answer: %v after %v", err, took)
		}
	})
}

// The tokens of a refused charge are given back within the deadline of the
// caller, or after the call.
func TestAnUndoThatHangsDoesNotHoldTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := dynamotest.ConnectQuietTable(t, nil)
		_, err := r.Peek(t.Context(), start, quietCharge("alice"))
		must(t, err)
		var undone atomic.Bool
		q.Script(func(op string, nth int) time.Duration {
			if op != "TransactWriteItems" {
				return 0
			}
			if nth <= 4 {
				return dynamotest.Never
			}
			undone.Store(true)
			return 0
		})
		took, err := elapsed(func() error {
			out, err := r.Consume(t.Context(), start, quietCharge("alice"))
			if err == nil && out.Admitted {
				err = errors.New("admitted")
			}
			return err
		})
		if err != nil || took > time.Second || undone.Load() {
			t.Errorf("%v after %v, undone %v", err, took, undone.Load())
		}
		must(t, r.Close())
		if !undone.Load() {
			t.Error("Close did not wait for what is given back")
		}
	})
}

// Long operations wait for a busy table.
func TestLongOperationsArePatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := dynamotest.ConnectQuietTable(t, nil)
		q.Script(func(string, int) time.Duration { return 4 * time.Second })
		addition := aggregator.Addition{
			Bucket: aggregator.ID{Namespace: "n1", Entity: "bob", Resource: model}, Window: limiter.Hourly,
			Start: midnight,
			Entries: []aggregator.Entry{{
				Position: aggregator.Position{Feed: "a", Number: "1"}, Used: map[string]int64{"rpm": 1},
			}},
		}
		must(t, r.UsageStore(0).AddUsage(t.Context(), addition))
		if n := q.Count("UpdateItem"); n != 1 {
			t.Errorf("the snapshot was written %d times", n)
		}
	})
}
