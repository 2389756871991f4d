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

// Operation returns the operation of a request, such as "UpdateItem".
func Operation(h http.Header) string {
	_, op, _ := strings.Cut(h.Get("X-Amz-Target"), ".")
	return op
}

// Request is one attempt on the wire. Begin and end are positions in the order
// of all beginnings and ends; end is 0 while the request runs.
type Request struct {
	op         string
	begin, end int
	size       int64
}

// Counter is an [http.RoundTripper] that records requests, retries included.
type Counter struct {
	next     http.RoundTripper
	patience time.Duration // the timeout of a gathering

	mu         sync.Mutex
	clock      int
	log        []*Request
	gatherings []*gathering
	capacity   float64
}

// gathering holds requests until all of them were made.
type gathering struct {
	missing int
	full    chan struct{}
}

// NewCounter returns a counter for the clients that are made from its Config.
func NewCounter() *Counter {
	return &Counter{next: Transport, patience: 10 * time.Second}
}

// Config returns the AWS config of an endpoint with the counter as its
// transport.
func (c *Counter) Config(endpoint string) *aws.Config {
	cfg := Config(endpoint)
	cfg.HTTPClient = &http.Client{Transport: c}
	return cfg
}

// Reset forgets the recorded requests and pending gatherings.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log, c.gatherings, c.capacity = nil, nil, 0
}

// Together sets how many requests are expected at the same time: the first n are
// sent once all of them were made, then the next, and later ones at once.
// Concurrent requests then overlap on every machine. If some are never made, the
// others are sent after a while, and RoundTrips shows it.
func (c *Counter) Together(sizes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range sizes {
		c.gatherings = append(c.gatherings, &gathering{missing: n, full: make(chan struct{})})
	}
}

// Log returns the requests in the order in which they began.
func (c *Counter) Log() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := make([]Request, 0, len(c.log))
	for _, r := range c.log {
		log = append(log, *r)
	}
	return log
}

// Requests returns the operations in the order in which they began.
func (c *Counter) Requests() []string {
	ops := []string{}
	for _, r := range c.Log() {
		ops = append(ops, r.op)
	}
	return ops
}

// RoundTrips returns the length of the longest chain of requests; see
// roundTrips.
func (c *Counter) RoundTrips() int { return roundTrips(c.Log()) }

// Capacity returns the sum of the capacity units in the replies.
func (c *Counter) Capacity() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capacity
}

// roundTrips returns the length of the longest chain of requests in which each
// began after the previous one had ended: the time that a caller waits. A
// request belongs to the current round trip if it began before any other request
// of it had ended.
func roundTrips(log []Request) int {
	// In firstEnd, 0 means that no request of the round trip has ended.
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

// RoundTrip sends a request and reads the whole reply.
func (c *Counter) RoundTrip(req *http.Request) (*http.Response, error) {
	r, g := c.begin(req)
	defer c.end(r)

	if err := c.gather(req.Context(), g); err != nil {
		// A RoundTripper has to close the body even if it sends nothing.
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

	// Reading the whole body counts its transfer into the time of the request.
	c.charge(body)

	if err := resp.Body.Close(); err != nil {
		return nil, err
	}

	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func closing(body io.Closer, err error) error {
	if body != nil {
		_ = body.Close() // err is the cause
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
	// A request that never comes must not block the others for good.
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

// charge adds the capacity of a reply, which is one object or, for batches, a
// list. Other replies, such as errors, cost nothing.
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
