package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/outlive"
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
	client   client
	dialect  dialect
	request  *llm.Request // nil for a request that is not about a model
	lease    *llm.Lease   // nil until admitted, and for a call that no limit counts
	reads    bool         // a call that is not about a model, and changes nothing
	addUsage bool         // the proxy asked for the usage of the stream
	arriving *arriving    // the body, while it arrives
	hold     hold         // memory of the body
	// body is the body of a request about a model, until it is sent. If the
	// proxy may edit it, it is one part, decompressed.
	body      [][]byte
	cancel    func()      // ends the call to the upstream
	left      func() bool // the client has gone, or has closed its side
	placed    bool        // the call has a place among those under way
	uploading atomic.Bool // the call has a place among the uploads
	// written is set when the whole request has been sent upstream, as far as
	// the proxy can know. The work may have been done from then on.
	written atomic.Bool
	settle  sync.Once
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
	c := &call{proxy: p, out: out, dialect: dialectOf(r, p.opts.Upstream.Path), left: func() bool {
		return r.Context().Err() != nil
	}}
	c.record.begin(r, p.opts.Now())
	//nolint:contextcheck // the values of the request's context are for the logger
	defer func() { c.record.write(r.Context(), p.opts.Log, p.opts.Now(), out) }()

	if len(r.TransferEncoding) > 0 {
		// If the request has a Content-Length too, a server in front may go by
		// that, and see the end of the request elsewhere. On a connection that
		// closes, the rest cannot count as another request.
		w.Header().Set("Connection", "close")
	}

	// The reverse proxy passes its hooks a request only. They find the call in
	// its context.
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), callKey{}, c))
	defer cancel()
	defer context.AfterFunc(p.cut, cancel)() //nolint:contextcheck // a shutdown ends all calls
	defer c.leave()

	if err := c.admit(ctx, out, r); err != nil {
		c.refuse(out, err)
		c.discard(r, err)
		return
	}

	// The reverse proxy panics if the client leaves while it copies the answer,
	// so abandon has to be deferred.
	defer c.abandon(ctx)
	upstream, end := c.outlive(ctx, cancel)
	defer end()
	c.cancel = end

	p.reverse.ServeHTTP(out, r.WithContext(upstream))
}

// leave gives back the memory and the place of a call.
func (c *call) leave() {
	c.hold.release()
	c.endUpload()
	if c.placed {
		c.proxy.places.give(c.client, 1)
	}
}

// admit identifies the request, reads what it costs and takes that from the
// limits. A call takes its place when its body has arrived, or its start if the
// rest is passed on. A client that sends slowly so holds no place, or one of the
// few for uploads.
func (c *call) admit(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	p := c.proxy
	if err := checkTarget(r); err != nil {
		return err
	}

	about, err := p.subjectOf(r)
	if err != nil {
		return err
	}

	if c.record.entity, err = p.opts.Identify(r); err != nil {
		return err
	}

	// The request comes from a known client. An API key that only has the form
	// of one would prove nothing.
	if p.ChecksKeys() {
		listen.Vouch(r)
	}

	c.client = client{c.record.entity, p.newcomers != nil && !p.newcomers.isAccepted(c.record.entity)}
	c.hold.pool, c.hold.client = p.bodies, c.client
	c.record.resource = p.opts.OtherResource

	c.arrive(w, r)
	if about.call {
		err = c.inspect(r, about)
	} else {
		c.reads = r.Method == http.MethodGet || r.Method == http.MethodHead
		err = c.receive(r)
	}
	if err != nil {
		return err
	}

	if err := p.places.take(c.client, 1); err != nil {
		return err
	}
	c.placed = true

	if err := c.acquire(ctx); err != nil {
		return err
	}

	// Nothing has been sent yet, so the charge goes back.
	if err := c.fill(r); err != nil {
		c.end(func() error { return c.lease.Rollback(ctx) })
		return err
	}
	return nil
}

// acquire takes the estimate from the limits. A charge goes on if its client leaves,
// because a charge that was cut off may be stored or not, and could not be rolled
// back. After its end, such a client gets its tokens back.
func (c *call) acquire(client context.Context) error {
	p := c.proxy
	ctx, cancel := outlive.Context(client, outlive.DefaultTime)
	defer cancel()

	undo, err := p.checkNewcomer(ctx, c.record.entity, c.record.resource)
	if err != nil {
		return err
	}

	lease, err := p.llm.Acquire(ctx, c.record.entity, c.record.resource, c.request)
	if err != nil {
		_, invalid := errors.AsType[*limiter.InvalidError](err)
		_, disabled := errors.AsType[*limiter.DisabledError](err)
		// Such a refusal creates no bucket, so the key has not been used for
		// the first time.
		if invalid || disabled {
			undo()
		}

		// Clients ask for the list of models first, so it works without limits
		// and costs nothing then.
		if c.reads && errors.Is(err, limiter.ErrNoLimits) {
			return nil
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

	// The mode for outages admitted the call without a charge, which the
	// operator has to know.
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

// inspect reads the body of a request about a model.
func (c *call) inspect(r *http.Request, about subject) error {
	content, err := c.readContent(r)
	if err != nil {
		return err
	}

	if c.request, err = llm.ParseRequest(
		about.format, content.plain, &llm.RequestOptions{Model: about.model},
	); err != nil {
		return describe(err)
	}

	c.record.model, c.record.stream = c.request.Model, c.request.Stream
	c.record.resource = c.proxy.opts.Mapping().resource(c.request.Model)

	if c.request.Background && c.proxy.opts.RefuseBackground {
		return badRequest(
			"background responses are not allowed here, since their usage is not known; leave background out",
		)
	}

	// An edit needs plain text. Whether the call holds money, and needs an edit
	// for it, is known only after the charge, so every call with prices keeps
	// the plain body.
	c.body = content.sent
	if _, needed := c.request.StreamUsageEdit(); needed || c.proxy.cost != "" {
		c.body = [][]byte{content.plain}
		r.Header.Del("Content-Encoding")
	}

	return c.hold.resize(heldBytes(c.body))
}

// fill gives the request to the upstream its body. It changes the body where the
// stream has to report its usage, and where the proxy has to bound the answer.
func (c *call) fill(r *http.Request) error {
	if c.request == nil {
		return nil
	}

	edits := c.boundEdits()
	if edit, needed := c.request.StreamUsageEdit(); needed {
		c.addUsage, edits = true, append(edits, edit)
	}

	// The call drops its reference, so that the body leaves memory when it has
	// been sent.
	parts := c.body
	if c.body = nil; len(edits) > 0 {
		parts = llm.ApplyEdits(parts[0], edits...)
	}

	return c.setBody(r, parts)
}

// describe makes the error about a body an answer that says what is wrong. The
// reason shows nothing but names that the client has chosen.
func describe(err error) error {
	bad, ok := errors.AsType[*limiter.InvalidError](err)
	if !ok {
		return err
	}
	return errors.Join(err, &httplimit.Problem{
		Status: http.StatusBadRequest, Detail: "invalid " + bad.Field + ": " + bad.Reason,
	})
}

// explain makes an error of Acquire more useful to the client. It names no file of
// the proxy.
func (c *call) explain(err error) error {
	if isUnset(err) {
		return c.unset(err)
	}

	if errors.Is(err, llm.ErrUnbounded) {
		return describe(err)
	}

	bad, ok := errors.AsType[*limiter.InvalidError](err)
	if !ok {
		// If the client sets no maximum, the advice names the field that this
		// upstream obeys.
		if spend, ok := errors.AsType[*llm.SpendError](err); ok && c.request != nil && c.request.Format == llm.Chat &&
			c.request.MaxOutput == 0 {
			spend.Field = c.proxy.opts.MaximumField
		}

		return c.proxy.inDollars(err)
	}

	// Only the resource of a call of a model comes from the client. The
	// operator names the one for other calls.
	if c.request == nil || bad.Field != "resource" {
		return err
	}

	return errors.Join(err, &httplimit.Problem{
		Status: http.StatusBadRequest,
		Detail: "the model is not known here; its name needs an alias, which the operator of this proxy can add",
	})
}

// isUnset reports whether err says that the operator has not set up what a call
// needs: limits, or the price of a model where cost is limited.
func isUnset(err error) bool {
	return errors.Is(err, limiter.ErrNoLimits) || errors.Is(err, llm.ErrNoPrice)
}

// unset makes the lack of limits or of a price a fault of the proxy. Nothing shows
// whether a client mistyped a model or the operator forgot it. The answer does not
// say what is missing.
func (c *call) unset(err error) error {
	what := "this call"
	if c.request != nil {
		what = "the model"
	}

	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok && errors.Is(err, limiter.ErrNoLimits) &&
		bad.Field == "limits" {
		err = &hint.NoLimitsError{Entity: c.record.entity, Resource: c.record.resource, Err: err}
	}

	problem := &httplimit.Problem{
		Status: http.StatusInternalServerError,
		Detail: "this proxy is not set up for " + what + "; its operator finds the reason in the log",
	}
	return &unsetError{err, problem}
}

// unsetError has the text for the operator, and the answer for the client.
type unsetError struct {
	cause   error
	problem *httplimit.Problem
}

func (e *unsetError) Error() string { return e.cause.Error() }

func (e *unsetError) Unwrap() []error { return []error{e.cause, e.problem} }

// refuse answers a request that was not admitted.
func (c *call) refuse(w http.ResponseWriter, err error) {
	// Nothing is wrong with the store or the upstream.
	if errors.Is(err, context.Canceled) && c.left() {
		err = errors.Join(err, leftEarly())
	}
	c.record.refuse(err)

	problem := httplimit.NewProblem(err)
	// The SDKs know this header. Without it they retry within seconds, which
	// cannot help here.
	if errors.Is(err, limiter.ErrNeverFits) || isUnset(err) || problem.RetryAfter > longestRetry {
		w.Header().Set("X-Should-Retry", "false")
	}

	_, busy := errors.AsType[*busyError](err)
	// RFC 9110 requires Allow with this status.
	if problem.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", strings.Join(methods, ", "))
	}

	// The proxy does not read the rest of these bodies, so the connection
	// cannot carry another request.
	if busy || problem.Status == http.StatusRequestEntityTooLarge || problem.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close")
	} else if problem.Status == http.StatusInternalServerError || problem.Status == http.StatusServiceUnavailable {
		// A full proxy answers 503 as well, but that is no fault to report.
		c.proxy.opts.OnError(err)
	}

	c.dialect.writeError(w, err, &c.proxy.opts.Fields)
}

// discard reads some of a body that was too much, after the answer. A client that
// is still sending would otherwise lose the answer when the connection closes.
func (c *call) discard(r *http.Request, err error) {
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, busy := errors.AsType[*busyError](err)
	// A client that sent Expect sends no body before it is asked to.
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
	if c.lease == nil {
		return
	}
	c.end(func() error {
		// The upstream did nothing if it did not get the whole request.
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
		c.record.charged = true
		c.checkBound()
	}
	return err
}
