package repotest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// Compare drives two empty repositories with the same random history and stops
// the test at the first answer in which they differ, or that breaks the
// promise: what was admitted in any window, less what was given back, is at
// most the capacity plus the refill of the window.
//
// Now and then a limiter on each repository explains a request before it acquires
// it: what it does must be what it said, to the last status. Other limiters hold
// leases while parents, limits and buckets change under them: no account may get
// back more than it paid under its lease.
//
// The history has two clients whose clocks are up to two seconds ahead or behind,
// takes and gives back, overrides, changes of limits and entities, deletions,
// namespaces, reads of everything, pauses of up to days, processes that start
// cold (a repository with a method Forget is called to drop its caches), and faults (see
// Faulty): calls that never arrive, and calls whose answer is lost. It depends
// on seed alone.
//
// What may be listed in except is "usage", if one of the stores leaves counting
// it to another program, and "override", if something refills the buckets of one
// store ahead of need: an override refills, by its own limits, only what was not
// refilled before.
func Compare(tb testing.TB, seed uint64, ops int, first, second limiter.Repository, except ...string) {
	tb.Helper()
	h := &history{
		countsUsage: !slices.Contains(except, usageNoun), overrides: !slices.Contains(except, overrideNoun), charged: map[entityKey]bool{},
		TB: tb, seed: seed, ops: ops, rng: rand.New(rand.NewPCG(seed, 0)), ctx: context.Background(),
		now: time.Date(2026, time.January, 31, 23, 58, 0, 0, time.UTC), promise: newPromise(),
	}
	for _, repo := range []limiter.Repository{first, second} {
		if r, ok := repo.(forgetter); ok {
			h.cold = append(h.cold, r)
		}
	}
	if len(h.cold) > 0 && seed%2 == 0 {
		h.overrides = false // a cold process cannot know since when an override refills
	}
	h.main = &pair{h: h, name: "default", repos: [2]limiter.Repository{h.faulty(0, first), h.faulty(1, second)}}
	h.where = h.main
	for range ops {
		h.step()
	}
	h.finish()
}

// history is a comparison under way.
type history struct {
	testing.TB
	countsUsage bool
	overrides   bool
	charged     map[entityKey]bool // may have a bucket, if only an expired one

	seed     uint64
	ops      int
	rng      *rand.Rand
	ctx      context.Context
	now      time.Time
	events   int
	log      []string     // the last operations, to find out from
	fault    Fault        // of this call, or of the last
	saw      [2]testimony // of each repository, whatever the caller heard
	cold     []forgetter
	main     *pair
	where    *pair // the namespace of this step
	spaces   []*pair
	leases   []*lease
	held     []*heldLease
	leaseNow time.Time     // the clock of the limiters that hold them
	last     limiter.Scope // whose bucket was charged
	promise  *promise
}

// entityKey is an entity of a namespace.
type entityKey struct {
	in     *pair
	entity string
}

// pair is one namespace in both repositories.
type pair struct {
	h     *history
	name  string
	ids   [2]string // of the namespace
	repos [2]limiter.Repository
}

// lease is a charge that may be given back: the accounts as each repository
// knows them.
type lease struct {
	in       *pair
	accounts [2]*limiter.Account
	amounts  limiter.Amounts
	watched  *watched // the bucket's history at the time
	gone     bool     // its entity was deleted: nothing it does counts any more
}

// step is one operation of one client.
func (h *history) step() {
	h.pass()
	h.where, h.saw = h.main, [2]testimony{}
	if len(h.spaces) > 0 && h.chance(8) {
		h.where = pick(h.rng, h.spaces)
	}
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	n := h.rng.IntN(total)
	for _, o := range operations {
		if n -= o.weight; n < 0 {
			o.run(h)
			return
		}
	}
}

// operations are what may happen, and how often.
var operations = []struct {
	weight int
	run    func(*history)
}{
	{50, (*history).consume},
	{12, (*history).explainThenAcquire},
	{4, (*history).consumeBetween},
	{20, (*history).credit},
	{6, (*history).hold},
	{14, (*history).useLease},
	{3, (*history).restart},
	{6, (*history).setConfig},
	{2, (*history).deleteConfig},
	{3, (*history).createEntity},
	{1, (*history).deleteEntity},
	{3, (*history).readBuckets},
	{2, (*history).readUsage},
	{2, (*history).readFacts},
	{1, (*history).changeNamespace},
}

// pass lets time go by: mostly a little, at times long enough to fill or to
// expire.
func (h *history) pass() {
	switch {
	case h.chance(300):
		h.now = h.now.Add(time.Duration(h.rng.Int64N(int64(50 * time.Hour))))
	case h.chance(40):
		h.now = h.now.Add(time.Duration(h.rng.Int64N(int64(3 * time.Minute))))
	case h.chance(2):
		h.now = h.now.Add(time.Duration(h.rng.Int64N(int64(400 * time.Millisecond))))
	}
}

// forgetter is a repository that can drop what it has cached, as a process that
// has just started.
type forgetter interface{ Forget() }

// restart makes the repositories start cold, after a pause that is longer than
// clocks disagree: a cold process does not know the latest time that it passed
// to the store before. Nor does it know the buckets of leases of another process,
// which end here.
func (h *history) restart() {
	if len(h.cold) == 0 || h.overrides {
		return
	}
	h.now, h.leases, h.held = h.now.Add(2*maxSkew), nil, nil
	for _, r := range h.cold {
		h.note("%s Forget", stamp(h.now))
		r.Forget()
	}
}

// maxSkew is how far a client's clock may be ahead or behind.
const maxSkew = 2 * time.Second

// clock is the time as one of two clients sees it.
func (h *history) clock() time.Time {
	if h.chance(2) {
		return h.now
	}
	return h.now.Add(time.Duration(h.rng.Int64N(int64(2*maxSkew))) - maxSkew)
}

func (h *history) chance(oneIn int) bool { return h.rng.IntN(oneIn) == 0 }

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// truth is an outcome as the repository gave it.
type truth struct {
	out limiter.Outcome
	err error
}

// testimony is what the last Peek said, and what the last Consume and Credit
// did.
type testimony struct {
	peek, consume truth
	credits       []limiter.Credit
}

// faulty is a side of the comparison that fails when the history says so.
func (h *history) faulty(side int, repo limiter.Repository) limiter.Repository {
	return NewFaulty(&witness{repo, &h.saw[side]}, func(string) Fault { return h.fault })
}

// witness remembers charges and looks, for when their answers are lost.
type witness struct {
	limiter.Repository
	saw *testimony
}

// Consume is that of the repository, remembered.
func (w *witness) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := w.Repository.Consume(ctx, now, charge)
	w.saw.consume = truth{out, err}
	return out, err
}

// Peek is that of the repository, remembered.
func (w *witness) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := w.Repository.Peek(ctx, now, charge)
	w.saw.peek = truth{out, err}
	return out, err
}

// Credit remembers the credits and applies them.
func (w *witness) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	w.saw.credits = credits
	return w.Repository.Credit(ctx, now, credits...)
}

// Namespace is a view that remembers in the same place.
func (w *witness) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := w.Repository.Namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	return &witness{view, w.saw}, nil
}

// parentOf is whom an entity cascades to, or "".
func (h *history) parentOf(entity string) string {
	defer func(fault Fault) { h.fault = fault }(h.fault)
	h.fault = None
	e, err := h.where.repos[0].Entity(h.ctx, entity)
	if err != nil || !e.Cascade {
		return ""
	}
	return e.Parent
}

// note keeps an operation for the report.
func (h *history) note(format string, args ...any) {
	const kept = 30
	if len(h.log) == kept {
		h.log = h.log[1:]
	}
	h.log = append(h.log, h.where.name+": "+fmt.Sprintf(format, args...))
}

// fail ends the comparison with everything needed to repeat it.
func (h *history) fail(format string, args ...any) {
	h.Helper()
	h.Fatalf("%s\n\nthe last operations:\n  %s\n\nrepeat with: make compare SEED=%d OPS=%d",
		fmt.Sprintf(format, args...), strings.Join(h.log, "\n  "), h.seed, h.ops)
}

// same compares two answers.
func same[T any](h *history, what string, values [2]T, errs [2]error) {
	h.Helper()
	if a, b := class(errs[0]), class(errs[1]); a != b {
		h.fail("%s: the first repository says %q (%v), the second %q (%v)", what, a, errs[0], b, errs[1])
	}
	if diff := cmp.Diff(values[0], values[1]); diff != "" {
		h.fail("%s: the answers differ (-first +second):\n%s", what, diff)
	}
}

// both makes a call to both repositories, which may fail alike, and compares
// the answers.
func both[T any](h *history, what string, call func(side int, repo limiter.Repository) (T, error)) ([2]T, error) {
	h.Helper()
	var values [2]T
	var errs [2]error
	h.fault = None
	if h.chance(25) {
		h.fault = pick(h.rng, []Fault{Before, After})
		h.note("which fails (%d)", h.fault)
	}
	for i, repo := range h.where.repos {
		values[i], errs[i] = call(i, repo)
	}
	same(h, what, values, errs)
	return values, errs[0]
}

// class is what callers can tell errors apart by.
func class(err error) string {
	if err == nil {
		return ""
	}
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return "invalid " + bad.Field + " " + bad.Value
	}
	if down, ok := errors.AsType[*limiter.UnavailableError](err); ok {
		err = down.Err // what failed, whoever was calling
	}
	for _, state := range []error{limiter.ErrNotFound, limiter.ErrExists, limiter.ErrConflict, limiter.ErrClosed} {
		if errors.Is(err, state) {
			return state.Error()
		}
	}
	return "outage: " + err.Error()
}

// drained is a sequence as a list, nil with its error.
func drained[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
