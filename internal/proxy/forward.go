package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// overrides lists headers by which some servers let a client change the method or
// the path of a request. The proxy charges by both, so it removes them.
var overrides = []string{"X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url"}

// rewrite prepares a request for the upstream. The library has removed hop-by-hop
// and forwarding headers.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(p.opts.Upstream)
	for _, name := range overrides {
		r.Out.Header.Del(name)
	}
	if p.opts.Credentials.Name == "" {
		return
	}
	for _, name := range credentialFields {
		r.Out.Header.Del(name)
	}
	r.Out.Header.Set(p.opts.Credentials.Name, p.opts.Credentials.Value)
}

// answered prepares the answer of the upstream for the client, and settles the
// lease if the answer decides about it already.
func answered(resp *http.Response) error {
	c := callOf(resp.Request.Context())
	c.record.upstream = resp.StatusCode
	ctx := resp.Request.Context()
	for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
		resp.Header.Del(name) // the limits here are what the client meets first
	}
	c.proxy.opts.Fields.Set(resp.Header, c.lease.Decision())
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status >= http.StatusInternalServerError:
		c.end(func() error { return c.lease.Rollback(ctx) })
	case status < 200 || status >= 300:
		c.end(func() error { return c.lease.CommitRequest(ctx) })
	default:
		resp.Body = newAnswerBody(ctx, c, resp)
	}
	return nil
}

// failed answers a call that got no answer from the upstream.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r.Context())
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		c.written.Store(false)
	}
	c.abandon(r.Context())
	c.record.outcome = outcomeFailed
	problem := &httplimit.Problem{Status: http.StatusBadGateway, Detail: "the upstream cannot be reached"}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case c.proxy.cut.Err() != nil:
		problem = &httplimit.Problem{Status: http.StatusServiceUnavailable, Detail: "the proxy is shutting down", RetryAfter: retryDrained}
	case errors.Is(r.Context().Err(), context.Canceled):
		c.record.outcome = outcomeGone // there is no client to answer
	case isNet && timeout.Timeout():
		problem = &httplimit.Problem{Status: http.StatusGatewayTimeout, Detail: "the upstream did not answer in time"}
	}
	c.record.problem = problem.Detail
	httplimit.WriteError(w, problem, nil)
}
