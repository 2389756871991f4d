package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/llm"
)

// outlive returns a context for the call to the upstream, and a function that ends
// it. A call that holds no money has the client's own context, and end. A call that
// holds money goes on for FollowTimeout after its client has left: the API bills what
// it generates, and only the end of the answer says how much that is.
func (c *call) outlive(client context.Context, end context.CancelFunc) (context.Context, context.CancelFunc) {
	if !c.follows() {
		return client, end
	}

	ctx, cancel := context.WithCancel(context.WithoutCancel(client))
	stops := []func() bool{
		context.AfterFunc(c.proxy.cut, cancel), // a shutdown ends all calls
		context.AfterFunc(client, func() {
			timer := time.AfterFunc(c.proxy.opts.FollowTimeout, cancel)
			// Without this, the timer would keep an answered call in memory for
			// FollowTimeout.
			context.AfterFunc(ctx, func() { timer.Stop() })
		}),
	}

	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// follows reports whether the proxy reads an answer to its end without a client.
func (c *call) follows() bool {
	return c.proxy.opts.FollowTimeout > 0 && c.lease != nil && c.lease.HoldsMoney()
}

// follow reads the rest of an answer whose client has left, for FollowTimeout.
func (b *answerBody) follow() {
	// The context of outlive may not have ended: a client that stops reading is
	// cut by the deadline of writes, and can still be connected.
	timer := time.AfterFunc(b.call.proxy.opts.FollowTimeout, b.call.cancel)
	defer timer.Stop()

	buffer := b.call.proxy.buffers.Get()
	defer b.call.proxy.buffers.Put(buffer)

	for b.err == nil {
		n, err := b.inner.Read(buffer)
		b.err = err
		if _, refused := b.call.lease.WriteContext(b.ctx, buffer[:n]); refused != nil {
			return
		}
	}
}

// maximumField returns the field that bounds an answer of chat completions. OpenAI
// has a new name for it, and some of its models refuse the old one. Many other
// servers know the old one only, and ignore the new one.
func maximumField(upstream *url.URL) string {
	host := "." + strings.ToLower(upstream.Hostname())
	for _, suffix := range []string{
		".openai.com", ".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com",
	} {
		if strings.HasSuffix(host, suffix) {
			return "max_completion_tokens"
		}
	}
	return "max_tokens"
}

// boundEdits returns the edits that write the maximum that the lease rests on,
// also one of the client in a field that the API may ignore.
func (c *call) boundEdits() []llm.Edit {
	if !c.lease.HoldsMoney() || c.proxy.opts.KeepRequests {
		return nil
	}
	// The API has one field in the other formats.
	field := ""
	if c.request.Format == llm.Chat {
		field = c.proxy.opts.MaximumField
	}
	return c.request.MaxOutputEdits(c.lease.MaxOutput(), field)
}

// checkBound reports, once, an answer that is longer than the maximum that its
// reservation rests on.
func (c *call) checkBound() {
	if !c.lease.HoldsMoney() {
		return
	}

	// The maximum of the request is for all answers together, and the one of
	// the lease for each.
	most := cmp.Or(c.lease.MaxOutput()*max(1, c.request.Choices), c.request.MaxOutput)
	// Swap is last, so that only an answer above its maximum uses up the one
	// report.
	if most == 0 || !c.record.reported || c.record.usage.Output <= most || c.proxy.exceeded.Swap(true) {
		return
	}

	c.proxy.opts.OnError(fmt.Errorf("model %.60q: an answer has %d tokens, above its maximum of %d, so "+
		"budgets may be exceeded; "+
		"the API may need another field: see --max-tokens-rewrite", c.request.Model, c.record.usage.Output, most))
}
