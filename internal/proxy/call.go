package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/linger"
	"github.com/zeroae/zae-limiter-go/internal/listen"
	"github.com/zeroae/zae-limiter-go/llm"
)

// retryDrained is the Retry-After of a proxy that shuts down: another one may
// have taken over.
const retryDrained = time.Second

// discardBytes and discardTimeout bound what is read of a body after its refusal.
const (
	discardBytes   = 32 << 20
	discardTimeout = 2 * time.Second
)

// call is one request on its way through the proxy.
type call struct {
	proxy    *Proxy
	out      *statusWriter
	record   record
	request  *llm.Request // nil for a request that is not about a model
	lease    *llm.Lease   // nil until admitted
	addUsage bool         // the proxy asked for the usage of the stream
	hold     hold         // memory of the body
	placed   bool         // the call has a place among those under way
	written  atomic.Bool  // the whole request has been sent upstream, as far as the proxy knows
	settle   sync.Once
}

type callKey struct{}

// callOf returns the call of a request to the upstream.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// serve handles one request. Whatever happens, the lease has ended when it
// returns.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	out := &statusWriter{ResponseWriter: w}
	c := &call{proxy: p, out: out}
	c.record.begin(r, p.opts.Now())
	defer func() { c.record.write(r.Context(), p.opts.Log, p.opts.Now(), out) }() //nolint:contextcheck // the values of the request's context are for the logger

	if len(r.TransferEncoding) > 0 {
		// A server in front that goes by Content-Length, if there is one too, sees
		// the end of the request elsewhere. What follows must not count as another.
		w.Header().Set("Connection", "close")
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), callKey{}, c))
	defer cancel()
	defer context.AfterFunc(p.cut, cancel)() //nolint:contextcheck // a shutdown ends all calls
	defer c.leave()
	if err := c.admit(ctx, out, r); err != nil {
		c.refuse(out, err)
		c.discard(r, err)
		return
	}
	defer c.abandon(ctx)
	p.reverse.ServeHTTP(out, r.WithContext(ctx))
}

// leave gives back the memory and the place of a call.
func (c *call) leave() {
	c.hold.release()
	if c.placed {
		c.proxy.places.give(c.record.entity, 1)
	}
}

// admit identifies the request, reads what it costs and takes that from the
// limits. A call has its place from the end of its body on, or from the beginning
// if the body is passed on, so slow clients hold none for nothing.
func (c *call) admit(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	p := c.proxy
	if err := checkTarget(r); err != nil {
		return err
	}
	about, err := subjectOf(r, p.opts.Upstream.Path)
	if err != nil {
		return err
	}
	if c.record.entity, err = p.opts.Identify(r); err != nil {
		return err
	}
	if p.ChecksKeys() {
		listen.Vouch(r)
	}
	c.hold.quota, c.hold.entity = p.bodies, c.record.entity
	c.record.resource = p.opts.OtherResource
	if about.call {
		if err := c.inspect(w, r, about); err != nil {
			return err
		}
	}
	if err := p.places.take(c.record.entity, 1); err != nil {
		return err
	}
	c.placed = true
	if !about.call {
		c.watchBody(w, r)
	}
	return c.acquire(ctx)
}

// acquire takes the estimate from the limits. A client that leaves meanwhile stops
// no charge under way, which could not be rolled back. It gets its tokens back.
func (c *call) acquire(client context.Context) error {
	p := c.proxy
	ctx, cancel := linger.Context(client, linger.DefaultTime)
	defer cancel()
	undo, err := p.checkNewcomer(ctx, c.record.entity, c.record.resource)
	if err != nil {
		return err
	}
	lease, err := p.llm.Acquire(ctx, c.record.entity, c.record.resource, c.request)
	if err != nil {
		_, invalid := errors.AsType[*limiter.InvalidError](err)
		_, disabled := errors.AsType[*limiter.DisabledError](err)
		if invalid || disabled {
			undo() // nothing was created
		}
		return c.explain(err)
	}
	if gone := client.Err(); gone != nil {
		if err := lease.Rollback(ctx); err != nil {
			p.opts.OnError(err)
		}
		return gone
	}
	c.lease = lease
	c.record.priced = c.isPriced()
	p.open.Add(1)
	if outage := c.lease.Outage(); outage != nil {
		p.opts.OnError(outage)
	}
	return nil
}

// isPriced reports whether the cost of a call is known.
func (c *call) isPriced() bool {
	if c.request == nil || c.proxy.opts.Prices == nil {
		return false
	}
	_, err := c.proxy.opts.Prices(c.request.Model, c.proxy.opts.Now())
	return err == nil
}

// inspect reads the body of a request about a model, and replaces it where the
// stream has to report its usage.
func (c *call) inspect(w http.ResponseWriter, r *http.Request, about subject) error {
	content, err := c.readContent(r)
	if err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body has arrived; a stream may last
	if c.request, err = llm.ParseRequest(about.format, content.plain, &llm.RequestOptions{Model: about.model}); err != nil {
		return describe(err)
	}
	c.record.model, c.record.stream = c.request.Model, c.request.Stream
	c.record.resource = c.proxy.opts.Mapping().resource(c.request.Model)
	changed := c.request.WithStreamUsage(content.plain)
	body := content.sent
	if len(changed) != len(content.plain) || !bytes.Equal(changed, content.plain) {
		c.addUsage, body = true, changed
		r.Header.Del("Content-Encoding")
	}
	c.setBody(r, body)
	limitEncodings(r.Header, c.request.Stream && c.readsEvents())
	return c.hold.resize(int64(cap(body)))
}

// describe makes the error about a body an answer that says what is wrong. The
// reason shows nothing but names that the client has chosen.
func describe(err error) error {
	bad, ok := errors.AsType[*limiter.InvalidError](err)
	if !ok {
		return err
	}
	return errors.Join(err, &httplimit.Problem{Status: http.StatusBadRequest, Detail: "invalid " + bad.Field + ": " + bad.Reason})
}

// limitEncodings asks for an answer that the proxy can read: plain, or gzip where
// the client accepts it and the proxy can wait for the end of the answer.
func limitEncodings(h http.Header, plain bool) {
	encoding := "identity"
	for name := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Accept-Encoding"), ",")), ",") {
		if !plain && strings.TrimSpace(name) == "gzip" {
			encoding = "gzip"
		}
	}
	h.Set("Accept-Encoding", encoding)
}

// explain makes an error of Acquire more useful to the client. It names no file of
// the proxy.
func (c *call) explain(err error) error {
	if errors.Is(err, llm.ErrNoPrice) {
		return &httplimit.Problem{Status: http.StatusBadRequest, Detail: "the model has no price here; ask the operator of this proxy to add one"}
	}
	bad, ok := errors.AsType[*limiter.InvalidError](err)
	if !ok {
		return c.proxy.inDollars(err)
	}
	what := "the model has"
	switch {
	case c.request == nil && errors.Is(err, limiter.ErrNoLimits):
		what = "calls that are not about a model have"
	case c.request == nil || !errors.Is(err, limiter.ErrNoLimits) && bad.Field != "resource":
		return err
	}
	return errors.Join(err, &httplimit.Problem{Status: http.StatusBadRequest, Detail: what + " no limits here; ask the operator of this proxy to set some"})
}

// refuse answers a request that was not admitted.
func (c *call) refuse(w http.ResponseWriter, err error) {
	c.record.refuse(err)
	problem := httplimit.NewProblem(err)
	if errors.Is(err, limiter.ErrNeverFits) || problem.RetryAfter > longestRetry {
		w.Header().Set("X-Should-Retry", "false") // the SDKs know it
	}
	_, busy := errors.AsType[*busyError](err)
	if problem.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", strings.Join(methods, ", "))
	}
	if busy || problem.Status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close")
	} else if problem.Status == http.StatusInternalServerError || problem.Status == http.StatusServiceUnavailable {
		c.proxy.opts.OnError(err)
	}
	httplimit.WriteError(w, err, &c.proxy.opts.Fields)
}

// discard reads some of a body that was too much, after the answer. A client that
// is still sending would otherwise lose the answer when the connection closes.
func (c *call) discard(r *http.Request, err error) {
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, busy := errors.AsType[*busyError](err)
	if !large && !busy || r.Header.Get("Expect") != "" {
		return
	}
	c.hold.release()
	c.out.flush()
	_ = http.NewResponseController(c.out).SetReadDeadline(time.Now().Add(discardTimeout))
	listen.Receive(r, func() { _, _ = io.CopyN(io.Discard, r.Body, discardBytes) })
}

// end settles the lease once, and reports a failure.
func (c *call) end(how func() error) {
	c.settle.Do(func() {
		defer c.proxy.open.Add(-1)
		if err := how(); err != nil {
			c.proxy.opts.OnError(err)
		}
	})
}

// abandon ends the lease of a call that nothing else has ended. If the request was
// sent, the upstream may have done the work, so the estimate stays.
func (c *call) abandon(ctx context.Context) {
	c.end(func() error {
		if !c.written.Load() {
			return c.lease.Rollback(ctx)
		}
		return c.commit(ctx)
	})
}

// commit charges what the answer reported, and notes it in the record.
func (c *call) commit(ctx context.Context) error {
	err := c.lease.Commit(ctx)
	if c.request != nil {
		c.record.usage, c.record.reported = c.lease.Usage()
	}
	return err
}
