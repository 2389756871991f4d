package repotest

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func lifecycleChecks() []check {
	return []check{
		{"an open repository answers every call", openAnswers},
		{"a closed repository answers none", closedAnswersNone},
		{"a view of a closed repository answers none", closedViewAnswersNone},
		{"closing twice succeeds", closedTwice},
		{"closing a view does nothing", closedView},
		{"a cancelled context writes nothing", cancelledWritesNothing},
		{"a context past its deadline writes nothing", expiredWritesNothing},
	}
}

func openAnswers(f *fixture) {
	for _, c := range f.calls(f.populate()) {
		f.ok(c.name, c.do(f.ctx))
	}
}

func closedAnswersNone(f *fixture) {
	calls := f.calls(f.populate())
	f.ok("Close", f.repo.Close())

	for _, c := range calls {
		f.fails(c.name+" after Close", c.do(f.ctx), limiter.ErrClosed)
	}

	// The limiter calls it while the store fails, so it must not panic.
	_ = f.repo.OnUnavailable()
}

func closedViewAnswersNone(f *fixture) {
	_, view := f.namespace("other")

	calls := view.calls(view.populate())
	f.ok("Close", f.repo.Close())
	for _, c := range calls {
		f.fails(c.name+" of a view after Close", c.do(f.ctx), limiter.ErrClosed)
	}
}

func closedTwice(f *fixture) {
	f.ok("Close", f.repo.Close())
	f.ok("second Close", f.repo.Close())
	f.fails("Ping", f.repo.Ping(f.ctx), limiter.ErrClosed)
}

func closedView(f *fixture) {
	_, view := f.namespace("other")

	f.ok("Close of a view", view.repo.Close())
	for _, c := range view.calls(view.populate()) {
		view.ok(c.name+" of a view after its Close", c.do(f.ctx))
	}
	f.ok("Ping", f.repo.Ping(f.ctx))
}

func cancelledWritesNothing(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	f.writesNothing(ctx)
}

func expiredWritesNothing(f *fixture) {
	ctx, cancel := context.WithDeadline(f.ctx, time.Unix(0, 0))
	defer cancel()
	f.writesNothing(ctx)
}

// writesNothing checks that every call returns the error of a done context,
// and changes nothing. The last two calls would delete what the state shows.
func (f *fixture) writesNothing(ctx context.Context) {
	f.Helper()

	calls := f.calls(f.populate())
	before := f.state(0)

	for _, c := range calls {
		f.fails(c.name, c.do(ctx), ctx.Err())
	}
	f.equal("state", f.state(0), before)
}
