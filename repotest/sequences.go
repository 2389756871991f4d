package repotest

import (
	"fmt"
	"iter"

	"github.com/zeroae/zae-limiter-go"
)

func sequenceChecks() []check {
	return []check{
		{"a loop may call back", loopsCallBack},
		{"a loop may stop early", loopsStop},
		{"a loop that begins after Close gets the error", loopsAfterClose},
	}
}

// sequences returns every sequence of the repository without its elements. The
// store is populated so that each has at least two.
func (f *fixture) sequences() map[string]iter.Seq[error] {
	f.Helper()
	f.populate()
	f.namespace("other")
	f.setLimits(limiter.Scope{Entity: "project-1"}, perMinute60)
	f.create(limiter.Entity{ID: "project-1", Name: "project-1"})
	f.disable(limiter.Scope{Resource: "claude"}, reason)

	r := f.repo

	all := map[string]iter.Seq[error]{
		"Buckets":            errorsOf(r.Buckets(f.ctx, epoch, limiter.Scope{Resource: model})),
		"Entities":           errorsOf(r.Entities(f.ctx, "")),
		"EntitiesWithLimits": errorsOf(r.EntitiesWithLimits(f.ctx, "")),
		"Switches":           errorsOf(r.Switches(f.ctx)),
		"Namespaces":         errorsOf(r.Namespaces(f.ctx)),
		"AuditEvents":        errorsOf(r.AuditEvents(f.ctx, "$SYSTEM", "")),
		"Usage":              errorsOf(r.Usage(f.ctx, limiter.UsageQuery{Resource: model})),
	}
	// Without counting, there may be no usage to iterate over.
	if !f.countsUsage {
		delete(all, "Usage")
	}

	return all
}

func errorsOf[T any](seq iter.Seq2[T, error]) iter.Seq[error] {
	return func(yield func(error) bool) {
		for _, err := range seq {
			if !yield(err) {
				return
			}
		}
	}
}

// loopsCallBack would hang if a store held a lock while a loop body runs.
func loopsCallBack(f *fixture) {
	rounds := 0

	for name, seq := range f.sequences() {
		elements := 0
		for err := range seq {
			f.ok(name, err)
			elements++
			// What the calls below create may join the sequence, so that
			// calling back for each element might never end.
			if elements > 1 {
				continue
			}

			rounds++
			id := fmt.Sprintf("new-%d", rounds)
			f.create(limiter.Entity{ID: id, Name: id})
			f.setLimits(limiter.Scope{Entity: id}, perMinute60)
			f.take(0, ask(id, rpm(1)), 59_000)
			f.namespace(id)
			f.listed(0, id, 59_000)
		}

		if elements < 2 {
			f.Errorf("%s: %d elements, want at least 2", name, elements)
		}
	}
}

func loopsStop(f *fixture) {
	for name, seq := range f.sequences() {
		for err := range seq {
			f.ok(name, err)
			break
		}
		// A lock that the loop has left behind would block this call.
		f.setLimits(limiter.Scope{}, perMinute60)
	}
}

func loopsAfterClose(f *fixture) {
	all := f.sequences()

	f.ok("Close", f.repo.Close())
	for name, seq := range all {
		var last error
		for err := range seq {
			last = err
		}
		f.fails(name, last, limiter.ErrClosed)
	}
}
