package dynamotest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// operation is the name of what a request asks for, such as "UpdateItem".
func Operation(h http.Header) string {
	_, op, _ := strings.Cut(h.Get("X-Amz-Target"), ".")
	return op
}

// sentRequest is one attempt, as the network sees it. Begin and end are places
// in the order of all beginnings and ends; end is 0 while it runs.
type Request struct {
	op         string
	begin, end int
	size       int64
}

// counter is an [http.RoundTripper] that records what passes, retries included.
type Counter struct {
	next     http.RoundTripper
	patience time.Duration // how long a gathering waits for requests that do not come

	mu         sync.Mutex
	clock      int
	log        []*Request
	gatherings []*gathering
	capacity   float64
}

// gathering holds requests until all of them have come.
type gathering struct {
	missing int
	full    chan struct{}
}

// newCounter counts the requests of clients that are made from its config.
func NewCounter() *Counter {
	return &Counter{next: Transport, patience: 10 * time.Second}
}

// config is awsConfig by way of the counter.
func (c *Counter) Config(endpoint string) *aws.Config {
	cfg := Config(endpoint)
	cfg.HTTPClient = &http.Client{Transport: c}
	return cfg
}

// Reset forgets the requests so far and what Together said.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log, c.gatherings, c.capacity = nil, nil, 0
}

// Together says how many requests are expected at the same time: the first n
// are sent once all of them were made, then the next, and later ones at once.
// So requests that are made concurrently overlap on every machine. If some do
// not come, the others go after a while, and RoundTrips tells.
func (c *Counter) Together(sizes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range sizes {
		c.gatherings = append(c.gatherings, &gathering{missing: n, full: make(chan struct{})})
	}
}

// Log is every request so far in the order in which they began.
func (c *Counter) Log() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := make([]Request, 0, len(c.log))
	for _, r := range c.log {
		log = append(log, *r)
	}
	return log
}

// Requests are the operations in the order in which they began.
func (c *Counter) Requests() []string {
	ops := []string{}
	for _, r := range c.Log() {
		ops = append(ops, r.op)
	}
	return ops
}

// RoundTrips is how many requests had to wait for another one: see roundTrips.
func (c *Counter) RoundTrips() int { return roundTrips(c.Log()) }

// Capacity sums the units in replies to requests that asked for them.
func (c *Counter) Capacity() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capacity
}

// roundTrips is the length of the longest chain of requests of which each began
// after the one before had ended: what the caller waits for. A request belongs
// to the current round trip if it began before any other of it had ended.
func roundTrips(log []Request) int {
	trips, firstEnd := 0, -1
	for _, r := range log {
		if trips == 0 || firstEnd > 0 && r.begin > firstEnd {
			trips, firstEnd = trips+1, r.end
		} else if r.end > 0 && (firstEnd == 0 || r.end < firstEnd) {
			firstEnd = r.end
		}
	}
	return trips
}

// RoundTrip ends when the reply was read whole.
func (c *Counter) RoundTrip(req *http.Request) (*http.Response, error) {
	r, g := c.begin(req)
	defer c.end(r)
	if err := c.gather(req.Context(), g); err != nil {
		return nil, closing(req.Body, err)
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, closing(resp.Body, err)
	}
	c.charge(body)
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func closing(body io.Closer, err error) error {
	if body != nil {
		_ = body.Close() // err is the reason, this would be its consequence
	}
	return err
}

func (c *Counter) begin(req *http.Request) (*Request, *gathering) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	r := &Request{op: Operation(req.Header), begin: c.clock, size: req.ContentLength}
	c.log = append(c.log, r)
	if len(c.gatherings) == 0 {
		return r, nil
	}
	g := c.gatherings[0]
	if g.missing--; g.missing <= 0 {
		c.gatherings = c.gatherings[1:]
		close(g.full)
	}
	return r, g
}

func (c *Counter) end(r *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	r.end = c.clock
}

func (c *Counter) gather(ctx context.Context, g *gathering) error {
	if g == nil {
		return nil
	}
	late := time.NewTimer(c.patience)
	defer late.Stop()
	select {
	case <-g.full:
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		c.giveUp(g)
	}
	return nil
}

func (c *Counter) giveUp(g *gathering) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.gatherings) > 0 && c.gatherings[0] == g {
		c.gatherings = c.gatherings[1:]
		close(g.full)
	}
}

// charge reads both forms, that of one table and the list of batches. Replies
// of other shapes, such as errors, cost nothing.
func (c *Counter) charge(body []byte) {
	type units struct{ CapacityUnits float64 }
	var one struct{ ConsumedCapacity units }
	var many struct{ ConsumedCapacity []units }
	if json.Unmarshal(body, &one) == nil {
		many.ConsumedCapacity = []units{one.ConsumedCapacity}
	} else if json.Unmarshal(body, &many) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range many.ConsumedCapacity {
		c.capacity += u.CapacityUnits
	}
}
