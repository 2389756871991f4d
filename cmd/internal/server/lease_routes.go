package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// acquireBody asks for tokens.
type acquireBody struct {
	Entity        string                `json:"entity_id" schema:"EntityName" doc:"entity that uses the resource"`
	Resource      string                `json:"resource" schema:"ResourceName" doc:"resource that is used"`
	Consume       map[string]int64      `json:"consume" schema:"Amounts" doc:"whole tokens by limit, 0 or more"`
	Limits        []limiter.Limit       `json:"limits,omitempty" schema:"CallLimits"`
	OnUnavailable limiter.OnUnavailable `json:"on_unavailable,omitempty"`
	Commit        bool                  `json:"commit,omitempty" doc:"whether to spend at once, without a lease"`
}

// FieldDocs returns the texts that are too long for tags.
func (acquireBody) FieldDocs() map[string]string {
	return map[string]string{
		"limits":         "limits in place of the stored ones, for this call; needs the role admin",
		"on_unavailable": "block or allow when the store is unavailable; default: as stored",
	}
}

func (b acquireBody) request(by Identity) (limiter.Request, error) {
	if b.Limits != nil && !by.Role.Allows(RoleAdmin) {
		return limiter.Request{}, &httplimit.Problem{
			Status: http.StatusForbidden,
			Detail: "field limits: needs a token with the role admin, since it replaces the stored limits",
		}
	}

	if err := checkTaken(b.Consume); err != nil {
		return limiter.Request{}, err
	}

	// The OpenAPI document cannot require different names, and a request that keeps
	// to it never gets 400.
	for i, l := range b.Limits {
		if slices.ContainsFunc(b.Limits[:i], func(other limiter.Limit) bool { return other.Name == l.Name }) {
			return limiter.Request{}, &httplimit.Problem{
				Status: http.StatusConflict,
				Detail: fmt.Sprintf("field limits: names %q twice; give each limit once", l.Name),
			}
		}
	}

	return limiter.Request{
		Entity: b.Entity, Resource: b.Resource, Consume: amountsOf(b.Consume), Limits: b.Limits,
		OnUnavailable: b.OnUnavailable,
	}, nil
}

// explainBody asks for the decision that an acquire would make.
type explainBody struct {
	Entity   string           `json:"entity_id" schema:"EntityName" doc:"entity that uses the resource"`
	Resource string           `json:"resource" schema:"ResourceName" doc:"resource that is used"`
	Consume  map[string]int64 `json:"consume,omitempty" schema:"SomeAmounts" doc:"whole tokens by limit, 0 or more"`
	Limits   []limiter.Limit  `json:"limits,omitempty" schema:"CallLimits"`
}

// FieldDocs returns the texts that are too long for tags.
func (explainBody) FieldDocs() map[string]string {
	return map[string]string{"limits": "limits to check in place of the stored ones; needs the role admin"}
}

// admission is the answer to an acquire that was admitted.
type admission struct {
	Lease     *string           `json:"lease_id" doc:"ID of the lease; null if nothing is left to settle"`
	ExpiresAt *time.Time        `json:"expires_at" doc:"time at which the lease is committed as it stands"`
	Consumed  map[string]int64  `json:"consumed" doc:"tokens taken, by limit"`
	Outage    bool              `json:"outage" doc:"whether the store was unavailable, so that nothing was taken"`
	Limits    []jsonview.Status `json:"limits" doc:"limits of the entity after the call"`
}

// settlement is the answer to a call about a lease.
type settlement struct {
	Lease    string           `json:"lease_id" doc:"ID of the lease"`
	Consumed map[string]int64 `json:"consumed" doc:"tokens taken by the lease so far, by limit, with adjustments"`
	Ended    bool             `json:"ended" doc:"whether the lease has ended"`
}

// consumeBody asks for more tokens.
type consumeBody struct {
	Consume map[string]int64 `json:"consume" schema:"Amounts" doc:"whole tokens to take now, by limit, 0 or more"`
}

// adjustBody corrects a lease.
type adjustBody struct {
	Used   map[string]int64 `json:"used,omitempty" schema:"SomeAmounts" doc:"tokens used in total, by limit"`
	Adjust map[string]int64 `json:"adjust,omitempty" schema:"Differences"`
}

// FieldDocs returns the texts that are too long for tags.
func (adjustBody) FieldDocs() map[string]string {
	return map[string]string{"adjust": "tokens used beyond those taken, by limit; negative gives back"}
}

// commitBody corrects a lease before it ends.
type commitBody struct{ adjustBody }

// emptyBody has no fields.
type emptyBody struct{}

func leaseRoutes() []route {
	return []route{
		post("acquire", "/v1/acquire", "Take tokens of every limit named, or of none", RoleAcquire, true, acquire),
		post("consumeLease", "/v1/leases/{id}/consume", "Take more tokens under a lease", RoleAcquire, true, consume),
		post("adjustLease", "/v1/leases/{id}/adjust", "Correct the amounts of a lease", RoleAcquire, true, adjust),
		post("commitLease", "/v1/leases/{id}/commit", "Store the corrections and end a lease", RoleAcquire, true,
			commit),
		post("rollbackLease", "/v1/leases/{id}/rollback", "Give everything back and end a lease", RoleAcquire, true,
			rollback),
		post("explain", "/v1/explain", "Explain whether a request would be admitted", RoleRead, false, explain),
	}
}

func acquire(c *call, body acquireBody) (*admission, error) {
	req, err := body.request(c.by)
	if err != nil {
		return nil, err
	}

	s := c.server
	if s.draining.Load() {
		return nil, errDraining
	}
	// A call that commits at once leaves no lease, so it needs no place. Any other
	// gets its place before the charge, which would have to be rolled back without
	// one.
	reserved := !body.Commit
	if reserved && !s.leases.reserve(c.by.owner, s.leaseShare()) {
		return nil, errBusy
	}
	defer func() {
		if reserved {
			s.leases.release(c.by.owner)
		}
	}()

	lease, err := c.lim.Acquire(c.ctx, req)
	if err != nil {
		s.writes.note(c.ctx, err)
		return nil, c.forOperator(err, req.Entity, req.Resource)
	}

	decision, outage := lease.Decision(), lease.Outage()
	s.writes.note(c.ctx, outage)
	jsonview.Fields(decision).Set(c.Header, decision)
	admitted := &admission{
		Consumed: maps.Collect(lease.Consumed().All()), Outage: outage != nil, Limits: ownLimits(req, decision),
	}

	// In an outage the lease took nothing, so that the client has nothing to settle.
	// Commit ends it without I/O, and the place is free again.
	if outage != nil {
		s.opts.OnError(outage)
		return admitted, lease.Commit(c.ctx)
	}
	if body.Commit {
		c.answered = func(delivered bool) { s.finish(c.ctx, lease, delivered) }
		return admitted, nil
	}

	// The lease has the place from here on.
	reserved = false
	open := s.leases.add(lease, c.by.owner)
	c.answered = func(delivered bool) {
		if delivered {
			return
		}
		// The client does not know the ID, so that it can never settle the lease.
		s.leases.remove(open)
		if err := open.end(c.ctx, lease.Rollback); err != nil {
			s.opts.OnError(err)
		}
	}

	ends := open.ends.UTC().Truncate(time.Millisecond)
	admitted.Lease, admitted.ExpiresAt = &open.id, &ends
	return admitted, nil
}

// finish ends a lease that its client does not see, and reports an error. A commit
// without adjustments does no I/O.
func (s *Server) finish(ctx context.Context, lease *limiter.Lease, delivered bool) {
	settle := lease.Rollback
	if delivered {
		settle = lease.Commit
	}

	if err := settle(ctx); err != nil {
		s.opts.OnError(err)
	}
}

// leaseShare returns how many leases one caller may have open. Where there are
// several tokens, none can lock the others out.
func (s *Server) leaseShare() int {
	if s.opts.Tokens != nil && s.opts.Tokens.Len() > 1 {
		return max(1, s.leases.most/2)
	}
	return s.leases.most
}

// ownLimits returns the limits of the requesting entity, without its parent's.
func ownLimits(req limiter.Request, d limiter.Decision) []jsonview.Status {
	own := make([]jsonview.Status, 0, len(d.Statuses))
	for _, st := range d.Statuses {
		if st.Entity == req.Entity {
			own = append(own, jsonview.NewStatus(st))
		}
	}

	return own
}

// withLease calls do with a lease of the caller, one call at a time.
func (c *call) withLease(do func(*openLease) error) (*settlement, error) {
	open := c.server.leases.get(c.Request.PathValue("id"), c.by.owner)
	if open == nil {
		return nil, errGone
	}

	open.mu.Lock()
	defer open.mu.Unlock()
	// Another call may have ended the lease while this one waited for the lock.
	if open.ended {
		return nil, errGone
	}

	if err := do(open); err != nil {
		return nil, err
	}

	return &settlement{Lease: open.id, Consumed: maps.Collect(open.lease.Consumed().All())}, nil
}

func consume(c *call, body consumeBody) (*settlement, error) {
	if len(body.Consume) == 0 {
		return nil, web.Bad("body: field consume: must name a limit")
	}
	if err := errors.Join(checkNames(body.Consume), checkTaken(body.Consume)); err != nil {
		return nil, err
	}

	return c.withLease(func(open *openLease) error {
		earlier := open.lease.Outage()
		err := open.lease.Consume(c.ctx, amountsOf(body.Consume))
		c.server.noteConsume(c.ctx, err, earlier, open.lease.Outage())
		// The request names only a lease, whose decision has the entity and the
		// resource.
		if d := open.lease.Decision(); len(d.Statuses) > 0 {
			err = c.forOperator(err, d.Statuses[0].Entity, d.Statuses[0].Resource)
		}
		return err
	})
}

// noteConsume notes the result of Lease.Consume. A lease that allows outages returns no
// error in one, and Outage returns the first alone.
func (s *Server) noteConsume(ctx context.Context, err, earlier, outage error) {
	switch {
	case err != nil || outage == nil:
		s.writes.note(ctx, err)
	case earlier == nil:
		s.writes.note(ctx, outage)
		s.opts.OnError(outage)
	// The lease had an outage before, so nothing shows whether this call had one too.
	default:
	}
}

// forOperator makes the lack of limits a fault of the server, which its log explains.
// A caller that takes tokens cannot store limits, and nothing shows whether it
// mistyped a name or the operator forgot to store limits.
func (c *call) forOperator(err error, entity, resource string) error {
	if !errors.Is(err, limiter.ErrNoLimits) {
		return err
	}
	return &hint.NoLimitsError{Namespace: c.by.Namespace, Entity: entity, Resource: resource, Err: err}
}

func adjust(c *call, body adjustBody) (*settlement, error) {
	if len(body.Used)+len(body.Adjust) == 0 {
		return nil, web.Bad("body: used or adjust must name a limit")
	}
	if err := body.check(); err != nil {
		return nil, err
	}
	return c.withLease(func(open *openLease) error { return open.correct(body) })
}

// check rejects a body that no lease can take, so that it gets 400 whether or not
// the lease exists.
func (b adjustBody) check() error {
	if err := errors.Join(checkNames(b.Used), checkNames(b.Adjust)); err != nil {
		return err
	}

	for limit, n := range b.Used {
		if n < 0 {
			return web.Bad("body: field used: %q must be 0 or more", web.Clip(limit))
		}
		if _, twice := b.Adjust[limit]; twice {
			return &httplimit.Problem{
				Status: http.StatusConflict,
				Detail: fmt.Sprintf("body: used and adjust name %q; name it in one of them", limit),
			}
		}
	}

	for limit, n := range b.Adjust {
		if n < -maxAdjusted || n > maxAdjusted {
			return web.Bad("body: field adjust: %q must be between %d and %d", web.Clip(limit), -maxAdjusted,
				maxAdjusted)
		}
	}

	return nil
}

// correct applies a checked body to the lease, all of it or nothing.
func (o *openLease) correct(body adjustBody) error {
	if len(body.Used)+len(body.Adjust) == 0 {
		return nil
	}

	taken := o.lease.Consumed()
	delta := amountsOf(body.Adjust)
	for limit, n := range amountsOf(body.Used).All() {
		delta = delta.And(limit, n-taken.Get(limit))
	}

	o.corrected = true
	return o.lease.Adjust(delta)
}

func commit(c *call, body commitBody) (*settlement, error) {
	if err := body.check(); err != nil {
		return nil, err
	}
	return c.end(func(open *openLease) error { return open.correct(body.adjustBody) }, (*limiter.Lease).Commit)
}

func rollback(c *call, _ emptyBody) (*settlement, error) {
	return c.end(func(*openLease) error { return nil }, (*limiter.Lease).Rollback)
}

// end ends a lease with settle after prepare succeeded. The lease ends even if
// the store fails, since a second try could give back twice.
func (c *call) end(
	prepare func(*openLease) error, settle func(*limiter.Lease, context.Context) error,
) (*settlement, error) {
	done, err := c.withLease(func(open *openLease) error {
		if err := prepare(open); err != nil {
			return err
		}

		open.ended = true
		c.server.leases.remove(open)
		err := settle(open.lease, c.ctx)

		// A success is not noted: a commit without corrections does no I/O.
		if unavailable, ok := errors.AsType[*limiter.UnavailableError](err); ok {
			c.server.writes.note(c.ctx, err)
			c.server.opts.OnError(unavailable)
			return errUnsettled
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	done.Ended = true
	return done, nil
}

func explain(c *call, body explainBody) (jsonview.Explanation, error) {
	req, err := acquireBody{
		Entity: body.Entity, Resource: body.Resource, Consume: body.Consume, Limits: body.Limits,
	}.request(c.by)
	if err != nil {
		return jsonview.Explanation{}, err
	}

	d, levels, err := jsonview.Explain(c.ctx, c.lim, c.repo, req)
	if off, disabled := errors.AsType[*limiter.DisabledError](err); disabled {
		return jsonview.NewDisabledExplanation(req, off, levels), nil
	}
	if err != nil {
		return jsonview.Explanation{}, web.Outage("explain", err)
	}
	return jsonview.NewExplanation(req, d, levels), nil
}
