package llm

import (
	"context"
	"errors"
	"sync"

	"github.com/zeroae/zae-limiter-go"
)

// Lease is the lease of a call. Answer attaches the answer to it, and Write reads
// the answer. Commit charges the usage. A lease ends once. All methods are safe
// for concurrent use.
type Lease struct {
	*limiter.Lease
	owner    *Limiter
	entity   string
	request  *Request // nil for a call without tokens
	price    Price    // zero if there is none
	names    Limits
	estimate Usage

	mu     sync.Mutex
	answer *Answer
	taken  int64 // tokens of the answer that Write has taken beyond the estimate
}

// Estimate returns the usage that Acquire took, and its cost.
func (l *Lease) Estimate() Usage { return l.estimate }

// Answer begins to read an answer with the given Content-Type and
// Content-Encoding, and returns l for a chained Write. Without it, Write expects
// plain JSON.
func (l *Lease) Answer(contentType, encoding string) *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(contentType, encoding)
	return l
}

func (l *Lease) begin(contentType, encoding string) {
	if l.request != nil {
		l.answer = NewAnswer(l.request.Format, contentType, encoding, &AnswerOptions{MaxBytes: l.owner.opts.MaxBytes})
	}
}

// Write reads the next part of the answer. If Options.Step is set and the text of a
// stream has outgrown what the lease holds, Write takes more from the limits. If they
// have no room, it returns an *limiter.ExceededError, or a *limiter.DisabledError if
// a level is off, and the number of bytes up to the end of the event that did not fit. The caller should cut the answer there
// and commit the lease. Otherwise the error is nil.
func (l *Lease) Write(p []byte) (int, error) { return l.WriteContext(context.Background(), p) }

// WriteContext reads the next part of the answer, as Write does, with a context for
// the calls to the store.
func (l *Lease) WriteContext(ctx context.Context, p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer == nil {
		l.begin("application/json", "")
	}
	if l.answer == nil {
		return len(p), nil
	}
	if l.owner.opts.Step == 0 || !l.answer.stream {
		return l.answer.Write(p)
	}
	for n := 0; n < len(p); {
		n += l.answer.writeEvent(p[n:])
		if !l.answer.grown {
			continue // a report at the end of a stream must not cut it
		}
		if err := l.extend(ctx); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// extend takes the steps by which the answer has outgrown the lease, all or none.
// It takes nothing once the usage is final. An outage does not stop a stream: its
// answer is charged at the end.
func (l *Lease) extend(ctx context.Context) error {
	u, final := l.answer.Usage()
	missing := u.Output - l.estimate.Output - l.taken
	names := Limits{Total: l.names.Total, Output: l.names.Output, Cost: l.names.Cost}
	if final || missing <= 0 || names == (Limits{}) {
		return nil
	}
	step := l.owner.opts.Step
	more := ((missing-1)/step + 1) * step
	err := l.Consume(ctx, names.Amounts(0, Usage{Output: more, Cost: l.costOf(l.taken+more) - l.costOf(l.taken)}))
	_, refused := errors.AsType[*limiter.ExceededError](err)
	_, disabled := errors.AsType[*limiter.DisabledError](err)
	if refused || disabled {
		return err
	}
	l.taken += more
	return nil
}

// costOf returns the cost of the estimate with an answer that is longer by n
// tokens. The steps of a stream charge differences of it, so that their sum is
// rounded up once.
func (l *Lease) costOf(n int64) int64 {
	return l.price.charge(Usage{Input: l.estimate.Input, Output: l.estimate.Output + n})
}

// Usage returns the usage that Commit charges, and reports whether the answer
// reported it. If it did not, the estimate stays: the prompt counts as estimated
// unless the answer reported it, and the answer as estimated unless more of it
// has arrived.
func (l *Lease) Usage() (u Usage, reported bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usage()
}

func (l *Lease) usage() (Usage, bool) {
	if l.answer == nil {
		return l.estimate, false
	}
	u, reported := l.tokens()
	u.Cost = l.price.charge(u)
	return u, reported
}

// tokens returns the tokens of Usage.
func (l *Lease) tokens() (Usage, bool) {
	u, complete := l.answer.Usage()
	if complete {
		return u, true
	}
	if !l.answer.inputKnown() {
		u.Input, u.Cached, u.Written = l.estimate.Input, 0, 0
	}
	u.Output = max(u.Output, l.estimate.Output)
	return u, false
}

// Commit ends the answer and the lease, and charges one request and Usage. It
// remembers the length of a complete answer for later estimates.
func (l *Lease) Commit(ctx context.Context) error {
	l.mu.Lock()
	if l.answer != nil {
		_ = l.answer.Close()
	}
	u, reported := l.usage()
	l.mu.Unlock()
	if reported && l.request != nil {
		l.owner.averages.learn(l.entity, l.request.Model, float64(u.Output)/float64(max(l.request.Choices, 1)))
	}
	return l.commit(ctx, u)
}

// CommitRequest ends the lease and charges one request, no tokens and no cost, for
// a call that the API refused. APIs count such calls and do not bill them.
func (l *Lease) CommitRequest(ctx context.Context) error { return l.commit(ctx, Usage{}) }

// commit charges one request and u.
func (l *Lease) commit(ctx context.Context, u Usage) error {
	change := l.names.Amounts(1, u)
	for limit, n := range l.Consumed().All() {
		change = change.And(limit, -n)
	}
	if err := l.Adjust(change); err != nil {
		return errors.Join(err, l.Lease.Commit(ctx))
	}
	return l.Lease.Commit(ctx)
}
