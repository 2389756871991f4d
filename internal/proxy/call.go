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
	"github.com/zeroae/zae-limiter-go/llm"
)

// retryDrained is the Retry-After of a proxy that shuts down: another one may
// have taken over.
const retryDrained = time.Second

// call is one request on its way through the proxy.
type call struct {
	proxy    *Proxy
	out      *statusWriter
	record   record
	request  *llm.Request // nil for a request that is not about a model
	lease    *llm.Lease   // nil until admitted
	addUsage bool         // the proxy asked for the usage of the stream
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
	held, err := c.admit(ctx, out, r)
	defer func() { p.budget.give(held) }()
	if err != nil {
		c.refuse(out, err)
		return
	}
	defer c.abandon(ctx)
	p.reverse.ServeHTTP(out, r.WithContext(ctx))
}

// admit identifies the request, reads what it costs and takes that from the
// limits. It returns the bytes that it holds of the budget.
func (c *call) admit(ctx context.Context, w http.ResponseWriter, r *http.Request) (held int64, err error) {
	p := c.proxy
	if err := checkTarget(r); err != nil {
		return 0, err
	}
	format, aboutModel, err := formatOf(r, p.opts.Upstream.Path)
	if err != nil {
		return 0, err
	}
	if c.record.entity, err = p.opts.Identify(r); err != nil {
		return 0, err
	}
	c.record.resource = p.opts.OtherResource
	if aboutModel {
		if held, err = c.inspect(w, r, format); err != nil {
			return held, err
		}
	} else {
		c.watchBody(w, r)
	}
	if err := p.checkNewcomer(ctx, c.record.entity, c.record.resource); err != nil {
		return held, err
	}
	c.lease, err = p.llm.Acquire(ctx, c.record.entity, c.record.resource, c.request)
	if err != nil {
		return held, c.explain(err)
	}
	p.open.Add(1)
	if outage := c.lease.Outage(); outage != nil {
		p.opts.OnError(outage)
	}
	return held, nil
}

// inspect reads the body of a request about a model, and replaces it where the
// stream has to report its usage.
func (c *call) inspect(w http.ResponseWriter, r *http.Request, format llm.Format) (held int64, err error) {
	content, err := c.proxy.readContent(r)
	if err != nil {
		return 0, err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body has arrived; a stream may last
	if c.request, err = llm.ParseRequest(format, content.plain, nil); err != nil {
		return content.held, err
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
	return content.held, nil
}

// setBody replaces the body of a request.
func (c *call) setBody(r *http.Request, body []byte) {
	r.GetBody = func() (io.ReadCloser, error) { return &sentBody{*bytes.NewReader(body), c}, nil }
	r.Body, _ = r.GetBody()
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	r.Trailer = nil
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

// explain makes an error of Acquire more useful to the client.
func (c *call) explain(err error) error {
	bad, ok := errors.AsType[*limiter.InvalidError](err)
	if !ok || c.request == nil || !errors.Is(err, limiter.ErrNoLimits) && bad.Field != "resource" {
		return err
	}
	return errors.Join(err, &httplimit.Problem{Status: http.StatusBadRequest, Detail: "the model has no limits here; ask the operator of this proxy to set some"})
}

// refuse answers a request that was not admitted.
func (c *call) refuse(w http.ResponseWriter, err error) {
	c.record.refuse(err)
	if errors.Is(err, limiter.ErrNeverFits) {
		w.Header().Set("X-Should-Retry", "false") // the SDKs know it
	}
	problem := httplimit.NewProblem(err)
	if problem.Status == http.StatusInternalServerError || problem.Status == http.StatusServiceUnavailable {
		c.proxy.opts.OnError(err)
	}
	httplimit.WriteError(w, err, &c.proxy.opts.Fields)
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
