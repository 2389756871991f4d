package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// plan says what happens to a request. It is called once for each, on a
// goroutine of its own, and may block as long as the test lets it go on.
type plan func(op string, body []byte) fault

// fault is one thing that can happen on the way to the engine and back.
type fault struct {
	name string
	act  func(*exchange)
}

var (
	pass        = fault{"pass", func(x *exchange) { x.answer(x.execute(x.body)) }}
	resetBefore = fault{"resetBefore", (*exchange).reset}
	// dropReply is carried out by the engine; the client learns nothing.
	dropReply = fault{"dropReply", func(x *exchange) { x.execute(x.body); x.reset() }}
	fail500   = fault{"fail500", func(x *exchange) { x.answer(internalError()) }}
	// fail500After is carried out by the engine; the client is told that it failed.
	fail500After = fault{"fail500After", func(x *exchange) { x.execute(x.body); x.answer(internalError()) }}
	throttle     = fault{"throttle", func(x *exchange) { x.answer(throttled()) }}
	// conflict is in the form that the operation has for it: writes of one item
	// have an error of their own, transactions give it as a reason.
	conflict = fault{"conflict", func(x *exchange) { x.answer(conflicted(x.body)) }}
	// hang lasts until the client gives up, and the engine never sees the request.
	hang = fault{"hang", func(x *exchange) { x.wait(nil); x.reset() }}
	// hangAfter is hang, but the engine carried the request out.
	hangAfter = fault{"hangAfter", func(x *exchange) { x.execute(x.body); x.wait(nil); x.reset() }}
	// unprocessed carries out half of a batch, at least one of each table, and
	// gives the rest back.
	unprocessed = fault{"unprocessed", (*exchange).halve}
)

// delay is latency on the way to the engine, which never sees the request of a
// client that gave up meanwhile.
func delay(latency time.Duration) fault {
	return fault{"delay", func(x *exchange) {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		if x.wait(timer.C) {
			x.answer(x.execute(x.body))
		} else {
			x.reset()
		}
	}}
}

// always is the plan with one fault for everything.
func always(f fault) plan {
	return func(string, []byte) fault { return f }
}

// first is the plan with a fault for the first n requests of an operation.
func first(n int, op string, f fault) plan {
	var mu sync.Mutex
	return func(asked string, _ []byte) fault {
		mu.Lock()
		defer mu.Unlock()
		if asked != op || n <= 0 {
			return pass
		}
		n--
		return f
	}
}

// proxy stands between a client and the engine.
type proxy struct {
	URL string

	tb      testing.TB
	engine  string
	stopped context.Context

	mu       sync.Mutex
	plan     plan
	did      map[string]int
	executed map[string]int
}

// newProxy runs until the end of the test. A nil plan lets everything pass.
func newProxy(tb testing.TB, plan plan) *proxy {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &proxy{tb: tb, engine: engine(tb), stopped: ctx, did: make(map[string]int), executed: make(map[string]int)}
	p.Plan(plan)
	server := httptest.NewServer(p)
	p.URL = server.URL
	tb.Cleanup(func() {
		stop()
		server.Close()
	})
	return p
}

// Plan is what happens to requests from now on.
func (p *proxy) Plan(plan plan) {
	if plan == nil {
		plan = always(pass)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Did is how many requests met the fault.
func (p *proxy) Did(f fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.did[f.name]
}

// Executed is how many requests of an operation the engine answered.
func (p *proxy) Executed(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.executed[op]
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	x := &exchange{p: p, w: w, r: r, op: operation(r.Header), body: body}
	p.mu.Lock()
	plan := p.plan
	p.mu.Unlock()
	f := plan(x.op, body)
	p.mu.Lock()
	p.did[f.name]++
	p.mu.Unlock()
	f.act(x)
}

// exchange is one request in the proxy's hands.
type exchange struct {
	p    *proxy
	w    http.ResponseWriter
	r    *http.Request
	op   string
	body []byte
}

type wireReply struct {
	status int
	header http.Header
	body   []byte
}

// execute has the engine carry out a request to its end, whether or not the
// client still waits.
func (x *exchange) execute(body []byte) wireReply {
	reply, err := x.forward(body)
	if err != nil {
		if x.p.stopped.Err() == nil {
			x.p.tb.Errorf("proxy: %s does not get through to the engine: %v", x.op, err)
		}
		return internalError()
	}
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.p.executed[x.op]++
	return reply
}

func (x *exchange) forward(body []byte) (wireReply, error) {
	req, err := http.NewRequestWithContext(x.p.stopped, x.r.Method, x.p.engine+x.r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return wireReply{}, err
	}
	req.Header, req.Host = x.r.Header.Clone(), x.r.Host
	resp, err := wires.RoundTrip(req)
	if err != nil {
		return wireReply{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return wireReply{resp.StatusCode, resp.Header, got}, err
}

// answer gives the reply the length and checksum that clients verify.
func (x *exchange) answer(reply wireReply) {
	maps.Copy(x.w.Header(), reply.header)
	x.w.Header().Set("Content-Length", strconv.Itoa(len(reply.body)))
	x.w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(reply.body)), 10))
	x.w.WriteHeader(reply.status)
	_, _ = x.w.Write(reply.body) // a client that is gone needs no answer
}

// reset ends the connection the hard way: the client reads an error, not an end.
func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// wait is true when the time came, false when the client or the test went away.
func (x *exchange) wait(until <-chan time.Time) bool {
	select {
	case <-until:
		return true
	case <-x.r.Context().Done():
	case <-x.p.stopped.Done():
	}
	return false
}

func failure(status int, kind, members string) wireReply {
	return wireReply{
		status: status,
		header: http.Header{
			"Content-Type":     {"application/x-amz-json-1.0"},
			"X-Amzn-Requestid": {"made-up-by-the-proxy"},
		},
		body: fmt.Appendf(nil, `{"__type":"com.amazonaws.dynamodb.v20120810#%s",%s}`, kind, members),
	}
}

func internalError() wireReply {
	return failure(http.StatusInternalServerError, "InternalServerError", `"message":"Internal server error"`)
}

func throttled() wireReply {
	return failure(http.StatusBadRequest, "ProvisionedThroughputExceededException",
		`"message":"The level of configured provisioned throughput for the table was exceeded."`)
}

func conflicted(body []byte) wireReply {
	const text = "Transaction is ongoing for the item"
	var transaction struct{ TransactItems []json.RawMessage }
	if json.Unmarshal(body, &transaction) != nil || len(transaction.TransactItems) == 0 {
		return failure(http.StatusBadRequest, "TransactionConflictException", `"message":"`+text+`"`)
	}
	reasons := `{"Code":"TransactionConflict","Message":"` + text + `"}` +
		strings.Repeat(`,{"Code":"None"}`, len(transaction.TransactItems)-1)
	return failure(http.StatusBadRequest, "TransactionCanceledException",
		`"Message":"Transaction cancelled [TransactionConflict]","CancellationReasons":[`+reasons+`]`)
}

// leftover is the member of a batch's reply that names what was not done.
var leftover = map[string]string{"BatchGetItem": "UnprocessedKeys", "BatchWriteItem": "UnprocessedItems"}

func (x *exchange) halve() {
	now, later, err := halved(x.op, x.body)
	if err != nil {
		x.p.tb.Errorf("proxy: unprocessed %s: %v", x.op, err)
		x.answer(internalError())
		return
	}
	reply := x.execute(now)
	if reply.status == http.StatusOK {
		if reply.body, err = withMember(reply.body, leftover[x.op], later); err != nil {
			x.p.tb.Errorf("proxy: reply to %s: %v", x.op, err)
		}
	}
	x.answer(reply)
}

// halved splits a batch into the body to send now and what is left of each table.
func halved(op string, body []byte) (now []byte, later map[string]json.RawMessage, err error) {
	var in struct{ RequestItems map[string]json.RawMessage }
	if leftover[op] == "" {
		return nil, nil, errors.New("it is not a batch")
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, nil, err
	}
	later = make(map[string]json.RawMessage)
	for table, requests := range in.RequestItems {
		begin, end, err := halvedTable(op, requests)
		if err != nil {
			return nil, nil, err
		}
		in.RequestItems[table] = begin
		if end != nil {
			later[table] = end
		}
	}
	now, err = withMember(body, "RequestItems", in.RequestItems)
	return now, later, err
}

// halvedTable has no end if there is nothing to leave. Writes are a list; keys
// to get are a member beside others, such as ConsistentRead, that both parts need.
func halvedTable(op string, requests json.RawMessage) (begin, end json.RawMessage, err error) {
	var list []json.RawMessage
	wrap := func(part []json.RawMessage) (json.RawMessage, error) { return json.Marshal(part) }
	if op == "BatchGetItem" {
		var in struct{ Keys []json.RawMessage }
		err = json.Unmarshal(requests, &in)
		list = in.Keys
		wrap = func(part []json.RawMessage) (json.RawMessage, error) { return withMember(requests, "Keys", part) }
	} else {
		err = json.Unmarshal(requests, &list)
	}
	if err != nil {
		return nil, nil, err
	}
	n := (len(list) + 1) / 2
	if begin, err = wrap(list[:n]); err != nil || n == len(list) {
		return begin, nil, err
	}
	end, err = wrap(list[n:])
	return begin, end, err
}

// withMember is a JSON object with one member replaced, the others as they are.
func withMember(object []byte, name string, value any) (json.RawMessage, error) {
	members := make(map[string]json.RawMessage)
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	members[name] = raw
	return json.Marshal(members)
}
