package dynamotest

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

// Plan returns the fault for a request. The proxy calls it once for each
// request, on a goroutine of its own. It may block.
type Plan func(op string, body []byte) Fault

// Fault is an event on the way to the engine and back.
type Fault struct {
	Name string
	Act  func(*Exchange)
}

// The faults.
var (
	// Pass forwards the request and its reply.
	Pass = Fault{Name: "pass", Act: func(x *Exchange) { x.Answer(x.Execute(x.Body)) }}
	// ResetBefore resets the connection; the engine never receives the request.
	ResetBefore = Fault{Name: "resetBefore", Act: (*Exchange).Reset}
	// DropReply resets the connection after the engine executed the request.
	DropReply = Fault{Name: "dropReply", Act: func(x *Exchange) { x.Execute(x.Body); x.Reset() }}
	// Fail500 replies with an internal error; the engine never receives the request.
	Fail500 = Fault{Name: "fail500", Act: func(x *Exchange) { x.Answer(InternalError()) }}
	// Fail500After replies with an internal error after the engine executed the
	// request.
	Fail500After = Fault{Name: "fail500After", Act: func(x *Exchange) { x.Execute(x.Body); x.Answer(InternalError()) }}
	// Throttle replies that the throughput was exceeded.
	Throttle = Fault{Name: "throttle", Act: func(x *Exchange) { x.Answer(throttled()) }}
	// Conflict replies with a transaction conflict: an error of its own for the
	// write of one item, a cancellation reason for a transaction.
	Conflict = Fault{Name: "conflict", Act: func(x *Exchange) { x.Answer(conflicted(x.Body)) }}
	// Hang lasts until the client gives up; the engine never receives the request.
	Hang = Fault{Name: "hang", Act: func(x *Exchange) { x.wait(nil); x.Reset() }}
	// HangAfter is Hang after the engine executed the request.
	HangAfter = Fault{Name: "hangAfter", Act: func(x *Exchange) { x.Execute(x.Body); x.wait(nil); x.Reset() }}
	// Unprocessed executes half of a batch, at least one request of each table, and
	// returns the rest as unprocessed.
	Unprocessed = Fault{Name: "unprocessed", Act: (*Exchange).halve}
)

// Delay returns a fault that delays the request. If the client gives up
// meanwhile, the engine never receives it.
func Delay(latency time.Duration) Fault {
	return Fault{Name: "delay", Act: func(x *Exchange) {
		timer := time.NewTimer(latency)
		defer timer.Stop()

		if x.wait(timer.C) {
			x.Answer(x.Execute(x.Body))
		} else {
			x.Reset()
		}
	}}
}

// Always returns a plan with one fault for all requests.
func Always(f Fault) Plan {
	return func(string, []byte) Fault { return f }
}

// First returns a plan with a fault for the first n requests of an operation.
func First(n int, op string, f Fault) Plan {
	var mu sync.Mutex
	return func(asked string, _ []byte) Fault {
		mu.Lock()
		defer mu.Unlock()

		if asked != op || n <= 0 {
			return Pass
		}
		n--
		return f
	}
}

// Proxy forwards requests to the engine and injects faults.
type Proxy struct {
	URL string

	tb      testing.TB
	engine  string
	stopped context.Context

	mu       sync.Mutex
	plan     Plan
	did      map[string]int
	executed map[string]int
}

// NewProxy starts a proxy that runs until the end of the test. A nil plan
// forwards everything.
func NewProxy(tb testing.TB, plan Plan) *Proxy {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &Proxy{tb: tb, engine: Endpoint(tb), stopped: ctx, did: make(map[string]int), executed: make(map[string]int)}

	p.SetPlan(plan)
	server := httptest.NewServer(p)
	p.URL = server.URL
	// A request that hangs would keep Close waiting, so stop ends it first.
	tb.Cleanup(func() {
		stop()
		server.Close()
	})
	return p
}

// SetPlan replaces the plan for later requests.
func (p *Proxy) SetPlan(plan Plan) {
	if plan == nil {
		plan = Always(Pass)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Count returns how many requests met the fault.
func (p *Proxy) Count(f Fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.did[f.Name]
}

// Executed returns how many requests of an operation the engine answered.
func (p *Proxy) Executed(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.executed[op]
}

// ServeHTTP handles a request by the plan.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}

	x := &Exchange{p: p, TB: p.tb, w: w, r: r, op: Operation(r.Header), Body: body}
	// The plan may block until another request has come, so it runs without the
	// lock.
	p.mu.Lock()
	plan := p.plan
	p.mu.Unlock()

	f := plan(x.op, body)

	p.mu.Lock()
	p.did[f.Name]++
	p.mu.Unlock()
	f.Act(x)
}

// Exchange is a request that the proxy holds.
type Exchange struct {
	p    *Proxy
	TB   testing.TB
	w    http.ResponseWriter
	r    *http.Request
	op   string
	Body []byte
}

// Reply is a response of the engine, real or made up.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Execute sends a request to the engine and waits for the reply, even if the
// client has left.
func (x *Exchange) Execute(body []byte) Reply {
	reply, err := x.forward(body)
	if err != nil {
		// At the end of the test the engine may go first.
		if x.p.stopped.Err() == nil {
			x.TB.Errorf("proxy: %s does not get through to the engine: %v", x.op, err)
		}
		return InternalError()
	}

	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.p.executed[x.op]++
	return reply
}

func (x *Exchange) forward(body []byte) (Reply, error) {
	// The context of the request ends with the client, and the engine has to
	// answer all the same.
	req, err := http.NewRequestWithContext(x.p.stopped, x.r.Method, x.p.engine+x.r.URL.RequestURI(),
		bytes.NewReader(body))
	if err != nil {
		return Reply{}, err
	}

	req.Header, req.Host = x.r.Header.Clone(), x.r.Host

	resp, err := Transport.RoundTrip(req)
	if err != nil {
		return Reply{}, err
	}

	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, resp.Header, got}, err
}

// Answer sends the reply with the length and checksum that clients verify.
func (x *Exchange) Answer(reply Reply) {
	maps.Copy(x.w.Header(), reply.Header)
	x.w.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
	x.w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(reply.Body)), 10))
	x.w.WriteHeader(reply.Status)
	_, _ = x.w.Write(reply.Body) // a client that is gone needs no answer
}

// Reset resets the connection: the client reads an error, not an end.
func (x *Exchange) Reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		// Without the connection, the panic makes the server close it.
		panic(http.ErrAbortHandler)
	}

	// With SO_LINGER 0, Close sends a reset.
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// wait reports whether the time came before the client or the test ended.
func (x *Exchange) wait(until <-chan time.Time) bool {
	select {
	case <-until:
		return true
	case <-x.r.Context().Done():
	case <-x.p.stopped.Done():
	}
	return false
}

// Failure returns an error reply. Members are the JSON members after its type.
func Failure(status int, kind, members string) Reply {
	return Reply{
		Status: status,
		Header: http.Header{
			"Content-Type":     {"application/x-amz-json-1.0"},
			"X-Amzn-Requestid": {"made-up-by-the-proxy"},
		},
		Body: fmt.Appendf(nil, `{"__type":"com.amazonaws.dynamodb.v20120810#%s",%s}`, kind, members),
	}
}

// InternalError returns the reply of an internal server error.
func InternalError() Reply {
	return Failure(http.StatusInternalServerError, "InternalServerError", `"message":"Internal server error"`)
}

func throttled() Reply {
	return Failure(http.StatusBadRequest, "ProvisionedThroughputExceededException",
		`"message":"The level of configured provisioned throughput for the table was exceeded."`)
}

func conflicted(body []byte) Reply {
	const text = "Transaction is ongoing for the item"
	var transaction struct{ TransactItems []json.RawMessage }
	if json.Unmarshal(body, &transaction) != nil || len(transaction.TransactItems) == 0 {
		return Failure(http.StatusBadRequest, "TransactionConflictException", `"message":"`+text+`"`)
	}

	// A cancelled transaction has a reason for each of its items.
	reasons := `{"Code":"TransactionConflict","Message":"` + text + `"}` +
		strings.Repeat(`,{"Code":"None"}`, len(transaction.TransactItems)-1)
	return Failure(http.StatusBadRequest, "TransactionCanceledException",
		`"Message":"Transaction cancelled [TransactionConflict]","CancellationReasons":[`+reasons+`]`)
}

// leftover maps a batch operation to the reply member with the unprocessed part.
var leftover = map[string]string{"BatchGetItem": "UnprocessedKeys", "BatchWriteItem": "UnprocessedItems"}

func (x *Exchange) halve() {
	now, later, err := halved(x.op, x.Body)
	if err != nil {
		x.TB.Errorf("proxy: unprocessed %s: %v", x.op, err)
		x.Answer(InternalError())
		return
	}

	reply := x.Execute(now)
	if reply.Status == http.StatusOK {
		if reply.Body, err = WithMember(reply.Body, leftover[x.op], later); err != nil {
			x.TB.Errorf("proxy: reply to %s: %v", x.op, err)
		}
	}

	x.Answer(reply)
}

// halved splits a batch into the body to send now and the rest of each table.
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

	now, err = WithMember(body, "RequestItems", in.RequestItems)
	return now, later, err
}

// halvedTable splits the requests of a table. The end is nil if one request is
// all. Writes are a list. Keys to get are a member beside others, such as
// ConsistentRead, that both parts need.
func halvedTable(op string, requests json.RawMessage) (begin, end json.RawMessage, err error) {
	var list []json.RawMessage
	wrap := func(part []json.RawMessage) (json.RawMessage, error) { return json.Marshal(part) }
	if op == "BatchGetItem" {
		var in struct{ Keys []json.RawMessage }
		err = json.Unmarshal(requests, &in)
		list = in.Keys
		wrap = func(part []json.RawMessage) (json.RawMessage, error) { return WithMember(requests, "Keys", part) }
	} else {
		err = json.Unmarshal(requests, &list)
	}
	if err != nil {
		return nil, nil, err
	}

	// The first half is the larger one, so that every try makes progress.
	n := (len(list) + 1) / 2
	if begin, err = wrap(list[:n]); err != nil || n == len(list) {
		return begin, nil, err
	}

	end, err = wrap(list[n:])
	return begin, end, err
}

// WithMember returns a JSON object with one member replaced.
func WithMember(object []byte, name string, value any) (json.RawMessage, error) {
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
