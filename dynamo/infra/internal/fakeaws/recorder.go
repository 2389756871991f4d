package fakeaws

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

// Recorder is an http.RoundTripper that records the calls it sends, but for optional
// ones.
type Recorder struct {
	Next        http.RoundTripper
	NamespaceID string // becomes Namespace in the keys of calls

	mu    sync.Mutex
	calls []Call
	err   error // the first request that could not be parsed
}

// Take returns the calls since its last call.
func (r *Recorder) Take(tb testing.TB) []Call {
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

// RoundTrip records a request and sends it with Next.
func (r *Recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	var sent []byte
	if request.Body != nil {
		var err error
		if sent, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}

		// A RoundTripper must not change the request of its caller, whose body
		// has been read.
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(sent))
	}

	_, action, ofTable := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	c, err := objectCall(request.URL)
	if ofTable {
		c, err = r.parse(action, sent)
	}

	r.mu.Lock()
	if !isOptional(action, sent) {
		r.calls = append(r.calls, c)
	}

	if r.err == nil {
		r.err = err
	}

	r.mu.Unlock()
	return r.Next.RoundTrip(request)
}

// isOptional reports whether a request is the search for buckets of newer releases,
// which package dynamo does without if it is denied.
func isOptional(action string, sent []byte) bool {
	return action == "Query" && bytes.Contains(sent, []byte(`"GSI4"`)) && bytes.Contains(sent, []byte(`"BUCKET#"`))
}

// objectCall parses the URL of a request to S3. Its query has the operation.
func objectCall(address *url.URL) (Call, error) {
	bucket, object, named := strings.Cut(strings.TrimPrefix(address.Path, "/"), "/")
	c := Call{Action: "s3:" + address.Query().Get("x-id"), On: bucket + ".Arn/" + object}
	if !named || c.Action == "s3:" {
		return c, fmt.Errorf("unsupported request to S3: %s", address)
	}
	return c, nil
}

// itemRequest is the part of a request for items that has keys and attributes.
type itemRequest struct {
	IndexName                 string
	Key, Item                 attributeValues
	KeyConditionExpression    string
	ExpressionAttributeValues attributeValues
	RequestItems              map[string]json.RawMessage
	TransactItems             []map[string]transactItem
	expressions
}

// transactItem is an item of a transaction.
type transactItem struct {
	Key, Item attributeValues
	expressions
}

// expressions holds the expressions of a write, which name attributes.
type expressions struct {
	UpdateExpression, ConditionExpression string
	ExpressionAttributeNames              map[string]string
}

type attributeValues map[string]struct{ S string }

// parse parses the body of a request to DynamoDB.
func (r *Recorder) parse(action string, sent []byte) (Call, error) {
	c := Call{Action: action}
	switch action {
	case "DescribeTable":
		return c, nil
	case "DescribeStream", "GetShardIterator", "GetRecords":
		c.On = "stream"
		return c, nil
	}

	var a itemRequest
	if err := json.Unmarshal(sent, &a); err != nil {
		return c, fmt.Errorf("%s: %w", action, err)
	}

	c.On = a.IndexName

	switch action {
	case "GetItem", "DeleteItem":
		c.Keys = r.keys(a.Key)
	case "UpdateItem":
		c.Keys, c.Attributes = r.keys(a.Key), a.names(a.Key)
	case "PutItem":
		c.Keys, c.Attributes = r.keys(a.Item), a.names(a.Item)
	case "Query":
		c.Keys = []string{r.key(a.partition())}
	case "BatchGetItem", "BatchWriteItem":
		c.Keys = r.keys(a.batch()...)
	case "TransactWriteItems", "TransactGetItems":
		c.Items = r.items(a)
	case "Scan":
	default:
		return c, fmt.Errorf("unsupported action %s", action)
	}

	// A scan has no key. Any other call without one is a request that this
	// parser misses.
	if action != "Scan" && (len(c.Keys)+len(c.Items) == 0 || slices.Contains(c.Keys, "")) {
		return c, fmt.Errorf("%s without a partition key: %v", action, c)
	}

	return c, nil
}

var partitionCondition = regexp.MustCompile(`^\S+ = (:\w+)`)

// partition returns the partition key of a query, or "".
func (a itemRequest) partition() string {
	if m := partitionCondition.FindStringSubmatch(a.KeyConditionExpression); m != nil {
		return a.ExpressionAttributeValues[m[1]].S
	}
	return ""
}

// batch returns the keys in a batch.
func (a itemRequest) batch() (all []attributeValues) {
	for _, raw := range a.RequestItems {
		var gets struct{ Keys []attributeValues }
		var writes []map[string]struct{ Key, Item attributeValues }
		// Reads have an object for each table, writes a list.
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

// items returns the items of a transaction, each with the action on it.
func (r *Recorder) items(a itemRequest) (all []Item) {
	actions := map[string]string{
		"Get": "GetItem", "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem",
		"ConditionCheck": "ConditionCheckItem",
	}

	for _, one := range a.TransactItems {
		for kind, i := range one {
			// An item has either a key or, if it is put, the whole item.
			one := Item{actions[kind], r.keys(i.Key, i.Item)[0], nil}
			if kind == "Put" || kind == "Update" {
				one.Attributes = i.names(i.Key, i.Item)
			}
			all = append(all, one)
		}
	}
	return all
}

var (
	bareName = regexp.MustCompile(`[#:.]?\b[A-Za-z_]\w*`)
	ofLimit  = regexp.MustCompile(`^([bl]_).*`) // an attribute for each limit
)

// grammar lists the words of expressions that are not attributes.
var grammar = strings.Fields(
	"SET ADD REMOVE DELETE AND OR NOT BETWEEN IN if_not_exists attribute_exists attribute_not_exists size " +
		"begins_with contains",
)

// names returns the attributes that a write names, sorted. Those for a limit
// occur once, as b_* or l_*.
func (e expressions) names(items ...attributeValues) (names []string) {
	for _, attributes := range items {
		names = slices.AppendSeq(names, maps.Keys(attributes))
	}

	names = slices.AppendSeq(names, maps.Values(e.ExpressionAttributeNames))
	// Numbered placeholders stand for names and values, which the maps of the
	// request have.
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

// keys returns the distinct partition keys of items, sorted.
func (r *Recorder) keys(all ...attributeValues) (keys []string) {
	for _, values := range all {
		if pk := values["PK"].S; pk != "" {
			keys = append(keys, r.key(pk))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// key returns a partition key with Namespace for the ID of the namespace.
func (r *Recorder) key(pk string) string { return replaceNamespace(pk, r.NamespaceID, Namespace) }
