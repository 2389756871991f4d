package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// quietTable answers from a script, in the time of a synctest bubble. It has the
// namespace default, limits of the system, and buckets of alice, whose parent
// team pays too, and of bob.
type quietTable struct {
	mu    sync.Mutex
	takes func(op string, nth int) time.Duration // how long an answer takes; never is for ever
	asked map[string]int
	sts   func(nth int) (status int, reply string, wait time.Duration)
	named []string                                              // principals of changes
	body  func(ctx context.Context, reply string) io.ReadCloser // nil for all at once
}

const never = time.Duration(-1)

const quietModel = "gpt-4"

func quietBucket(entity, tokens string) string {
	return `{"PK":{"S":"n1/ENTITY#` + entity + `"},"SK":{"S":"#BUCKET#` + quietModel + `"},"entity_id":{"S":"` + entity + `"},"resource":{"S":"` + quietModel + `"},
		"rf":{"N":"1773500966000"},"b_rpm_tk":{"N":"` + tokens + `"},"b_rpm_cp":{"N":"100000"},"b_rpm_ra":{"N":"100000"},"b_rpm_rp":{"N":"60000"},"b_rpm_tc":{"N":"0"}}`
}

var quietItems = []string{
	`{"PK":{"S":"_/SYSTEM#"},"SK":{"S":"#NAMESPACE#default"},"namespace_id":{"S":"n1"},"namespace_name":{"S":"default"},"status":{"S":"active"}}`,
	`{"PK":{"S":"_/SYSTEM#"},"SK":{"S":"#NSID#n1"},"namespace_id":{"S":"n1"},"namespace_name":{"S":"default"},"status":{"S":"active"}}`,
	`{"PK":{"S":"n1/SYSTEM#"},"SK":{"S":"#CONFIG"},"l_rpm_cp":{"N":"100"},"l_rpm_ra":{"N":"100"},"l_rpm_rp":{"N":"60"},"config_version":{"N":"1"}}`,
	`{"PK":{"S":"n1/ENTITY#alice"},"SK":{"S":"#META"},"entity_id":{"S":"alice"},"parent_id":{"S":"team"},"cascade":{"BOOL":true}}`,
	quietBucket("team", "50000"), quietBucket("bob", "50000"),
}

// Do answers a request.
func (q *quietTable) Do(req *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	status, reply := quietReply(op, string(sent))
	q.mu.Lock()
	if q.asked == nil {
		q.asked = map[string]int{}
	}
	var wait time.Duration
	if req.URL.Host == "sts.us-east-1.amazonaws.com" {
		op = "GetCallerIdentity"
		status, reply, wait = q.sts(q.asked[op] + 1)
	}
	q.asked[op]++
	if q.takes != nil {
		wait = q.takes(op, q.asked[op])
	}
	if _, after, ok := strings.Cut(string(sent), `"principal":{`); ok && op == "TransactWriteItems" {
		name, _, _ := strings.Cut(after, "}")
		q.named = append(q.named, name)
	}
	q.mu.Unlock()
	var due <-chan time.Time
	if wait >= 0 {
		due = time.After(wait)
	}
	select {
	case <-due:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	body := io.NopCloser(strings.NewReader(reply))
	if q.body != nil {
		body = q.body(req.Context(), reply)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: body, Request: req}, nil
}

func quietReply(op, sent string) (status int, reply string) {
	switch op {
	case "BatchGetItem":
		return 200, `{"Responses":{"quiet":[` + strings.Join(quietItems, ",") + `]}}`
	case "TransactGetItems":
		return 200, `{"Responses":[{"Item":` + strings.Join(quietItems, `},{"Item":`) + `}]}`
	case "GetItem":
		return 200, `{"Item":{"PK":{"S":"_/SYSTEM#"},"SK":{"S":"#VERSION"},"schema_version":{"S":"0.8.0"}}}`
	case "Query":
		if strings.Contains(sent, "GSI4") || strings.Contains(sent, "SYSTEM#") {
			return 200, `{"Items":[]}`
		}
		return 200, `{"Items":[` + quietBucket("bob", "50000") + `]}`
	case "UpdateItem":
		if strings.Contains(sent, "ENTITY#team") { // others have emptied it
			return 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no","Item":` + quietBucket("team", "0") + `}`
		}
		return 200, `{"Attributes":` + quietBucket("bob", "49000") + `}`
	}
	return 200, `{}`
}

// script says how long answers take from now on.
func (q *quietTable) script(takes func(op string, nth int) time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takes, q.asked, q.named = takes, nil, nil
}

func (q *quietTable) times(op string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.asked[op]
}

func silentAlways(string, int) time.Duration { return never }

// firstSilent is a script in which only the first request of each operation gets no
// answer, as on one connection that hangs.
func firstSilent(_ string, nth int) time.Duration {
	if nth == 1 {
		return never
	}
	return time.Millisecond
}

func quietly(t *testing.T, opts *dynamo.Options) (*quietTable, *dynamo.Repository) {
	t.Helper()
	q := &quietTable{}
	var o dynamo.Options
	if opts != nil {
		o = *opts
	}
	o.AWS = &aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), HTTPClient: q}
	repo, err := dynamo.Connect(t.Context(), "quiet", &o)
	must(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return q, repo
}

func quietAsk(entity string) limiter.Charge {
	return limiter.Charge{Entity: entity, Resource: quietModel, Amounts: limiter.Tokens("rpm", 1)}
}

// takes runs a call and is how long it took.
func takes(call func() error) (time.Duration, error) {
	began := time.Now()
	err := call()
	return time.Since(began), err
}

// calls are those that Options.Timeout limits in all.
func calls(ctx context.Context, r *dynamo.Repository) map[string]func() error {
	return map[string]func() error{
		"ping": func() error { return r.Ping(ctx) },
		"charge": func() error {
			_, err := r.Consume(ctx, start, quietAsk("bob"))
			return err
		},
		"charge of an unknown bucket": func() error {
			r.Forget()
			_, err := r.Consume(ctx, start, quietAsk("bob"))
			return err
		},
		"charge that cascades": func() error {
			_, err := r.Consume(ctx, start, quietAsk("alice"))
			return err
		},
		"look": func() error { _, err := r.Peek(ctx, start, quietAsk("bob")); return err },
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
			return r.SetConfig(ctx, limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)}}, limiter.AuditEvent{ID: "1", Entity: "$SYSTEM", At: start, Principal: "x"})
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
			q, r := quietly(t, &dynamo.Options{Timeout: timeout})
			_, err := r.Consume(t.Context(), start, quietAsk("bob")) // so that the bucket is known
			must(t, err)
			q.script(silentAlways)
			for what, call := range calls(t.Context(), r) {
				took, err := takes(call)
				if err == nil || !strings.Contains(err.Error(), `table "quiet" did not answer in time; can its region, us-east-1, be reached from here?`) {
					t.Errorf("%s with a Timeout of %v: %v", what, timeout, err)
				}
				most := want + 10*time.Millisecond
				if what == "page of a listing" { // and, once a minute, whether the namespace is there
					most *= 2
				}
				if took > most || took < want/2 {
					t.Errorf("%s with a Timeout of %v took %v", what, timeout, took)
				}
			}
		})
	}
}

func TestSilenceIsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := quietly(t, nil)
		q.script(silentAlways)
		lim, err := limiter.New(r, &limiter.Options{Now: func() time.Time { return start }})
		must(t, err)
		req := limiter.Request{Entity: "bob", Resource: quietModel, Consume: limiter.Tokens("rpm", 1)}
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

// A second try goes out on another connection, and its answer is in time.
func TestOneConnectionThatHangsIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := quietly(t, nil)
		for what, call := range calls(t.Context(), r) {
			q.script(firstSilent)
			took, err := takes(call)
			if err != nil && !strings.Contains(err.Error(), "not found") || took > time.Second {
				t.Errorf("%s: %v after %v", what, err, took)
			}
			if took < 300*time.Millisecond {
				t.Errorf("%s: nothing hung", what)
			}
		}
	})
}

// A caller who has less time gets it divided in the same way.
func TestTriesFitIntoTheCallersTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := quietly(t, &dynamo.Options{Timeout: time.Minute})
		q.script(firstSilent)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, r.Ping(ctx))
		q.script(silentAlways)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took, err := takes(func() error { return r.Ping(ctx) }); err == nil || took > time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestANegativeTimeoutIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := quietly(t, &dynamo.Options{Timeout: -1})
		q.script(func(string, int) time.Duration { return time.Hour })
		if took, err := takes(func() error { return r.Ping(t.Context()) }); err != nil || took < time.Hour {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// slowCredentials have to be fetched for every request.
type slowCredentials struct{ fails error }

// Retrieve takes its time.
func (c slowCredentials) Retrieve(context.Context) (aws.Credentials, error) {
	time.Sleep(10 * time.Second) // of the bubble's
	return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b", CanExpire: true, Expires: time.Now().Add(time.Second)}, c.fails
}

func TestFetchingCredentialsDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &quietTable{}
		cfg := aws.Config{Region: "us-east-1", HTTPClient: q, Credentials: slowCredentials{}}
		r, err := dynamo.Connect(t.Context(), "quiet", &dynamo.Options{AWS: &cfg})
		must(t, err)
		q.script(firstSilent)
		for what, call := range map[string]func() error{
			"ping":   func() error { return r.Ping(t.Context()) },
			"charge": func() error { _, err := r.Consume(t.Context(), start, quietAsk("bob")); return err },
		} {
			time.Sleep(time.Minute) // of the bubble's: what was fetched has expired
			if took, err := takes(call); err != nil || took < 10*time.Second || took > 11*time.Second {
				t.Errorf("%s: %v after %v", what, err, took)
			}
		}
		cfg.Credentials = slowCredentials{errors.New("no credentials in sight")}
		took, err := takes(func() error { _, err := dynamo.Connect(t.Context(), "quiet", &dynamo.Options{AWS: &cfg}); return err })
		if !isError[*limiter.UnavailableError](err) || !strings.Contains(err.Error(), "no AWS credentials; set AWS_PROFILE") || took > 11*time.Second {
			t.Errorf("without credentials: %v after %v", err, took)
		}
	})
}

// trickle delivers a body byte by byte, or stops half-way.
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
	time.Sleep(b.pause) // of the bubble's
	return b.Reader.Read(p[:1])
}

// Close does nothing.
func (*trickle) Close() error { return nil }

// A page has up to a megabyte, and a slow line must not make it an outage.
func TestAPageMayTakeAsLongAsItComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := quietly(t, nil)
		must(t, r.Ping(t.Context()))
		list := func() error {
			for _, err := range r.AuditEvents(t.Context(), "bob", "") {
				if err != nil {
					return err
				}
			}
			return nil
		}
		must(t, list()) // the namespace is known from now on
		q.body = func(ctx context.Context, reply string) io.ReadCloser {
			return &trickle{bytes.NewReader([]byte(reply)), ctx, 250 * time.Millisecond, -1}
		}
		if took, err := takes(list); err != nil || took < 30*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		q.body = func(ctx context.Context, reply string) io.ReadCloser {
			return &trickle{bytes.NewReader([]byte(reply)), ctx, 0, 20}
		}
		if took, err := takes(list); err == nil || !strings.Contains(err.Error(), "did not answer in time") || took > 2*time.Second {
			t.Errorf("a page that stops half-way: %v after %v", err, took)
		}
	})
}

// A give-back has the time of its settlement. What can be sent again is, and
// what cannot waits for its answer.
func TestAGiveBackKeepsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := quietly(t, nil)
		lim, err := limiter.New(r, &limiter.Options{Now: func() time.Time { return start }})
		must(t, err)
		lease := func() *limiter.Lease {
			t.Helper()
			q.script(nil)
			l, err := lim.Acquire(t.Context(), limiter.Request{Entity: "bob", Resource: quietModel, Consume: limiter.Tokens("rpm", 5)})
			must(t, err)
			return l
		}
		l := lease()
		q.script(firstSilent)
		if took, err := takes(func() error { return l.Rollback(t.Context()) }); err != nil || took > 2*time.Second {
			t.Errorf("a rollback on a connection that hangs: %v after %v", err, took)
		}
		l = lease()
		q.script(func(string, int) time.Duration { return 4 * time.Second })
		must(t, l.Adjust(limiter.Tokens("rpm", -2)))
		if took, err := takes(func() error { return l.Commit(t.Context()) }); err != nil || took != 4*time.Second || q.times("UpdateItem") != 1 {
			t.Errorf("a give-back whose answer is late: %v after %v and %d requests", err, took, q.times("UpdateItem"))
		}
		l = lease()
		q.script(silentAlways)
		took, err := takes(func() error { return l.Rollback(t.Context()) })
		if !isError[*limiter.UnavailableError](err) || took < 4*time.Second || took > limiter.DefaultSettleTimeout {
			t.Errorf("a rollback without an answer: %v after %v", err, took)
		}
	})
}

// What was paid for a charge that came to nothing is given back in the caller's
// time, or after it.
func TestAnUndoThatHangsDoesNotHoldTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := quietly(t, nil)
		_, err := r.Peek(t.Context(), start, quietAsk("alice"))
		must(t, err)
		var undone atomic.Bool
		q.script(func(op string, nth int) time.Duration {
			if op != "TransactWriteItems" {
				return 0
			}
			if nth <= 4 {
				return never
			}
			undone.Store(true)
			return 0
		})
		took, err := takes(func() error {
			out, err := r.Consume(t.Context(), start, quietAsk("alice"))
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

// Long operations wait for a table that is busy.
func TestLongOperationsArePatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, r := quietly(t, nil)
		q.script(func(string, int) time.Duration { return 4 * time.Second })
		addition := aggregator.Addition{
			Bucket: aggregator.ID{Namespace: "n1", Entity: "bob", Resource: quietModel}, Window: limiter.Hourly, Start: midnight,
			Entries: []aggregator.Entry{{Position: aggregator.Position{Feed: "a", Number: "1"}, Used: map[string]int64{"rpm": 1}}},
		}
		must(t, r.UsageStore(0).AddUsage(t.Context(), addition))
		if n := q.times("UpdateItem"); n != 1 {
			t.Errorf("the snapshot was written %d times", n)
		}
	})
}
