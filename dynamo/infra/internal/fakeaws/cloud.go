// Package fakeaws is a small AWS for the tests of package infra.
//
// A [Cloud] is a server that speaks the wire formats of CloudFormation, S3,
// Lambda, SQS, CloudWatch, STS, EC2, ECS, ECR and Systems Manager, and forwards
// requests for tables to DynamoDB Local. A [Template] evaluates a CloudFormation
// template, a [Policy] evaluates IAM policies, and a [Recorder] records the calls
// that a policy has to allow.
package fakeaws

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// The account and region of every Cloud.
const (
	AccountID = "123456789012"
	Region    = "eu-west-1"
)

// Cloud is a server for the AWS services that package infra calls. A stack
// moves to its next state with each DescribeStacks; tables are in DynamoDB Local.
//
// Tests set fields before the first request, or while they hold the lock.
type Cloud struct {
	URL    string
	Engine string // the URL of DynamoDB Local

	sync.Mutex
	Stacks    []*Stack
	Buckets   map[string]*Bucket
	Functions map[string]string // function name to the JSON of GetFunction
	Mappings  string            // event source mappings, JSON
	Alarms    []Alarm
	Messages  string // number of messages in the dead letter queue
	Network   Network
	Clusters  []string // of ECS
	Services  []*Service
	Tasks     []*Task
	Images    map[string][]string // repository name to the tags of its images
	// Changes are the changes that every change set reports. Nil stands for a
	// change of one function.
	Changes []Change
	// Failing maps a resource that cannot be created, updated or deleted to the
	// reason.
	Failing  map[string]string
	Workers  map[string]*Worker  // functions that can be invoked, by name
	Sessions map[string]*Session // of Systems Manager, by ID
	// Intercept, if not nil, is called with each request, with the lock held. If
	// it returns nil the cloud answers as usual.
	Intercept func(*Request) *Reply

	tb    testing.TB
	clock time.Time
	log   []string // operations since TakeCalls
}

// Request is a request to any of the services.
type Request struct {
	Op     string     // as the SDK names it
	Form   url.Values // of a query service, else nil
	Bucket string
	Key    string // of an object, or the name of a function
	Header http.Header
	Query  url.Values
	Body   []byte
}

// Reply is the response to a Request.
type Reply struct {
	Status int
	Header map[string]string
	Body   []byte
}

// New starts a Cloud whose tables are in the DynamoDB Local at engine. It stops
// at the end of the test.
func New(tb testing.TB, engine string) *Cloud {
	tb.Helper()
	c := &Cloud{
		tb: tb, Engine: engine, Buckets: map[string]*Bucket{}, Functions: map[string]string{},
		Failing: map[string]string{}, Images: map[string][]string{},
		clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Messages: "0",
	}

	server := httptest.NewServer(c)
	c.URL = server.URL
	tb.Cleanup(server.Close)
	return c
}

// Transport carries the requests of all tests, which share its connections.
var Transport = &http.Transport{MaxIdleConnsPerHost: 64}

// Config returns a configuration for endpoint that retries without a delay.
func Config(endpoint string) *aws.Config {
	return &aws.Config{
		Region:       Region,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		BaseEndpoint: aws.String(endpoint),
		HTTPClient:   &http.Client{Transport: Transport},
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.RateLimiter = 5, ratelimit.None
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
		},
	}
}

// ServeHTTP answers a request to any of the services.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		// The client is gone.
		return
	}

	r := &Request{Header: request.Header, Query: request.URL.Query(), Body: body}
	handle := c.route(r, request)

	c.Lock()
	defer c.Unlock()

	c.log = append(c.log, r.Op)

	var reply *Reply
	if c.Intercept != nil {
		reply = c.Intercept(r)
	}

	if reply == nil {
		reply = handle(r)
	}

	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}

	w.WriteHeader(reply.Status)
	// The client may be gone.
	_, _ = w.Write(reply.Body)
}

// route sets the operation of r and returns its handler.
func (c *Cloud) route(r *Request, request *http.Request) func(*Request) *Reply {
	path := request.URL.Path

	service, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case strings.HasPrefix(service, "DynamoDB"):
		r.Op = op
		return c.serveTable
	case service == "AmazonSQS":
		r.Op = op
		return c.serveQueue
	case strings.HasPrefix(service, "AmazonEC2ContainerService"):
		r.Op = op
		return c.serveECS
	case strings.HasPrefix(service, "AmazonEC2ContainerRegistry"):
		r.Op = op
		return c.serveECR
	case service == "AmazonSSM":
		r.Op = op
		return c.serveSSM
	case strings.HasSuffix(path, "/invocations"), strings.HasSuffix(path, "/configuration"):
		return c.routeWorker(r, path)
	case strings.HasPrefix(path, "/2015-03-31/"):
		r.Op, r.Key = "GetFunction", path[strings.LastIndex(path, "/")+1:]
		if strings.Contains(path, "event-source-mappings") {
			r.Op = "ListEventSourceMappings"
		}
		return c.serveFunction
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		r.Form, _ = url.ParseQuery(string(r.Body))

		r.Op = r.Form.Get("Action")
		// EC2, CloudWatch and CloudFormation speak the same protocol, so only the
		// names of operations tell them apart.
		if slices.Contains(networkOps, r.Op) {
			return c.serveEC2
		}
		if r.Op == "DescribeAlarms" {
			return c.serveAlarms
		}
		return c.serveStack
	}

	// What remains is S3, whose requests have neither a header nor a form.
	r.Bucket, r.Key, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	r.Op = bucketOp(request.Method, r)
	return c.serveBucket
}

// Log returns the operations since the last TakeCalls.
func (c *Cloud) Log() []string {
	c.Lock()
	defer c.Unlock()
	return slices.Clone(c.log)
}

// TakeCalls returns the operations since its last call that are in ops, and
// forgets all of them.
func (c *Cloud) TakeCalls(ops ...string) []string {
	c.Lock()
	defer c.Unlock()

	var taken []string
	for _, op := range c.log {
		if slices.Contains(ops, op) {
			taken = append(taken, op)
		}
	}

	c.log = nil
	return taken
}

// FailFirst answers the first n calls of an operation with an error.
func (c *Cloud) FailFirst(n int, op string, status int, code, message string) {
	c.Lock()
	defer c.Unlock()
	// Tests add failures one after the other, so earlier ones stay in effect.
	next := c.Intercept

	c.Intercept = func(r *Request) *Reply {
		if r.Op == op && n > 0 {
			n--
			return ErrorReply(r, status, code, message)
		}

		if next != nil {
			return next(r)
		}
		return nil
	}
}

// Deny answers every call of an operation with AccessDenied.
func (c *Cloud) Deny(op string) {
	c.FailFirst(1<<30, op, 403, "AccessDenied", "not authorized to perform "+op)
}

// ErrorReply returns an error in the format of the service that r is for.
func ErrorReply(r *Request, status int, code, message string) *Reply {
	// The name decides for EC2, since it shares the protocol of CloudFormation
	// and has another form of errors.
	switch {
	case slices.Contains(networkOps, r.Op):
		return ec2Error(status, code, message)
	case r.Form != nil:
		return xmlReply(status,
			fmt.Sprintf(
				"<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>",
				code, escapeXML(message),
			))
	case r.Bucket != "":
		return xmlReply(status,
			fmt.Sprintf("<Error><Code>%s</Code><Message>%s</Message></Error>", code, escapeXML(message)))
	}

	return &Reply{
		status,
		map[string]string{"Content-Type": "application/x-amz-json-1.0", "X-Amzn-Errortype": code},
		fmt.Appendf(nil, `{"__type":%q,"message":%q}`, code, message),
	}
}

func xmlReply(status int, body string) *Reply {
	return &Reply{status, map[string]string{"Content-Type": "text/xml"}, []byte(body)}
}

func escapeXML(s string) string {
	var buf bytes.Buffer
	// A buffer accepts every write.
	_ = xml.EscapeText(&buf, []byte(s))
	return buf.String()
}
