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

// Compare drives two empty repositories with the same random history. It stops
// the test at the first answer in which they differ, and at the first
// balance that breaks the guarantee of a limit. In any window, the tokens
// admitted less the tokens given back are at most the capacity plus the refill
// of the window, and no token is lost. An oracle counts them from the calls and
// their results, by arithmetic of its own, over changes of limits and the expiry of
// buckets.
//
// At times a limiter on each repository explains a request before it acquires
// it. Both answers must agree in every status. Other limiters hold leases
// while parents, limits and buckets change. No account may get back more than
// it paid under its lease.
//
// The history has two clients whose clocks are up to two seconds ahead or
// behind. It consumes and credits, with and without overrides, changes limits
// and entities, deletes them, uses several namespaces, reads everything, and
// pauses for up to weeks. Capacities, windows, paces and levels go back and forth while
// leases are open. Processes restart cold: if a repository has a method
// Forget, Compare calls it to drop the caches. Calls fail (see [Faulty])
// before they arrive or after they were executed. The history depends on seed
// alone.
//
// except may list "usage", if another program counts the usage of one store,
// and "override", if the buckets of one store are refilled ahead of need. An
// override refills by its own limits only the time that was not refilled
// before.
func Compare(tb testing.TB, seed uint64, ops int, first, second limiter.Repository, except ...string) {
	tb.Helper()
	h := &history{
		pages:       hasPages(first) && hasPages(second),
		countsUsage: !slices.Contains(except, usageNoun), overrides: !slices.Contains(except, overrideNoun),
		charged: map[entityKey]bool{},
		TB:      tb, seed: seed, ops: ops, rng: rand.New(rand.NewPCG(seed, 0)), ctx: context.Background(),
		era: eras[seed%uint64(len(eras))], oracle: newOracle(), topUps: map[topUpKey]time.Time{},
	}

	h.now = h.era.begin
	for _, repo := range []limiter.Repository{first, second} {
		if r, ok := repo.(forgetter); ok {
			h.cold = append(h.cold, r)
		}
	}

	if len(h.cold) > 0 && seed%2 == 0 {
		// Half of the seeds restart processes, and use no overrides. An
		// override refills from the time of the last charge, which a cold
		// process may not know.
		h.overrides = false
	}

	h.main = &pair{h: h, name: "default", repos: [2]limiter.Repository{h.faulty(0, first), h.faulty(1, second)}}
	h.where = h.main

	for range ops {
		h.step()
	}
	h.finish()
}

// history is a running comparison.
type history struct {
	testing.TB
	countsUsage bool
	overrides   bool
	// pages reports whether both repositories are limiter.BucketPagers.
	pages bool
	// charged holds the entities that may have a bucket, even an expired one.
	charged map[entityKey]bool

	seed   uint64
	ops    int
	rng    *rand.Rand
	ctx    context.Context
	era    era
	now    time.Time
	events int
	log    []string // the last operations, for the report
	fault  Fault    // of the current or the last call
	// observed is what each repository did, even if the answer was lost.
	observed   [2]observation
	cold       []forgetter
	main       *pair
	where      *pair // the namespace of this step
	namespaces []*pair
	leases     []*lease
	held       []*heldLease
	leaseNow   time.Time     // clock of the limiters with held leases
	last       limiter.Scope // scope of the bucket charged last
	oracle     *oracle
	twins      twins
	// topUps is when each top-up was made last.
	topUps    map[topUpKey]time.Time
	deletions int // of entities
	lastTopUp limiter.Fill
	toppedUp  *pair // the namespace of lastTopUp
}

// entityKey identifies an entity of a namespace.
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

// lease is a charge that can be given back, with the accounts of each
// repository.
type lease struct {
	in       *pair
	accounts [2]*limiter.Account
	amounts  limiter.Amounts
	spared   []string // limits that the charge spared
	// record and expiry are what the oracle had of the bucket at the charge.
	// They differ later if the bucket may have been replaced.
	record *record
	expiry int
	// gone reports that its entity was deleted, so that its credits have no
	// effect.
	gone bool
}

// step makes one random operation.
func (h *history) step() {
	h.advance()
	h.where, h.observed = h.main, [2]observation{}

	if len(h.namespaces) > 0 && h.chance(8) {
		h.where = pick(h.rng, h.namespaces)
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

// operations lists the operations and their weights.
var operations = []struct {
	weight int
	run    func(*history)
}{
	{50, (*history).consume},
	{12, (*history).explainThenAcquire},
	{4, (*history).consumeBetween},
	{6, (*history).reshape},
	{3, (*history).rush},
	{20, (*history).credit},
	{6, (*history).hold},
	{14, (*history).useLease},
	{3, (*history).restart},
	{6, (*history).setConfig},
	{2, (*history).deleteConfig},
	{3, (*history).createEntity},
	{1, (*history).deleteEntity},
	{3, (*history).readBuckets},
	{2, (*history).readPages},
	{2, (*history).readUsage},
	{2, (*history).readRecords},
	{1, (*history).changeNamespace},
	{4, (*history).changeSwitch},
	{4, (*history).fill},
	{14, (*history).useTwins},
	{7, (*history).swing},
	{4, (*history).adjust},
}

// forgetter is a repository that can drop its caches, like a process that has
// just started.
type forgetter interface{ Forget() }

// restart makes the repositories start cold, after a pause that is longer than
// the skew of the clocks: a cold process does not know the latest time that it
// passed to the store. It does not know the buckets of earlier leases either,
// so they end here.
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

// maxSkew is the maximal error of a client's clock.
const maxSkew = 2 * time.Second

// clock returns the time of one of two clients.
func (h *history) clock() time.Time {
	if h.chance(2) {
		return h.now
	}
	return h.now.Add(time.Duration(h.rng.Int64N(int64(2*maxSkew))) - maxSkew)
}

func (h *history) chance(oneIn int) bool { return h.rng.IntN(oneIn) == 0 }

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// result is an answer of a repository.
type result struct {
	out limiter.Outcome
	err error
}

// observation holds the last calls of a repository.
type observation struct {
	peek, consume result
	credits       []limiter.Credit
	calls         []observedCall // charges and credits in their order
	filled        bool
	fillErr       error
	deleteErr     error // of DeleteEntity
}

// observedCall is a charge or a call of credits that a repository has executed.
type observedCall struct {
	charge limiter.Charge
	result
	credits []limiter.Credit // nil for a charge
}

// faulty returns one side of the comparison, which fails with the fault of the
// history.
func (h *history) faulty(side int, repo limiter.Repository) limiter.Repository {
	return NewFaulty(&recorder{repo, &h.observed[side]}, func(string) Fault { return h.fault })
}

// recorder records calls, so that they are known even if their answers are
// lost.
type recorder struct {
	limiter.Repository
	observed *observation
}

// Consume calls the repository and records the outcome.
func (w *recorder) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := w.Repository.Consume(ctx, now, charge)
	w.observed.consume = result{out, err}
	w.observed.calls = append(w.observed.calls, observedCall{charge: charge, result: result{out, err}})
	return out, err
}

// Peek calls the repository and records the outcome.
func (w *recorder) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := w.Repository.Peek(ctx, now, charge)
	w.observed.peek = result{out, err}
	return out, err
}

// Credit records the credits and applies them.
func (w *recorder) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	w.observed.credits = credits
	w.observed.calls = append(w.observed.calls, observedCall{credits: credits})
	return w.Repository.Credit(ctx, now, credits...)
}

// Fill calls the repository and records the answer.
func (w *recorder) Fill(ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent) (bool, error) {
	done, err := w.Repository.Fill(ctx, now, f, ev)
	w.observed.filled, w.observed.fillErr = done, err
	return done, err
}

// DeleteEntity calls the repository and records the error.
func (w *recorder) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	w.observed.deleteErr = w.Repository.DeleteEntity(ctx, id, ev)
	return w.observed.deleteErr
}

// Namespace returns a view that records in the same place.
func (w *recorder) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := w.Repository.Namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	return &recorder{view, w.observed}, nil
}

// note adds an operation to the report.
func (h *history) note(format string, args ...any) {
	const kept = 30
	if len(h.log) == kept {
		h.log = h.log[1:]
	}
	h.log = append(h.log, h.where.name+": "+fmt.Sprintf(format, args...))
}

// fail ends the comparison. It prints the last operations and the command that
// repeats the run.
func (h *history) fail(format string, args ...any) {
	h.Helper()
	h.Fatalf("%s\n\nthe last operations:\n  %s\n\nrepeat with: make compare SEED=%d OPS=%d",
		fmt.Sprintf(format, args...), strings.Join(h.log, "\n  "), h.seed, h.ops)
}

// compareAnswers compares two answers.
func compareAnswers[T any](h *history, what string, values [2]T, errs [2]error) {
	h.Helper()

	if a, b := errorClass(errs[0]), errorClass(errs[1]); a != b {
		h.fail("%s: the first repository says %q (%v), the second %q (%v)", what, a, errs[0], b, errs[1])
	}

	if diff := cmp.Diff(values[0], values[1]); diff != "" {
		h.fail("%s: the answers differ (-first +second):\n%s", what, diff)
	}
}

// both calls both repositories, with the same fault at times, and compares the
// answers.
func both[T any](h *history, what string, call func(side int, repo limiter.Repository) (T, error)) ([2]T, error) {
	h.Helper()
	var values [2]T
	var errs [2]error

	// Both sides get the same fault, or their buckets would differ from here
	// on.
	h.fault = None
	if h.chance(25) {
		h.fault = pick(h.rng, []Fault{Before, After})
		h.note("which fails (%d)", h.fault)
	}

	for i, repo := range h.where.repos {
		values[i], errs[i] = call(i, repo)
	}
	compareAnswers(h, what, values, errs)
	return values, errs[0]
}

// errorClass returns the part of an error that callers can tell apart.
func errorClass(err error) string {
	if err == nil {
		return ""
	}

	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return "invalid " + bad.Field + " " + bad.Value
	}

	if off, ok := errors.AsType[*limiter.DisabledError](err); ok {
		return fmt.Sprintf("disabled %+v", *off)
	}
	if down, ok := errors.AsType[*limiter.UnavailableError](err); ok {
		// A limiter wraps the error of its store, and only that one is
		// compared.
		err = down.Err
	}

	for _, state := range []error{limiter.ErrNotFound, limiter.ErrExists, limiter.ErrConflict, limiter.ErrClosed} {
		if errors.Is(err, state) {
			return state.Error()
		}
	}
	return "outage: " + err.Error()
}

// toSlice returns the elements of a sequence, or its error.
func toSlice[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
