package infra_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/infra"
	"github.com/zeroae/zae-limiter-go/internal/dynamolocal"
	"github.com/zeroae/zae-limiter-go/internal/motolocal"
)

const (
	accountID = "123456789012"
	region    = "eu-west-1"
)

// cloud is a small AWS that speaks the wire formats of the services this package
// calls. Its stacks go through their states one look at a time; its tables are
// those of DynamoDB Local. What a test wants to happen, it says in the fields
// before, or under the lock.
type cloud struct {
	URL string
	tb  testing.TB

	sync.Mutex
	engine    string
	stacks    []*cloudStack
	buckets   map[string]*bucket
	functions map[string]string // name to the reply's JSON
	mappings  string            // event source mappings, JSON
	alarms    []cloudAlarm
	messages  string // in the dead letter queue
	clock     time.Time
	// changes are what a change set says it would do; nil for one function.
	changes []change
	// failing is a resource that cannot be made, changed or deleted, and why.
	failing map[string]string
	// plan is asked before every call; nil answers as usual.
	plan func(*cloudCall) *reply
	log  []string // the calls so far
}

// cloudCall is a request, of whichever service.
type cloudCall struct {
	op     string // as the SDK names it
	form   url.Values
	bucket string
	key    string
	header http.Header
	query  url.Values
	body   []byte
}

type reply struct {
	status int
	header map[string]string
	body   []byte
}

func newCloud(tb testing.TB) *cloud {
	tb.Helper()
	c := &cloud{
		tb: tb, engine: engine(tb), buckets: map[string]*bucket{}, functions: map[string]string{}, failing: map[string]string{},
		clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), messages: "0",
	}
	server := httptest.NewServer(c)
	c.URL = server.URL
	tb.Cleanup(server.Close)
	return c
}

// options reach the cloud, with no time between two looks or two tries.
func (c *cloud) options() infra.Options {
	return infra.Options{Dynamo: dynamo.Options{AWS: config(c.URL), Timeout: time.Minute}, Version: "1.2.3", Zip: functionZip(c.tb), Poll: 1}
}

func config(endpoint string) *aws.Config {
	return &aws.Config{
		Region:       region,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		BaseEndpoint: aws.String(endpoint),
		HTTPClient:   &http.Client{Transport: wires},
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.RateLimiter = 5, ratelimit.None
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
		},
	}
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	asked := &cloudCall{header: r.Header, query: r.URL.Query(), body: body}
	answer := c.route(asked, r)
	c.Lock()
	defer c.Unlock()
	c.log = append(c.log, asked.op)
	var got *reply
	if c.plan != nil {
		got = c.plan(asked)
	}
	if got == nil {
		got = answer(asked)
	}
	for name, value := range got.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(got.status)
	_, _ = w.Write(got.body) // a client that is gone needs no answer
}

// route names the operation and says who answers.
func (c *cloud) route(asked *cloudCall, r *http.Request) func(*cloudCall) *reply {
	target := r.Header.Get("X-Amz-Target")
	service, op, _ := strings.Cut(target, ".")
	switch {
	case strings.HasPrefix(service, "DynamoDB"):
		asked.op = op
		return c.table
	case service == "AmazonSQS":
		asked.op = op
		return c.queue
	case strings.HasPrefix(r.URL.Path, "/service/"):
		asked.op = r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		return c.alarm
	case strings.HasPrefix(r.URL.Path, "/2015-03-31/"):
		asked.op, asked.key = "GetFunction", r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if strings.Contains(r.URL.Path, "event-source-mappings") {
			asked.op = "ListEventSourceMappings"
		}
		return c.function
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		asked.form, _ = url.ParseQuery(string(asked.body))
		asked.op = asked.form.Get("Action")
		return c.stack
	}
	asked.bucket, asked.key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	asked.op = bucketOp(r.Method, asked)
	return c.store
}

// wires carries the requests of all tests.
var wires = &http.Transport{MaxIdleConnsPerHost: 64}

// calls are those since the last time this was asked, of these lifeCycle.
func (c *cloud) calls(ops ...string) []string {
	c.Lock()
	defer c.Unlock()
	var found []string
	for _, op := range c.log {
		for _, wanted := range ops {
			if op == wanted {
				found = append(found, op)
			}
		}
	}
	c.log = nil
	return found
}

// failFirst answers the first n calls of an operation with an error.
func (c *cloud) failFirst(n int, op string, status int, code, message string) {
	c.Lock()
	defer c.Unlock()
	before := c.plan
	c.plan = func(asked *cloudCall) *reply {
		if asked.op == op && n > 0 {
			n--
			return failed(asked, status, code, message)
		}
		if before != nil {
			return before(asked)
		}
		return nil
	}
}

// deny refuses an operation for ever.
func (c *cloud) deny(op string) {
	c.failFirst(1<<30, op, 403, "AccessDenied", "not authorized to perform "+op)
}

// failed is an error in the form of the service that was called.
func failed(asked *cloudCall, status int, code, message string) *reply {
	switch {
	case asked.form != nil:
		return xmlReply(status, fmt.Sprintf("<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>", code, escaped(message)))
	case asked.bucket != "":
		return xmlReply(status, fmt.Sprintf("<Error><Code>%s</Code><Message>%s</Message></Error>", code, escaped(message)))
	case asked.op == "DescribeAlarms":
		return cborReply(status, map[string]string{"__type": code, "message": message})
	}
	return &reply{status, map[string]string{"Content-Type": "application/x-amz-json-1.0", "X-Amzn-Errortype": code}, fmt.Appendf(nil, `{"__type":%q,"message":%q}`, code, message)}
}

func xmlReply(status int, body string) *reply {
	return &reply{status, map[string]string{"Content-Type": "text/xml"}, []byte(body)}
}

func escaped(s string) string {
	var buf bytes.Buffer
	_ = xml.EscapeText(&buf, []byte(s)) // a buffer takes everything
	return buf.String()
}

func TestMain(m *testing.M) {
	code := m.Run()
	wires.CloseIdleConnections()
	os.Exit(sharedEngine.Stop(sharedMoto.Stop(code)))
}

// engine is the URL of DynamoDB Local.
func engine(tb testing.TB) string {
	tb.Helper()
	return sharedEngine.URL(tb)
}

var sharedEngine, sharedMoto = dynamolocal.Share(), motolocal.Share()

// forward has the engine answer.
func (c *cloud) forward(asked *cloudCall) *reply {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.engine, bytes.NewReader(asked.body))
	if err != nil {
		c.tb.Error(err)
		return failed(asked, 500, "InternalServerError", err.Error())
	}
	request.Header = asked.header.Clone()
	response, err := wires.RoundTrip(request)
	if err != nil {
		return failed(asked, 500, "InternalServerError", err.Error())
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return failed(asked, 500, "InternalServerError", err.Error())
	}
	header := map[string]string{}
	for name := range maps.Keys(response.Header) {
		header[name] = response.Header.Get(name)
	}
	return &reply{response.StatusCode, header, body}
}
