package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
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
	lean bool // the index by resource holds keys only

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
		m.writes += m.transactionUnits(asked)
	case "Query":
		m.reads += one.CapacityUnits
	case read, get:
		units := 0.5
		if bytes.Contains(asked, []byte(`"ConsistentRead":true`)) {
			units = 1
		}
		m.reads += units * float64(bytes.Count(asked, []byte(`"SK":`))) // the service also bills keys without an item
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
// changed one, or none if the indexes hold only keys.
func (m *meter) transactionUnits(asked []byte) float64 {
	made, changed := 2+2, 2+1
	if m.lean {
		changed = 2
	}
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
	table       string
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
	c.lease, err = lim.Acquire(context.Background(), limiter.Request{
		Entity: entity, Resource: model, Consume: limiter.Tokens("rpm", 2),
	})
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
	{"acquire, warm, locked (refills)", "1 write", warmUpEntity("alice"), func(c *costs) {
		c.charge(30*time.Second, "alice", 1, true)
	}},
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
	{"acquire, facts older than a minute", "1 write, 1 read", warmUpEntity("alice"), func(c *costs) {
		c.charge(time.Minute, "alice", 1, true)
	}},
	{"cascade, warm", "2 writes", warmUpEntity("key"), func(c *costs) { c.charge(0, "key", 1, true) }},
	{"cascade, both brand-new", "4 writes", nil, func(c *costs) { c.charge(0, "key", 1, true) }},
	{"commit without change", "0", func(c *costs) {
		c.acquire("alice")
	}, func(c *costs) { c.settle(0, (*limiter.Lease).Commit) }},
	{"commit of more or less", "1 write", func(c *costs) {
		c.acquire("alice")
	}, func(c *costs) { c.settle(-1, (*limiter.Lease).Commit) }},
	{"rollback", "1 write", func(c *costs) { c.acquire("alice") }, func(c *costs) {
		c.settle(0, (*limiter.Lease).Rollback)
	}},
}

// reset forgets what was measured.
func (m *meter) reset() { m.requests, m.refused, m.reads, m.writes = 0, 0, 0, 0 }

// newCosts returns an empty table with limits, and the meter of its process.
func newCosts(t *testing.T, lean bool) (*costs, *meter) {
	t.Helper()
	table, m := dynamotest.NewTable, &meter{next: dynamotest.Transport, lean: lean}
	if lean {
		table = dynamotest.NewLeanTable
	}
	name := table(t)
	c := &costs{TB: t, table: name, other: dynamotest.Connect(t, name, nil)}
	setDefaults(t, c.other, perMinute60)
	cfg := dynamotest.Config(dynamotest.Endpoint(t))
	cfg.HTTPClient = &http.Client{Transport: m}
	c.repo = dynamotest.Connect(t, name, &dynamo.Options{AWS: cfg})
	return c, m
}

// measure runs a path on a new table.
func (p costPath) measure(t *testing.T, lean bool) *meter {
	t.Helper()
	c, m := newCosts(t, lean)
	createChild(t, c.other, "key", "project")
	if p.prepare != nil {
		p.prepare(c)
	}
	m.reset()
	p.run(c)
	return m
}

// row returns the rows of a path: its name, requests, read units and write units,
// and the write units with a lean index, which changes nothing else; and the same
// with the prices of a million calls.
func (p costPath) row(t *testing.T) (units, dollars string) {
	t.Helper()
	full, lean := p.measure(t, false), p.measure(t, true)
	if full.requests != lean.requests || full.reads != lean.reads {
		t.Errorf("%s: %d requests and %g reads, with a lean index %d and %g", p.name, full.requests, full.reads,
			lean.requests, lean.reads)
	}
	units = fmt.Sprintf("| %s | %d | %g | %g | %g |", p.name, full.requests, full.reads, full.writes, lean.writes)
	return units, fmt.Sprintf("| %s | %d | %g | %g | %.3f | %g | %.3f |", p.name, full.requests, full.reads,
		full.writes, full.price(), lean.writes, lean.price())
}

// Prices of a million units in dollars, which docs/operate/cost.md assumes.
const readPrice, writePrice = 0.125, 0.625

// price returns what a million calls with the measured units cost.
func (m *meter) price() float64 { return m.reads*readPrice + m.writes*writePrice }

// TestCostTableIsTrue compares the costs in the docs with measured ones (D-1 and
// D-2), including billed refusals and the index of every write.
func TestCostTableIsTrue(t *testing.T) {
	t.Parallel()
	priced := "| path | requests | read units | write units | $ per million | lean: write units | lean: $ " +
		"per million |\n|---|---|---|---|---|---|---|\n"
	compared := "| path | requests | read units | write units | with a lean index | the reference's " +
		"documents |\n|---|---|---|---|---|---|\n"
	for _, p := range costPaths {
		units, dollars := p.row(t)
		priced += dollars + "\n"
		compared += units + " " + p.claimed + " |\n"
	}
	checkTable(t, "../docs/dynamodb.md", "costs", compared)
	checkTable(t, "../docs/operate/cost.md", "costs", priced)
}

// listed is the number of buckets and of snapshots that TestReadTableIsTrue lists.
const listed = 100

// TestReadTableIsTrue compares the costs of listings in the docs with measured
// ones.
func TestReadTableIsTrue(t *testing.T) {
	t.Parallel()
	table := "| listing | requests | read units | lean: requests | lean: read units |\n|---|---|---|---|---|\n"
	full, lean := measureListings(t, false), measureListings(t, true)
	for i, l := range listings() {
		table += fmt.Sprintf("| %d %s | %s | %s |\n", listed, l.name, full[i], lean[i])
	}
	checkTable(t, "../docs/dynamodb.md", "reads", table)
}

// measuredListing reads everything and returns how many there are.
type measuredListing struct {
	name string
	read func(*costs) int
}

func listings() []measuredListing {
	return []measuredListing{
		{"buckets of a resource", func(c *costs) int {
			return count(c, c.repo.Buckets(context.Background(), start, limiter.Scope{Resource: model}))
		}},
		{"usage snapshots of a resource", func(c *costs) int {
			return count(c, c.repo.Usage(context.Background(), limiter.UsageQuery{Resource: model}))
		}},
		{"buckets, as a page", func(c *costs) int {
			page, err := c.repo.BucketPage(context.Background(), start, limiter.BucketQuery{})
			must(c, err)
			return len(page.Buckets)
		}},
		{"buckets, by key", func(c *costs) int {
			var keys []limiter.Scope
			for i := range listed {
				keys = append(keys, limiter.Scope{Entity: fmt.Sprintf("e-%03d", i), Resource: model})
			}
			found, err := c.repo.BucketsAt(context.Background(), start, keys)
			must(c, err)
			return len(found)
		}},
	}
}

func count[T any](tb testing.TB, all iter.Seq2[T, error]) (n int) {
	tb.Helper()
	for _, err := range all {
		must(tb, err)
		n++
	}
	return n
}

// measureListings measures each listing by a process that knows the limits: its
// requests and read units.
func measureListings(t *testing.T, lean bool) (measured []string) {
	t.Helper()
	c, m := newCosts(t, lean)
	var items []dynamotest.Item
	for i := range listed {
		entity := fmt.Sprintf("e-%03d", i)
		consume(t, c.other, 0, chargeOf(entity, 1), true)
		items = append(items, snapshotOf(c.other.NamespaceID(), entity, 0))
	}
	writeItems(t, c.table, items)
	c.repo.StopClock()
	for _, l := range listings() {
		for range 2 {
			m.reset()
			if n := l.read(c); n != listed {
				t.Errorf("%d %s, want %d", n, l.name, listed)
			}
		}
		measured = append(measured, fmt.Sprintf("%d | %g", m.requests, m.reads))
	}
	return measured
}

// checkTable compares a table of costs on a page, or rewrites it with -update.
func checkTable(t *testing.T, page, name, table string) {
	t.Helper()
	begin, end := fmt.Sprintf("<!-- %s: measured by %s -->\n", name, t.Name()), fmt.Sprintf("<!-- end of %s -->", name)
	doc, err := os.ReadFile(page)
	must(t, err)
	head, rest, found := strings.Cut(string(doc), begin)
	said, tail, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Errorf("%s has no table of %s", page, name)
	case said == table:
	case *updateDocs:
		must(t, os.WriteFile(page, []byte(head+begin+table+end+tail), 0o644))
	default:
		t.Errorf("%s says\n%s, but it is\n%s; go test ./dynamo -run %s -update corrects it", page, said, table,
			t.Name())
	}
}
