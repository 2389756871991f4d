package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// busyTable is a quiet table with a lean index of 20 buckets. It answers reads
// about their entities slowly.
type busyTable struct {
	dynamotest.QuietTable
	delay  time.Duration // of each batch
	most   func() int    // keys that it answers of a batch
	stream func(ctx context.Context, reply string) io.ReadCloser
}

const busyBuckets = 20

// Do answers a request.
func (b *busyTable) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	switch _, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), "."); {
	case op == "Query" && bytes.Contains(body, []byte(`"GSI2"`)):
		var items []map[string]any
		for i := range busyBuckets {
			items = append(items, keysOnly(busyBucket(i)))
		}
		return busyReply(map[string]any{"Items": items}, nil), nil
	case op == "BatchGetItem" && bytes.Contains(body, []byte("ENTITY#e-")):
		time.Sleep(b.delay) // in the bubble
		return b.answer(req.Context(), body)
	}
	return b.QuietTable.Do(req)
}

// answer answers some of the keys of a batch.
func (b *busyTable) answer(ctx context.Context, body []byte) (*http.Response, error) {
	var sent struct {
		RequestItems map[string]struct{ Keys []any }
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, err
	}
	keys := sent.RequestItems["quiet"].Keys
	n := min(b.most(), len(keys))
	found := []any{}
	for _, k := range keys[:n] {
		for i := range busyBuckets {
			if bucket, k := busyBucket(i), k.(map[string]any); reflect.DeepEqual(bucket["PK"], k["PK"]) &&
				reflect.DeepEqual(bucket["SK"], k["SK"]) {
				found = append(found, bucket)
			}
		}
	}
	reply := map[string]any{"Responses": map[string]any{"quiet": found}}
	if n < len(keys) {
		reply["UnprocessedKeys"] = map[string]any{"quiet": map[string]any{"Keys": keys[n:]}}
	}
	if b.stream == nil {
		return busyReply(reply, nil), nil
	}
	return busyReply(reply, func(text string) io.ReadCloser { return b.stream(ctx, text) }), nil
}

// busyBucket returns a bucket in the wire format.
func busyBucket(i int) map[string]any {
	s := func(v string) map[string]any { return map[string]any{"S": v} }
	n := func(v string) map[string]any { return map[string]any{"N": v} }
	entity := fmt.Sprintf("e-%02d", i)
	return map[string]any{
		"PK": s("n1/ENTITY#" + entity), "SK": s("#BUCKET#" + model), "GSI2PK": s("n1/RESOURCE#" + model),
		"GSI2SK":    s("BUCKET#" + entity),
		"entity_id": s(entity), "resource": s(model), "rf": n("1773500966000"),
		"b_rpm_tk": n("50000"), "b_rpm_cp": n("100000"), "b_rpm_ra": n("100000"), "b_rpm_rp": n("60000"),
		"b_rpm_tc": n("0"),
	}
}

// busyReply returns a response, whose body comes at once unless stream is set.
func busyReply(reply map[string]any, stream func(string) io.ReadCloser) *http.Response {
	text, _ := json.Marshal(reply)
	body := io.NopCloser(bytes.NewReader(text))
	if stream != nil {
		body = stream(string(text))
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: body,
	}
}

// A batch of a lean table takes as long as it comes, like a page of a full one.
func TestABatchMayTakeAsLongAsItComes(t *testing.T) {
	t.Parallel()
	all := func() int { return busyBuckets }
	stall := func(stop int) func(context.Context, string) io.ReadCloser {
		return func(ctx context.Context, reply string) io.ReadCloser {
			return &trickle{bytes.NewReader([]byte(reply)), ctx, 20 * time.Millisecond, stop}
		}
	}
	for name, c := range map[string]struct {
		table       *busyTable
		least, most time.Duration
		err         string
	}{
		"one key at a time": {&busyTable{delay: 250 * time.Millisecond, most: func() int {
			return 1
		}}, 5 * time.Second, 20 * time.Second, ""},
		"a slow line": {&busyTable{most: all, stream: stall(-1)}, 30 * time.Second, 5 * time.Minute, ""},
		"a line that stalls": {
			&busyTable{most: all, stream: stall(20)}, time.Second, 20 * time.Minute,
			`table "quiet" did not answer in time; check that its region, us-east-1, is reachable`,
		},
		"no key": {
			&busyTable{delay: 50 * time.Millisecond, most: func() int {
				return 0
			}}, time.Second, 1100 * time.Millisecond,
			`table "quiet" is too busy: it returned none of 20 items within 1s; try again later, or raise its read capacity`,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := &aws.Config{
				Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
				HTTPClient: c.table,
			}
			repo, err := dynamo.Connect(t.Context(), "quiet", &dynamo.Options{AWS: cfg})
			must(t, err)
			t.Cleanup(func() { _ = repo.Close() })
			listed := 0
			took, err := elapsed(func() error {
				for _, err := range repo.Buckets(t.Context(), start, limiter.Scope{Resource: model}) {
					if err != nil {
						return err
					}
					listed++
				}
				return nil
			})
			if got := fmt.Sprint(err); c.err == "" && (err != nil || listed != busyBuckets) || c.err != "" &&
				got != c.err {
				t.Errorf("%s: %d buckets and error %v, want error %q", name, listed, err, c.err)
			}
			if took < c.least || took > c.most {
				t.Errorf("%s: it takes %v, want from %v to %v", name, took, c.least, c.most)
			}
		})
	}
}
