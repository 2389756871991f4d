package loadtest

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// book holds what the auditor knows about a bucket.
//
// Calls belong to one of two epochs. The older epoch takes no new calls. When
// its last call ends, the younger epoch becomes the older one. The sums at the
// start of the older epoch thus cover the oldest running call, without a list
// of calls.
type book struct {
	mu sync.Mutex
	// ancestors holds the books of the payers above, from the parent up, as the last
	// answer named them. It is replaced and never changed.
	ancestors []*book
	pages     []*page // one for each limit ever seen
	longest   time.Duration
	epoch     int
	running   [2]int // calls by epoch&1
}

// page holds what the auditor knows about a limit of a bucket. Sums are in
// thousandths.
type page struct {
	name  string
	limit limiter.Limit
	// change is the auditor's count of changes when the ledger began.
	change int64
	// window is the start of the latest window of a quota that was charged.
	window   int64
	ledger   *bucket.Ledger // nil before the first admission
	given    int64          // give-backs that were answered
	taken    int64          // debits by credits that were answered
	inFlight int64          // give-backs that were not answered
	// givenAt and takenAt are given and taken at the start of each epoch, by
	// epoch&1.
	givenAt [2]int64
	takenAt [2]int64
}

// entry is a call that was answered.
type entry struct {
	auditor *auditor
	amounts *limiter.Amounts
	spared  []string // limits whose balance a credit leaves alone
	change  int64
	now     time.Time
	// end is read under the lock of the book, so that it never goes back.
	end time.Time
}

// begin notes the start of a call and returns its epoch.
func (b *book) begin() (epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.enter()
}

// call is the part of a running charge that one book knows.
type call struct {
	book  *book
	epoch int
}

// beginWithAncestors does what begin does on b and on the known books of its
// ancestors, and appends their calls to calls.
func (b *book) beginWithAncestors(calls []call) []call {
	b.mu.Lock()
	calls, ancestors := append(calls, call{b, b.enter()}), b.ancestors
	b.mu.Unlock()

	for _, above := range ancestors {
		calls = append(calls, call{above, above.begin()})
	}
	return calls
}

// enter counts a call that starts. The caller holds b.mu.
func (b *book) enter() (epoch int) {
	// While no call runs, no earlier credit can be in doubt, so both epochs
	// begin here.
	if b.running[0]+b.running[1] == 0 {
		b.mark(0)
		b.mark(1)
	}
	b.running[b.epoch&1]++
	return b.epoch
}

// leave uncounts a call that ends. The caller holds b.mu.
func (b *book) leave(epoch int) {
	b.running[epoch&1]--
	if b.running[(b.epoch+1)&1] == 0 {
		b.epoch++
		b.mark(b.epoch & 1)
	}
}

// mark notes the sums at the start of an epoch.
func (b *book) mark(parity int) {
	for _, p := range b.pages {
		p.givenAt[parity], p.takenAt[parity] = p.given, p.taken
	}
}

// since returns the give-backs and debits by credits that were answered since the
// oldest running call began.
func (b *book) since(p *page) (given, taken int64) {
	oldest := (b.epoch + 1) & 1
	return p.given - p.givenAt[oldest], p.taken - p.takenAt[oldest]
}

// page returns the page of a limit.
func (b *book) page(name string) *page {
	for _, p := range b.pages {
		if p.name == name {
			return p
		}
	}

	p := &page{name: name}
	b.pages = append(b.pages, p)
	return p
}

// finish notes the end of a charge and checks its admission if it counts.
func (b *book) finish(epoch int, e entry, counts bool, paid limiter.Bucket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.leave(epoch)
	if !counts {
		return
	}

	e.end = time.Now()
	b.longest = max(b.longest, e.end.Sub(e.now))
	e.auditor.lasted(b.longest)

	for i := range paid.Account.Limits {
		limit := &paid.Account.Limits[i]
		if amount, named := e.amounts.Lookup(limit.Name); named && !isSpared(paid, i) {
			b.admit(e, paid, i, bucket.Thousandths(amount))
		}
	}
}

// isSpared reports whether a shadow limit did not cover the charge, so that its
// balance did not change.
func isSpared(b limiter.Bucket, i int) bool {
	return b.Detail != nil && i < len(b.Detail.Spared) && b.Detail.Spared[i]
}

// time returns the time of an admission by limit i of a bucket: the end of the
// call, or for a quota the start of the window that paid. It reports false if
// an admission of a later window was answered before, since the ledger would
// count this one in that window.
func (p *page) time(e entry, paid limiter.Bucket, i int) (int64, bool) {
	if paid.Detail == nil || i >= len(paid.Detail.Starts) || !paid.Account.Limits[i].IsQuota() {
		return e.end.UnixMilli(), true
	}

	start := paid.Detail.Starts[i]
	if start < p.window {
		return 0, false
	}

	p.window = start
	return start, true
}

// admit checks an admission against limit i of a bucket.
func (b *book) admit(e entry, paid limiter.Bucket, i int, amount int64) {
	limit := &paid.Account.Limits[i]
	p := b.page(limit.Name)
	rate := rules.RateOf(*limit)

	if p.ledger == nil {
		e.auditor.limits.Add(1)
	}

	// After a change the bucket may have another limit or be full again, so
	// windows that began before it do not count.
	if p.ledger == nil || p.change != e.change || p.limit != *limit {
		p.ledger, p.change, p.limit, p.window = bucket.NewLedger(rate), e.change, *limit, math.MinInt64
	}

	at, inOrder := p.time(e, paid, i)
	if !inOrder {
		return
	}

	given, taken := b.since(p)
	excess := p.ledger.AdmitLate(at, amount, given)

	// The answers do not say when a call changed its bucket. The check
	// therefore allows for the refill of the longest call, the store's slack,
	// give-backs without an answer, and debits that may have come after the
	// admission. Both ends of a window are rounded to milliseconds, and its
	// refill to thousandths.
	const rounding = 2
	allowed := bucket.Add(1, bucket.Accrued(0, b.longest.Milliseconds()+rounding, rate))
	allowed = bucket.Add(allowed, int64(e.auditor.slack*float64(rate.Capacity)))
	allowed = bucket.Add(allowed, bucket.Add(p.inFlight, taken))

	e.auditor.checks.Add(1)
	if excess > allowed {
		e.auditor.report(paid.Account, limit.Name, bucket.Sub(excess, allowed))
	}
}

// beginCredit notes the start of a credit and returns its epoch.
func (b *book) beginCredit(c *limiter.Credit) (epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range c.Amounts.Len() {
		if name, n := c.Amounts.At(i); n > 0 && !slices.Contains(c.Spared, name) {
			p := b.page(name)
			p.inFlight = bucket.Add(p.inFlight, bucket.Thousandths(n))
		}
	}
	return b.enter()
}

// finishCredit notes the end of a credit. A give-back counts even after an error,
// since the store may have made it. A debit counts only if it was made.
func (b *book) finishCredit(epoch int, e entry, made bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.leave(epoch)

	e.end = time.Now()
	b.longest = max(b.longest, e.end.Sub(e.now))
	at := e.end.UnixMilli()

	for i := range e.amounts.Len() {
		name, n := e.amounts.At(i)
		if slices.Contains(e.spared, name) {
			continue
		}
		p, amount := b.page(name), bucket.Thousandths(n)

		switch {
		case n > 0:
			p.inFlight = bucket.Sub(p.inFlight, amount)
			p.given = bucket.Add(p.given, amount)
			if p.ledger != nil {
				p.ledger.Give(at, amount)
			}
		case made && p.ledger != nil && p.change == e.change:
			given, _ := b.since(p)
			p.taken = bucket.Sub(p.taken, amount)
			p.ledger.TakeLate(at, -amount, given)
		}
	}
}

// setAncestors notes where the entity cascades to.
func (b *book) setAncestors(books []*book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.ancestors, books) {
		b.ancestors = slices.Clone(books)
	}
}
