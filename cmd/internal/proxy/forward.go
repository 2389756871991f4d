package proxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// overridden reports whether some servers let a client change the method, the path
// or the address of a request with a header. The proxy charges by these, so it
// removes the header. Some servers take "_" in a name for "-".
func overridden(header string) bool {
	name := strings.ReplaceAll(strings.ToLower(header), "_", "-")
	if strings.Contains(name, "override") || name == "x-http-method" || name == "forwarded" {
		return true
	}
	for _, prefix := range []string{"x-forwarded-", "x-original-", "x-rewrite-", "x-envoy-", "x-waws-unencoded-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isUsual reports whether a header is one that most requests have, so that its name
// need not be looked at in every spelling.
func isUsual(header string) bool {
	switch header {
	case "Accept", "Accept-Encoding", "Accept-Language", "Content-Length", "Content-Type", "User-Agent":
		return true
	}
	return false
}

// rewrite prepares a request for the upstream. The library has removed hop-by-hop
// headers.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(p.upstreamOf(r.In.URL.EscapedPath()))

	h := r.Out.Header
	maps.DeleteFunc(h, func(name string, _ []string) bool { return !isUsual(name) && overridden(name) })

	// A client can name any header in Connection, which the library then removes.
	// So what the proxy says itself comes after that.
	if c := callOf(r.In.Context()); c != nil && c.request != nil {
		c.describeBody(h, r.In.Header)
		limitEncodings(h, c.request.Stream && c.readsEvents())
	}

	forbidRepeats(h)
	p.replaceCredentials(h)
	r.Out.URL.RawQuery = p.withoutCredentials(r.Out.URL.RawQuery)
}

// describeBody says in h what the body of a call of a model is. The upstream must
// read what the proxy has read: as a form or in UTF-7 the same bytes could mean
// another call.
func (c *call) describeBody(h, arrived http.Header) {
	h.Set("Content-Type", "application/json")
	// A body that is sent as it came has the encoding that it came with.
	if encoding, ok := arrived["Content-Encoding"]; ok {
		h["Content-Encoding"] = encoding
	}
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

// forbidRepeats keeps the transport from sending a call twice on its own, which it
// does for any method if it finds one of these headers. Servers ignore the case of
// names; the transport does not.
func forbidRepeats(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// errNoAnswer reports a status that cannot end a call, such as 000 or 101.
var errNoAnswer = errors.New("the upstream sent no final status")

// answered prepares the answer of the upstream for the client, and settles the
// lease if the answer decides about it already.
func answered(resp *http.Response) error {
	if resp.StatusCode < 200 {
		return errNoAnswer
	}

	c := callOf(resp.Request.Context())
	c.record.upstream = resp.StatusCode
	ctx := resp.Request.Context()
	// The client meets the limits of this proxy first.
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy"} {
		delete(resp.Header, name)
	}

	// Only a success shows that the upstream knows the key, so that it was not
	// invented.
	if c.client.isNew && resp.StatusCode < 300 {
		c.proxy.newcomers.accept(c.client.entity)
	}

	if c.lease == nil {
		return nil
	}
	c.proxy.opts.Fields.Set(resp.Header, c.lease.Decision())

	switch status := resp.StatusCode; {
	// The upstream refused the key, or failed. It bills neither.
	case status == http.StatusUnauthorized || status == http.StatusForbidden ||
		status >= http.StatusInternalServerError:
		c.end(func() error { return c.lease.Rollback(ctx) })
	// APIs count such calls and do not bill them.
	case status >= 300:
		c.end(func() error { return c.lease.CommitRequest(ctx) })
	default:
		resp.Body = newAnswerBody(ctx, c, resp)
	}
	return nil
}

// leftEarly returns the answer to a client that has left, or has closed its side of
// the connection and reads on.
func leftEarly() *httplimit.Problem {
	return &httplimit.Problem{
		Status: http.StatusBadRequest, Detail: "the client closed its side of the connection before the answer",
	}
}

// failed answers a call that got no answer from the upstream.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r.Context())
	// No byte was sent without a connection. A call without a body counts as
	// sent by then.
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		c.written.Store(false)
	}

	c.abandon(r.Context())
	c.record.outcome = outcomeFailed

	problem := &httplimit.Problem{Status: http.StatusBadGateway, Detail: "the upstream cannot be reached"}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	// A shutdown ends the context of the call too, so it has to come before the
	// client that left.
	case c.proxy.cut.Err() != nil:
		problem = &httplimit.Problem{
			Status: http.StatusServiceUnavailable, Detail: "the proxy is shutting down",
			RetryAfter: retryDrained,
		}
	// A body that came too late is a timeout too, but not of the upstream.
	case c.arriving.slow.Load():
		problem = tooSlow()
		w.Header().Set("Connection", "close")
		c.record.outcome = outcomeSlow
	case errors.Is(r.Context().Err(), context.Canceled):
		problem, c.record.outcome = leftEarly(), outcomeGone
	case errors.Is(err, errNoAnswer):
		problem.Detail = "the upstream sent no valid answer"
	case isNet && timeout.Timeout():
		problem = &httplimit.Problem{Status: http.StatusGatewayTimeout, Detail: "the upstream did not answer in time"}
	}

	c.record.problem = problem.Detail
	c.dialect.writeError(w, problem, nil)
}
