package infra_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is a transport that takes down what passes.
type recorder struct {
	next  http.RoundTripper
	space string // the ID of the namespace, which becomes NS

	mu    sync.Mutex
	calls []call
	err   error // the first that could not be understood
}

// take returns what was recorded since it was called last.
func (r *recorder) take(tb testing.TB) []call {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		tb.Fatal(r.err)
	}
	taken := r.calls
	r.calls = nil
	return taken
}

// RoundTrip sends a request on.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	var sent []byte
	if request.Body != nil {
		var err error
		if sent, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(sent))
	}
	_, action, ofTable := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	c, err := objectCall(request.URL)
	if ofTable {
		c, err = r.understand(action, sent)
	}
	r.mu.Lock()
	r.calls = append(r.calls, c)
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	return r.next.RoundTrip(request)
}

// objectCall is a request to S3, which says in its query what it is.
func objectCall(address *url.URL) (call, error) {
	bucket, object, named := strings.Cut(strings.TrimPrefix(address.Path, "/"), "/")
	c := call{action: "s3:" + address.Query().Get("x-id"), on: bucket + ".Arn/" + object}
	if !named || c.action == "s3:" {
		return c, fmt.Errorf("what is %s?", address)
	}
	return c, nil
}

// asked is what a request for items says of keys.
type asked struct {
	IndexName                 string
	Key, Item                 attributeValues
	KeyConditionExpression    string
	ExpressionAttributeValues attributeValues
	RequestItems              map[string]json.RawMessage
	TransactItems             []map[string]changed
	expressions
}

// changed is what an item of a transaction says.
type changed struct {
	Key, Item attributeValues
	expressions
}

// expressions are where a write names attributes, besides an item.
type expressions struct {
	UpdateExpression, ConditionExpression string
	ExpressionAttributeNames              map[string]string
}

type attributeValues map[string]struct{ S string }

func (r *recorder) understand(action string, sent []byte) (call, error) {
	c := call{action: action}
	switch action {
	case "DescribeTable":
		return c, nil
	case "DescribeStream", "GetShardIterator", "GetRecords":
		c.on = "stream"
		return c, nil
	}
	var a asked
	if err := json.Unmarshal(sent, &a); err != nil {
		return c, fmt.Errorf("%s: %w", action, err)
	}
	c.on = a.IndexName
	switch action {
	case "GetItem", "DeleteItem":
		c.keys = r.keys(a.Key)
	case "UpdateItem":
		c.keys, c.attributes = r.keys(a.Key), a.names(a.Key)
	case "PutItem":
		c.keys, c.attributes = r.keys(a.Item), a.names(a.Item)
	case "Query":
		c.keys = []string{r.key(a.partition())}
	case "BatchGetItem", "BatchWriteItem":
		c.keys = r.keys(a.batch()...)
	case "TransactWriteItems", "TransactGetItems":
		c.items = r.items(a)
	case "Scan":
	default:
		return c, fmt.Errorf("what is %s?", action)
	}
	if action != "Scan" && (len(c.keys)+len(c.items) == 0 || slices.Contains(c.keys, "")) {
		return c, fmt.Errorf("%s of %v", action, c)
	}
	return c, nil
}

var equals = regexp.MustCompile(`^\S+ = (:\w+)`)

// partition is the partition key of a query, which its condition begins with.
func (a asked) partition() string {
	if m := equals.FindStringSubmatch(a.KeyConditionExpression); m != nil {
		return a.ExpressionAttributeValues[m[1]].S
	}
	return ""
}

// batch are the keys in a batch.
func (a asked) batch() (all []attributeValues) {
	for _, raw := range a.RequestItems {
		var gets struct{ Keys []attributeValues }
		var writes []map[string]struct{ Key, Item attributeValues }
		if json.Unmarshal(raw, &gets) == nil {
			all = append(all, gets.Keys...)
		} else if json.Unmarshal(raw, &writes) == nil {
			for _, w := range writes {
				all = append(all, w["DeleteRequest"].Key)
			}
		}
	}
	return all
}

// items are those of a transaction, each with the action that it needs.
func (r *recorder) items(a asked) (all []item) {
	actions := map[string]string{
		"Get": "GetItem", "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem",
	}
	for _, one := range a.TransactItems {
		for kind, i := range one {
			one := item{actions[kind], r.keys(i.Key, i.Item)[0], nil}
			if kind == "Put" || kind == "Update" {
				one.attributes = i.names(i.Key, i.Item)
			}
			all = append(all, one)
		}
	}
	return all
}

var (
	bareName = regexp.MustCompile(`[#:.]?\b[A-Za-z_]\w*`)
	ofLimit  = regexp.MustCompile(`^([bl]_).*`) // one of an attribute for each limit
)

// grammar are the words of expressions that name no attribute.
var grammar = strings.Fields("SET ADD REMOVE DELETE AND OR NOT BETWEEN IN if_not_exists attribute_exists attribute_not_exists size begins_with contains")

// names are the attributes that a write names, as IAM is shown them, sorted.
// Those for a limit are there once, as b_* or l_*.
func (e expressions) names(items ...attributeValues) (names []string) {
	for _, attributes := range items {
		names = slices.AppendSeq(names, maps.Keys(attributes))
	}
	names = slices.AppendSeq(names, maps.Values(e.ExpressionAttributeNames))
	for _, word := range bareName.FindAllString(e.UpdateExpression+" "+e.ConditionExpression, -1) {
		if !strings.ContainsAny(word[:1], "#:.") && !slices.Contains(grammar, word) {
			names = append(names, word)
		}
	}
	for i, name := range names {
		names[i] = ofLimit.ReplaceAllString(name, "$1*")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keys are the partition keys in sets of attributes, sorted, each once.
func (r *recorder) keys(all ...attributeValues) (keys []string) {
	for _, values := range all {
		if pk := values["PK"].S; pk != "" {
			keys = append(keys, r.key(pk))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (r *recorder) key(pk string) string {
	if pk == r.space {
		return own
	}
	if rest, mine := strings.CutPrefix(pk, r.space+"/"); mine {
		return own + "/" + rest
	}
	return pk
}
