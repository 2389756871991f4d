package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// answerBody passes an answer on and reads its usage. It ends the lease when it is
// closed, after the last byte has been sent to the client.
type answerBody struct {
	ctx     context.Context
	call    *call
	inner   io.ReadCloser
	filter  *llm.StreamFilter // nil unless the usage chunk has to be removed
	pending []byte            // to be passed on before the next read
	err     error             // of inner, after pending
}

// newAnswerBody begins to read an answer with the lease. It makes a stream plain if
// the proxy has to look into it before its end.
func newAnswerBody(ctx context.Context, c *call, resp *http.Response) *answerBody {
	stream := c.request != nil && isStream(resp.Header)
	if stream && encodingOf(resp.Header) == "gzip" && c.readsEvents() {
		decompress(resp)
	}

	b := &answerBody{ctx: ctx, call: c, inner: resp.Body}
	// The filter reads plain events only. In any other encoding the client gets
	// the usage too.
	if stream && c.addUsage && encodingOf(resp.Header) == "" {
		b.filter = &llm.StreamFilter{}
		forgetLength(resp)
	}

	// This comes last, because decompress changes the encoding.
	c.lease.Answer(resp.Header.Get("Content-Type"), resp.Header.Get("Content-Encoding"))
	return b
}

// readsEvents reports whether the proxy has to look into a stream before its end:
// to remove the usage, or to take steps.
func (c *call) readsEvents() bool { return c.addUsage || c.proxy.opts.Step > 0 }

// Read returns the bytes of the answer as they arrive.
func (b *answerBody) Read(p []byte) (int, error) {
	for {
		if len(b.pending) > 0 {
			n := copy(p, b.pending)
			b.pending = b.pending[n:]
			return n, nil
		}
		if b.err != nil {
			return 0, b.err
		}

		n, err := b.inner.Read(p)
		b.err = err
		// If the limit has no room, n ends with the event that did not fit.
		n, refused := b.call.lease.WriteContext(b.ctx, p[:n])
		// p holds the answer already, and nothing has to be removed from it or
		// added.
		if b.filter == nil && refused == nil {
			return n, err
		}

		// The filter may hold back all of p. The loop then reads on, since Read
		// should not return 0 bytes without an error.
		b.pending = append(b.pending[:0], b.pass(p[:n])...)
		if refused != nil {
			b.refuse(refused)
		}
	}
}

// pass returns the bytes to pass on after p has arrived.
func (b *answerBody) pass(p []byte) []byte {
	if b.filter == nil {
		return p
	}
	out := b.filter.Filter(p)
	// The end of the stream may come without the empty line of the last event.
	if b.err != nil {
		out = append(out, b.filter.Flush()...)
	}
	return out
}

// refuse ends a stream whose limit has no room for more of it, or whose entity or
// resource is disabled. The client gets an event that its SDK reports as an error.
func (b *answerBody) refuse(err error) {
	b.call.record.outcome, b.call.record.refusedBy = outcomeCut, refusedBy(err, b.call.record.entity)
	// The stream has to end as a whole one does, or the client would not read
	// the event that explains the cut.
	b.err = io.EOF

	detail := httplimit.NewProblem(b.call.proxy.inDollars(err)).Detail
	reason := map[string]any{
		"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "the answer was cut: " + detail,
	}

	if off, disabled := errors.AsType[*limiter.DisabledError](err); disabled {
		reason["type"], reason["code"] = "permission_error", "access_disabled"
		b.call.record.problem = off.Error()
	}

	// SDKs look for the name of an event in these two formats, and for data
	// alone in chats.
	event := ""
	body := map[string]any{"error": reason}
	if b.call.request.Format == llm.Messages || b.call.request.Format == llm.Responses {
		event, body["type"] = "event: error\n", "error"
	}

	text, _ := json.Marshal(body)
	b.pending = append(b.pending, event+"data: "+string(text)+"\n\n"...)
}

// Close ends the lease. An answer that was not passed on to its end was cut, by the
// upstream or by the client. Where money depends on its usage, Close reads on.
func (b *answerBody) Close() error {
	if b.err == nil || !errors.Is(b.err, io.EOF) {
		// A shutdown ends the answer itself, even if the client has left as
		// well.
		b.call.record.cut(b.call.left() && b.call.proxy.cut.Err() == nil)
	}

	// Without an error, the answer has not ended: the copy stopped because the
	// client takes no more.
	if b.err == nil && b.call.follows() {
		b.follow()
	}

	err := b.inner.Close()
	// The client has all of its answer before the store is asked.
	b.call.out.flush()
	b.call.end(func() error { return b.call.commit(b.ctx) })
	return err
}
