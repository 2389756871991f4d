package dynamo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/go-cmp/cmp"
)

// bothWays returns two stores on a URL: the first sends updates over the wire,
// the second through the SDK.
func bothWays(t *testing.T, url string, cfg aws.Config) (overWire, throughSDK *store) {
	t.Helper()
	requireWire(t)
	cfg.Region = "us-east-1"
	if cfg.Credentials == nil {
		cfg.Credentials = credentials.NewStaticCredentialsProvider("a", "b", "")
	}
	open := func() *store {
		s, err := newStore(t.Context(), "test", "table", &Options{AWS: &cfg, Endpoint: url, CountCapacity: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if c, ok := s.once.Options().HTTPClient.(interface{ CloseIdleConnections() }); ok {
				c.CloseIdleConnections()
			}
		})
		return s
	}
	overWire = open()
	cfg.APIOptions = append(cfg.APIOptions, func(*middleware.Stack) error { return nil })
	throughSDK = open()
	if overWire.wire == nil || throughSDK.wire != nil {
		t.Fatalf("the ways are %v and %v", overWire.wire, throughSDK.wire)
	}
	return overWire, throughSDK
}

// requireWire skips a test about the wire under make test-sdk.
func requireWire(t *testing.T) {
	t.Helper()
	if _, off := os.LookupEnv("AWS_LAMBDA_FUNCTION_NAME"); off {
		t.Skip("in a Lambda function the SDK sends every update")
	}
}

// fate is everything that the store may learn from the result of an update.
type fate struct {
	Result                    writeResult
	Retryable, Context, Never bool
	NoResponse                bool
	Code, Text                string
	DebitTries, CreditTries   int // how often the store sends it
	Stored, Item              item
	Requests                  int64
	WriteUnits                float64
}

func fateOf(s *store, out *dynamodb.UpdateItemOutput, err error) fate {
	_, writes := s.used.units()
	f := fate{Requests: s.requests.Load(), WriteUnits: writes}
	if err == nil {
		f.Stored = out.Attributes
		return f
	}
	_, f.NoResponse = errors.AsType[*noResponseError](err)
	f.Result, f.Retryable, f.Context, f.Never = resultOf(err), retryable(err), isContext(err), neverSent(err)
	f.Code, f.Item, f.Text = errorCode(err), refusedItem(err), maskText(s.explain(err).Error())
	f.DebitTries, f.CreditTries = tries(err, maxUnknown), tries(err, 0)
	return f
}

// tries returns how often sendWrite sends a write that always has this error.
func tries(err error, unknowns int) int {
	try := 0
	for try < maxTries && resend(unknowns)(err, try) {
		try++
	}
	return try + 1
}

// maskText removes what differs from connection to connection.
func maskText(text string) string {
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "HOST")
	return regexp.MustCompile(`(?i)probable clock skew( error)?`).ReplaceAllString(text, "skew")
}

// fault is what happens to an update.
type fault struct {
	name   string
	handle http.HandlerFunc
	within time.Duration // the context ends after it, if set
	try    time.Duration // the timeout of the try, if set
	want   writeResult
	fine   bool // it succeeds
	vague  bool // net/http returns one of two errors, depending on which goroutine is first
}

// reply answers with a status and a body.
func reply(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// raw writes bytes to the connection and closes it. With reset, the peer gets an
// error instead of the end.
func raw(text string, reset bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte(text))
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// stall sends the beginning of a response, and nothing more until the client has
// gone.
func stall(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if text != "" {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(text))
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

const (
	storedItem = `{"PK":{"S":"a"},"rf":{"N":"1"},"cascade":{"BOOL":true}}`
	updated    = `{"Attributes":` + storedItem + `}`
)

// farAhead returns the date of a service an hour ahead.
func farAhead() string { return time.Now().Add(time.Hour).UTC().Format(http.TimeFormat) }

var faults = []fault{
	{name: "success", handle: reply(200, updated), fine: true},
	{
		name: "capacity",
		handle: reply(200,
			`{"Attributes":`+storedItem+`,"ConsumedCapacity":{"TableName":"table","CapacityUnits":2.5}}`),
		fine: true,
	},
	{name: "list", handle: reply(200, `{"Attributes":{"a":{"L":[{"M":{"b":{"SS":["c"]}}}]}}}`), fine: true},
	{name: "other type", handle: reply(200, updated, "Content-Type", "text/html"), fine: true},
	{name: "wrong checksum", handle: reply(200, updated, "X-Amz-Crc32", "1"), fine: true},
	{name: "malformed checksum", handle: reply(200, updated, "X-Amz-Crc32", "x"), fine: true},
	{name: "empty", handle: reply(200, ""), fine: true},
	{name: "no item", handle: reply(200, "{}"), fine: true},
	{name: "201", handle: reply(201, updated), fine: true},

	{name: "half a JSON", handle: reply(200, `{"Attributes":`), want: unknown},
	{name: "garbage", handle: reply(200, `<html>`), want: unknown},
	{name: "other JSON", handle: reply(200, `{"Attributes":{"a":{"N":7}}}`), want: unknown},
	{name: "half a body", handle: raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+updated, false), want: unknown},
	{
		name:   "reset in a body",
		handle: raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+updated[:9], true), want: unknown,
	},
	{
		name:   "chunks without an end",
		handle: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"Att\r\n", false),
		want:   unknown,
	},
	{name: "half a header", handle: raw("HTTP/1.1 200 OK\r\nContent-", false), want: unknown},
	{name: "malformed header", handle: raw("HTTP/9 what\r\n\r\n", false), want: unknown},
	{name: "closed after the request", handle: raw("", false), want: unknown},
	{name: "reset after the request", handle: raw("", true), want: unknown},

	{
		name: "refused",
		handle: reply(400,
			`{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no","Item":`+
				storedItem+`}`),
		want: refused,
	},
	{
		name: "refused without an item", handle: reply(400, `{"__type":"ConditionalCheckFailedException"}`),
		want: refused,
	},
	{
		name:   "half a refusal",
		handle: raw("HTTP/1.1 400 Bad\r\nContent-Length: 1000\r\n\r\n{\"__type\":\"Condi", false),
		want:   notExecuted,
	},
	{
		name:   "reset in a refusal",
		handle: raw("HTTP/1.1 400 Bad\r\nContent-Length: 1000\r\n\r\n{\"__type\":\"Condi", true),
		want:   notExecuted,
	},
	{name: "transaction in progress", handle: typed(400, "TransactionInProgressException"), want: unknown},
	{
		name: "cancelled",
		handle: reply(400,
			`{"__type":"TransactionCanceledException","CancellationReasons":[{"Code":"TransactionConflict"}]}`),
		want: notExecuted,
	},
	{
		name: "cancelled by a condition",
		handle: reply(400,
			`{"__type":"TransactionCanceledException","CancellationReasons":[{"Code":"ConditionalCheckFailed"}]}`),
		want: refused,
	},
	{
		name: "type in a header", handle: reply(400, `{}`, "X-Amzn-Errortype", "ThrottlingException:http://x"),
		want: notExecuted,
	},
	{name: "400 without JSON", handle: reply(400, `<html>`), want: notExecuted},
	{name: "400 without a body", handle: reply(400, ``), want: notExecuted},
	{name: "403", handle: typed(403, "AccessDeniedException"), want: notExecuted},
	{name: "404", handle: reply(404, `not here`), want: notExecuted},
	{name: "408", handle: typed(408, "RequestTimeout"), want: unknown},
	{name: "413", handle: reply(413, ``), want: notExecuted},
	{name: "429", handle: typed(429, "ThrottlingException"), want: notExecuted},
	{name: "500", handle: typed(500, "InternalServerError"), want: unknown},
	{name: "500 refused", handle: typed(500, "ThrottlingException"), want: unknown},
	{name: "500 without a body", handle: reply(500, ``), want: unknown},
	{name: "502", handle: reply(502, `<html>bad gateway</html>`, "Content-Type", "text/html"), want: unknown},
	{name: "503", handle: reply(503, ``), want: unknown},
	{name: "304", handle: raw("HTTP/1.1 304 Not Modified\r\n\r\n", false), want: unknown},
	{name: "302", handle: reply(302, ``, "Location", "/elsewhere"), want: unknown},
	{name: "307", handle: reply(307, ``, "Location", "/elsewhere"), want: unknown},
	{name: "308", handle: reply(308, ``, "Location", "/elsewhere"), want: unknown},
	{name: "307 to nowhere", handle: reply(307, ``), want: unknown},

	{name: "skew", handle: reply(400, `{"__type":"InvalidSignatureException"}`, "Date", farAhead()), want: notExecuted},
	{
		name:   "skew of a cache",
		handle: reply(400, `{"__type":"InvalidSignatureException"}`, "Date", farAhead(), "Age", "7"),
		want:   notExecuted,
	},
	{
		name: "denied, no date", handle: reply(400, `{"__type":"AccessDeniedException"}`, "Date", "yesterday"),
		want: notExecuted,
	},

	{name: "the caller's time is over", handle: stall(""), within: 50 * time.Millisecond, want: unknown},
	{
		name: "the caller's time is over in a body", handle: stall(updated), within: 50 * time.Millisecond,
		want: unknown, vague: true,
	},
	{name: "silent try", handle: stall(""), try: 50 * time.Millisecond, want: unknown},
	{name: "silence in a body", handle: stall(updated), try: 50 * time.Millisecond, want: unknown, vague: true},
}

// typed answers with an error of a type.
func typed(status int, name string) http.HandlerFunc {
	return reply(status, `{"__type":"com.amazonaws.dynamodb.v20120810#`+name+`","message":"no"}`,
		"X-Amzn-Requestid", "REQUEST")
}

// TestFaultsLookTheSameBothWays lets an update fail in every way, over the wire
// and through the SDK. The store must learn the same: above all, an update that
// may have been executed must never look unsent.
func TestFaultsLookTheSameBothWays(t *testing.T) {
	t.Parallel()
	all := faults
	for _, name := range []string{
		"ValidationException", "ResourceNotFoundException", "AccessDeniedException", "UnrecognizedClientException",
		"InvalidSignatureException",
		"ExpiredTokenException", "MissingAuthenticationTokenException", "SignatureDoesNotMatch",
		"RequestTimeTooSkewed", "AuthFailure",
		"ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded",
		"TransactionConflictException",
		"ReplicatedWriteConflictException", "ItemCollectionSizeLimitExceededException", "LimitExceededException",
		"SerializationException", "Unheard",
	} {
		all = append(all, fault{name: name, handle: typed(400, name), want: notExecuted})
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			got, byWire := f.meet(t, true)
			want, bySDK := f.meet(t, false)
			for f.isTimeout() && (byWire == 0 || bySDK == 0) { // too short for a busy machine to send the request
				f.try, f.within = 2*f.try, 2*f.within
				got, byWire = f.meet(t, true)
				want, bySDK = f.meet(t, false)
			}
			if diff := cmp.Diff(want, got, cmp.Exporter(anyType)); diff != "" || byWire != bySDK {
				t.Errorf("%d requests through the SDK (-), %d over the wire (+):\n%s", bySDK, byWire, diff)
			}
			if f.fine != (got.Text == "") || got.Result != f.want {
				t.Errorf("the result is %d, want %d: %s", got.Result, f.want, got.Text)
			}
		})
	}
}

// isTimeout reports whether a timeout ends the update.
func (f *fault) isTimeout() bool { return f.try > 0 || f.within > 0 }

// meet sends an update to the fault, over the wire or through the SDK. It returns how
// many requests the server has received.
func (f *fault) meet(t *testing.T, overWire bool) (found fate, requests int64) {
	t.Helper()
	var received atomic.Int64
	url := serving(t, func(w http.ResponseWriter, r *http.Request) {
		received.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after it has read the body
		f.handle(w, r)
	})
	s, throughSDK := bothWays(t, url, aws.Config{})
	if !overWire {
		s = throughSDK
	}
	ctx := withTryTimeout(t.Context(), max(f.try, 0))
	if f.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.within)
		defer cancel()
	}
	out, err := s.update(ctx, bareUpdate())
	found = fateOf(s, out, err)
	if f.vague {
		found.Text, found.Context, found.NoResponse = "some error", false, false
	}
	return found, received.Load()
}

func bareUpdate() *dynamodb.UpdateItemInput {
	u := newUpdate()
	u.setTo(u.attr("rf"), number(1))
	return u.input(aws.String("table"), key{"a", "b"})
}

// Requests that never leave look the same both ways.
func TestUnsentLooksTheSameBothWays(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	none := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("none")
	})
	for name, c := range map[string]struct {
		ctx context.Context
		url string
		cfg aws.Config
	}{
		"connection refused": {ctx: t.Context(), url: closedPort},
		"no such host":       {ctx: t.Context(), url: "http://no-such-host.invalid:1"},
		"malformed host":     {ctx: t.Context(), url: "http://a b"},
		"no TLS":             {ctx: t.Context(), url: strings.Replace(replying(t, 200, "{}"), "http:", "https:", 1)},
		"no credentials":     {ctx: t.Context(), url: closedPort, cfg: aws.Config{Credentials: none}},
		"ended":              {ctx: ended, url: closedPort},
	} {
		t.Run(name, func(t *testing.T) {
			overWire, throughSDK := bothWays(t, c.url, c.cfg)
			out, err := overWire.update(c.ctx, bareUpdate())
			got := fateOf(overWire, out, err)
			out, err = throughSDK.update(c.ctx, bareUpdate())
			if diff := cmp.Diff(fateOf(throughSDK, out, err), got, cmp.Exporter(anyType)); diff != "" || err == nil {
				t.Errorf("through the SDK (-), over the wire (+):\n%s", diff)
			}
		})
	}
}

// A skewed clock is corrected by the second try, both ways.
func TestSkewIsCorrectedBothWays(t *testing.T) {
	t.Parallel()
	service := func() time.Time { return time.Now().Add(time.Hour) }
	url := serving(t, func(w http.ResponseWriter, r *http.Request) {
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		status, body := 200, updated
		if off := service().Sub(signed); err != nil || off.Abs() > 5*time.Minute {
			status, body = 400, `{"__type":"InvalidSignatureException"}`
		}
		reply(status, body, "Date", service().UTC().Format(http.TimeFormat))(w, r)
	})
	overWire, throughSDK := bothWays(t, url, aws.Config{})
	for name, s := range map[string]*store{"wire": overWire, "SDK": throughSDK} {
		if _, err := s.update(t.Context(), bareUpdate()); err == nil || !retryable(err) {
			t.Errorf("%s: the first try: %v", name, err)
		}
		if _, err := s.update(t.Context(), bareUpdate()); err != nil {
			t.Errorf("%s: the second try: %v", name, err)
		}
	}
}

// anyType lets cmp compare the unexported fields of the SDK's types.
func anyType(reflect.Type) bool { return true }
