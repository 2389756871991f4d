package dynamotest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// QuietTable is an HTTP client that answers from a script, in the time of a
// synctest bubble. The table has the namespace default, limits of the system,
// alice with the parent team that pays too, and bob.
type QuietTable struct {
	mu         sync.Mutex
	delay      func(op string, nth int) time.Duration // of an answer
	asked      map[string]int
	STS        func(nth int) (status int, reply string, wait time.Duration)
	Principals []string                                              // of the changes
	Body       func(ctx context.Context, reply string) io.ReadCloser // nil sends the reply at once
}

// Never is the delay of an answer that never comes.
const Never = time.Duration(-1)

const quietModel = "gpt-4"

// quietBucket returns a bucket in the wire format.
func quietBucket(entity, tokens string) string {
	return `{"PK":{"S":"n1/ENTITY#` + entity + `"},"SK":{"S":"#BUCKET#` + quietModel + `"},"entity_id":{"S":"` +
		entity + `"},"resource":{"S":"` + quietModel + `"},
		"rf":{"N":"1773500966000"},"b_rpm_tk":{"N":"` + tokens +
		`"},"b_rpm_cp":{"N":"100000"},"b_rpm_ra":{"N":"100000"},"b_rpm_rp":{"N":"60000"},"b_rpm_tc":{"N":"0"}}`
}

var quietItems = []string{
	`{"PK":{"S":"_/SYSTEM#"},"SK":{"S":"#NAMESPACE#default"},` +
		`"namespace_id":{"S":"n1"},"namespace_name":{"S":"default"},"status":{"S":"active"}}`,
	`{"PK":{"S":"_/SYSTEM#"},"SK":{"S":"#NSID#n1"},` +
		`"namespace_id":{"S":"n1"},"namespace_name":{"S":"default"},"status":{"S":"active"}}`,
	`{"PK":{"S":"n1/SYSTEM#"},"SK":{"S":"#CONFIG"},` +
		`"l_rpm_cp":{"N":"100"},"l_rpm_ra":{"N":"100"},"l_rpm_rp":{"N":"60"},"config_version":{"N":"1"}}`,
	`{"PK":{"S":"n1/ENTITY#alice"},"SK":{"S":"#META"},` +
		`"entity_id":{"S":"alice"},"parent_id":{"S":"team"},"cascade":{"BOOL":true}}`,
	quietBucket("team", "50000"), quietBucket("bob", "50000"),
}

// Do answers a request.
func (q *QuietTable) Do(req *http.Request) (*http.Response, error) {
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
		status, reply, wait = q.STS(q.asked[op] + 1)
	}
	q.asked[op]++

	if q.delay != nil {
		wait = q.delay(op, q.asked[op])
	}

	if _, after, ok := strings.Cut(string(sent), `"principal":{`); ok && op == "TransactWriteItems" {
		name, _, _ := strings.Cut(after, "}")
		q.Principals = append(q.Principals, name)
	}

	q.mu.Unlock()

	// The channel stays nil for Never, so that only the end of the request is
	// left.
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
	if q.Body != nil {
		body = q.Body(req.Context(), reply)
	}

	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"Q1"}},
		Body:       body, Request: req,
	}, nil
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
		// Connect asks the index for buckets of newer releases, and this table
		// has none.
		if strings.Contains(sent, "GSI4") || strings.Contains(sent, "SYSTEM#") {
			return 200, `{"Items":[]}`
		}
		return 200, `{"Items":[` + quietBucket("bob", "50000") + `]}`
	case "UpdateItem":
		if strings.Contains(sent, "ENTITY#team") {
			// Others have emptied the bucket since its image.
			return 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",` +
				`"message":"no","Item":` + quietBucket("team", "0") + `}`
		}
		return 200, `{"Attributes":` + quietBucket("bob", "49000") + `}`
	}
	return 200, `{}`
}

// Script sets the delays of later answers and resets the counts.
func (q *QuietTable) Script(takes func(op string, nth int) time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delay, q.asked, q.Principals = takes, nil, nil
}

// Count returns how many requests of an operation were made.
func (q *QuietTable) Count(op string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.asked[op]
}

// Silent returns Never for every request.
func Silent(string, int) time.Duration { return Never }

// FirstSilent returns Never for the first request of each operation, as on one
// connection that hangs.
func FirstSilent(_ string, nth int) time.Duration {
	if nth == 1 {
		return Never
	}
	return time.Millisecond
}

// ConnectQuietTable connects to a new quiet table.
func ConnectQuietTable(t *testing.T, opts *dynamo.Options) (*QuietTable, *dynamo.Repository) {
	t.Helper()
	q := &QuietTable{}

	var o dynamo.Options
	if opts != nil {
		o = *opts
	}

	o.AWS = &aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: q,
	}

	repo, err := dynamo.Connect(t.Context(), "quiet", &o)
	must(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return q, repo
}
