package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

var updateDocs = flag.Bool("update", false, "rewrite the tables in the docs")

// meter asks for the capacity that every request consumes, and sums it.
type meter struct {
	next http.RoundTripper

	mu            sync.Mutex
	requests      int
	refused       int // conditional writes that were not carried out, and are billed
	reads, writes float64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	asked, err := askForCapacity(req)
	if err != nil {
		return nil, err
	}
	resp, err := m.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, m.book(dynamotest.Operation(req.Header), asked, body)
}

func askForCapacity(req *http.Request) (asked []byte, err error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	members["ReturnConsumedCapacity"] = json.RawMessage(`"INDEXES"`)
	if body, err = json.Marshal(members); err != nil {
		return nil, err
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return body, nil
}

// book adds what a reply says.
func (m *meter) book(op string, asked, reply []byte) error {
	type consumed struct{ CapacityUnits float64 }
	var members struct {
		Type             string `json:"__type"`
		ConsumedCapacity json.RawMessage
	}
	if err := json.Unmarshal(reply, &members); err != nil {
		return err
	}
	var one consumed
	var all []consumed
	if json.Unmarshal(members.ConsumedCapacity, &one) == nil {
		all = append(all, one)
	} else {
		_ = json.Unmarshal(members.ConsumedCapacity, &all)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	if strings.HasSuffix(members.Type, "#ConditionalCheckFailedException") {
		m.refused++
		m.writes++
	}
	switch op {
	case transact:
		m.writes += transactionUnits(asked)
	case read, get:
		m.reads += float64(bytes.Count(asked, []byte(`"SK":`))) // the service bills keys without an item too
	default:
		for _, c := range all {
			m.writes += c.CapacityUnits
		}
	}
	return nil
}

// transactionUnits is by the service's rule, which the local engine does not
// follow: an item is prepared and committed, so it counts twice; its indexes,
// of which a new bucket is in two and a changed one in one, count once.
func transactionUnits(asked []byte) float64 {
	const made, changed = 2 + 2, 2 + 1
	return float64(made*bytes.Count(asked, []byte(`"Put":`)) + changed*bytes.Count(asked, []byte(`"Update":`)))
}

// costPath is a row of the table: what a path costs, and what the documents of
// the Python library say about it.
type costPath struct {
	name, claimed string
	prepare       func(c *costs)
	run           func(c *costs)
}

// costs is a table with a process whose requests are metered, and another.
type costs struct {
	testing.TB
	repo, other *dynamo.Repository
	lease       *limiter.Lease
}

func (c *costs) charge(d time.Duration, entity string, n int64, admitted bool) {
	c.Helper()
	consume(c, c.repo, d, chargeOf(entity, n), admitted)
}

// acquire makes a lease, and settle ends it after an adjustment.
func (c *costs) acquire(entity string) {
	c.Helper()
	lim, err := limiter.New(c.repo, &limiter.Options{Now: func() time.Time { return start }})
	must(c, err)
	c.lease, err = lim.Acquire(context.Background(), limiter.Request{Entity: entity, Resource: model, Consume: limiter.Tokens("rpm", 2)})
	must(c, err)
}

func (c *costs) settle(adjust int64, end func(*limiter.Lease, context.Context) error) {
	c.Helper()
	must(c, c.lease.Adjust(limiter.Tokens("rpm", adjust)))
	must(c, end(c.lease, context.Background()))
}

func warmUpEntity(entity string) func(*costs) {
	return func(c *costs) { c.charge(0, entity, 1, true) }
}

var costPaths = []costPath{
	{"acquire, warm, plain", "1 write", warmUpEntity("alice"), func(c *costs) { c.charge(0, "alice", 1, true) }},
	{"acquire, warm, locked (refills)", "1 write", warmUpEntity("alice"), func(c *costs) { c.charge(30*time.Second, "alice", 1, true) }},
	{"acquire, refused, then accepted", "2 writes", func(c *costs) {
		c.charge(0, "alice", 1, true)
		consume(c, c.other, 30*time.Second, chargeOf("alice", 50), true)
	}, func(c *costs) { c.charge(50*time.Second, "alice", 10, true) }},
	{"acquire, cannot fit", "0", warmUpEntity("alice"), func(c *costs) { c.charge(0, "alice", 60, false) }},
	{"acquire, cannot fit, remembered", "0", func(c *costs) {
		c.charge(0, "alice", 1, true)
		c.charge(0, "alice", 60, false)
	}, func(c *costs) { c.charge(0, "alice", 60, false) }},
	{"acquire, brand-new bucket", "1 write", nil, func(c *costs) { c.charge(0, "alice", 1, true) }},
	{"acquire, unknown bucket", "1 write", func(c *costs) {
		consume(c, c.other, 0, chargeOf("alice", 1), true)
	}, func(c *costs) { c.charge(0, "alice", 1, true) }},
	{"acquire, facts older than a minute", "1 write, 1 read", warmUpEntity("alice"), func(c *costs) { c.charge(time.Minute, "alice", 1, true) }},
	{"cascade, warm", "2 writes", warmUpEntity("key"), func(c *costs) { c.charge(0, "key", 1, true) }},
	{"cascade, both brand-new", "4 writes", nil, func(c *costs) { c.charge(0, "key", 1, true) }},
	{"commit without change", "0", func(c *costs) { c.acquire("alice") }, func(c *costs) { c.settle(0, (*limiter.Lease).Commit) }},
	{"commit of more or less", "1 write", func(c *costs) { c.acquire("alice") }, func(c *costs) { c.settle(-1, (*limiter.Lease).Commit) }},
	{"rollback", "1 write", func(c *costs) { c.acquire("alice") }, func(c *costs) { c.settle(0, (*limiter.Lease).Rollback) }},
}

// measured is what a path costs: its name, requests, read and write units.
func (p costPath) measure(t *testing.T) string {
	t.Helper()
	table, m := dynamotest.NewTable(t), &meter{next: dynamotest.Transport}
	c := &costs{TB: t, other: dynamotest.Connect(t, table, nil)}
	setDefaults(t, c.other, perMinute60)
	createChild(t, c.other, "key", "project")
	cfg := dynamotest.Config(dynamotest.Endpoint(t))
	cfg.HTTPClient = &http.Client{Transport: m}
	c.repo = dynamotest.Connect(t, table, &dynamo.Options{AWS: cfg})
	if p.prepare != nil {
		p.prepare(c)
	}
	m.requests, m.refused, m.reads, m.writes = 0, 0, 0, 0
	p.run(c)
	return fmt.Sprintf("| %s | %d | %g | %g |", p.name, m.requests, m.reads, m.writes)
}

// TestCostTableIsTrue measures what the docs say a path costs: rows D-1 and D-2,
// refusals that are billed and the index that every write pays for too.
func TestCostTableIsTrue(t *testing.T) {
	plain := "| path | requests | read units | write units |\n|---|---|---|---|\n"
	compared := "| path | requests | read units | write units | the reference's documents |\n|---|---|---|---|---|\n"
	for _, p := range costPaths {
		row := p.measure(t)
		plain += row + "\n"
		compared += row + " " + p.claimed + " |\n"
	}
	checkTable(t, "../docs/dynamodb.md", compared)
	checkTable(t, "../docs/operations.md", plain)
}

// correct compares the table of costs on a page.
func checkTable(t *testing.T, page, table string) {
	t.Helper()
	const begin, end = "<!-- costs: measured by TestCostTableIsTrue -->\n", "<!-- end of costs -->"
	doc, err := os.ReadFile(page)
	must(t, err)
	head, rest, found := strings.Cut(string(doc), begin)
	said, tail, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Errorf("%s has no table of costs", page)
	case said == table:
	case *updateDocs:
		must(t, os.WriteFile(page, []byte(head+begin+table+end+tail), 0o644))
	default:
		t.Errorf("%s says\n%s, but it is\n%s; go test ./dynamo -run %s -update corrects it", page, said, table, t.Name())
	}
}
