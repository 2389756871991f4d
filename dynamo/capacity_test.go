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

// meter requests the consumed capacity of every request and adds it up.
type meter struct {
	next http.RoundTripper

	mu            sync.Mutex
	requests      int
	refused       int // failed conditional writes, which are billed
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

// book adds the capacity in a reply.
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
		m.reads += float64(bytes.Count(asked, []byte(`"SK":`))) // the service also bills keys without an item
	default:
		for _, c := range all {
			m.writes += c.CapacityUnits
		}
	}
	return nil
}

// transactionUnits returns the write units by the rule of the service, which the
// local engine does not follow: an item is prepared and committed and counts
// twice; each index entry counts once, two for a new bucket and one for a
// changed one.
func transactionUnits(asked []byte) float64 {
	const made, changed = 2 + 2, 2 + 1
	return float64(made*bytes.Count(asked, []byte(`"Put":`)) + changed*bytes.Count(asked, []byte(`"Update":`)))
}

// costPath is a row of the table: the cost of a path, and the cost in the
// documents of the Python library.
type costPath struct {
	name, claimed string
	prepare       func(c *costs)
	run           func(c *costs)
}

// costs is a table with a metered process and another one.
type costs struct {
	testing.TB
	repo, other *dynamo.Repository
	lease       *limiter.Lease
}

func (c *costs) charge(d time.Duration, entity string, n int64, admitted bool) {
	c.Helper()
	consume(c, c.repo, d, chargeOf(entity, n), admitted)
}

// acquire takes a lease for settle.
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

// measure returns the row of a path: its name, requests, read units and write
// units.
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

// TestCostTableIsTrue compares the costs in the docs with measured ones (D-1 and
// D-2), including billed refusals and the index of every write.
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

// checkTable compares the table of costs on a page, or rewrites it with -update.
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
