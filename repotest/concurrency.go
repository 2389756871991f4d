package repotest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func concurrencyChecks() []check {
	return []check{
		{"concurrent charges admit exactly the capacity", exactlyCapacity},
		{"concurrent charges after a boundary admit exactly one window", exactlyWindow},
		{"concurrent charges of a shadow limit are all admitted, and pay exactly its capacity", exactlyShadow},
		{"concurrent charges through a shared parent admit exactly its capacity", exactlyParent},
		{"concurrent first charges share one bucket", firstCharges},
		{"concurrent takes and give-backs leave the bucket full", giveAndTake},
		{"entities that are each other's parent do not block each other", mutualParents},
		{"limits may change while charges are made", changesAtOnce},
		{"one of several concurrent creations succeeds", oneCreates},
		{"concurrent registrations get the same namespace", oneRegisters},
	}
}

const workers = 8

// each runs work in several goroutines that begin together. It fails the test
// on their errors.
func (f *fixture) each(work func(worker int) error) {
	f.Helper()

	errs := make([]error, workers)
	begin := make(chan struct{})
	var wg sync.WaitGroup

	for i := range workers {
		wg.Go(func() {
			<-begin
			errs[i] = work(i)
		})
	}

	close(begin)
	wg.Wait()
	f.ok("one of several at once", errors.Join(errs...))
}

// times returns how often each worker repeats its work.
func times() int {
	if testing.Short() {
		return 50
	}
	return 150
}

// admitted makes charges concurrently and returns the number of those
// admitted.
func (f *fixture) admitted(charge func(worker int) limiter.Charge) int64 {
	f.Helper()

	var n atomic.Int64
	f.each(func(worker int) error {
		for range times() {
			out, err := f.repo.Consume(f.ctx, epoch, charge(worker))
			if err != nil {
				return err
			}
			if out.Admitted {
				n.Add(1)
			}
		}
		return nil
	})
	return n.Load()
}

// exactlyWindow passes two boundaries of a quota that had debt for one of them.
func exactlyWindow(f *fixture) {
	room := int64(workers * times() / 4)

	quota := limiter.Quota("tpd", room, limiter.EveryDay)
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, quota, perMinute60)
	// The first boundary pays this debt, and the second adds a window.
	f.credit(0, f.take(0, ask("key-1", tpd(room))).Payers[0].Account, tpd(-room))

	var n atomic.Int64
	f.each(func(int) error {
		for range times() {
			out, err := f.repo.Consume(f.ctx, at(midnight+day), ask("key-1", tpd(1)))
			if err != nil {
				return err
			}
			if out.Admitted {
				n.Add(1)
			}
		}
		return nil
	})

	f.equal("admitted", n.Load(), room)
	f.holds(midnight+day, "key-1", 60_000, 0)
}

func exactlyShadow(f *fixture) {
	room := int64(workers * times() / 4)
	f.setDefaults(limiter.PerDay("rpm", room).Shadow())

	var paid atomic.Int64
	f.each(func(int) error {
		for range times() {
			out, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
			switch {
			case err != nil:
				return err
			case !out.Admitted:
				return errors.New("a shadow limit refuses")
			// An outcome of rates alone has a Detail only if a limit was
			// spared.
			case out.Payers[0].Detail == nil:
				paid.Add(1)
			}
		}
		return nil
	})

	f.equal("paid", paid.Load(), room)
	all := int64(workers * times())
	f.wouldRefuse("key-1", counters{"rpm": all}, counters{"rpm": all - room})
	f.holds(0, "key-1", 0)
}

// exactlyCapacity has room for a quarter of the charges, and no time to
// refill.
func exactlyCapacity(f *fixture) {
	room := int64(workers * times() / 4)
	f.setDefaults(limiter.PerMinute("rpm", room))

	f.equal("admitted", f.admitted(func(int) limiter.Charge { return ask("key-1", rpm(1)) }), room)
	f.holds(0, "key-1", 0)
}

func exactlyParent(f *fixture) {
	room := int64(workers * times() / 4)
	f.setDefaults(limiter.PerMinute("rpm", room))
	children := int64(0)

	for i := range workers {
		f.createCascading(fmt.Sprintf("key-%d", i), "project-1")
	}

	got := f.admitted(func(worker int) limiter.Charge { return ask(fmt.Sprintf("key-%d", worker), rpm(1)) })
	f.equal("admitted", got, room)
	f.holds(0, "project-1", 0)
	// A refused charge costs its child nothing, so the children have paid what
	// the parent has.
	for i := range workers {
		out := f.peek(0, ask(fmt.Sprintf("key-%d", i), limiter.Amounts{}))
		children += room*1000 - first(f, "balance", out.Payers[0].Tokens)
	}

	f.equal("paid by the children", children, room*1000)
}

func firstCharges(f *fixture) {
	f.setDefaults(perMinute60)
	// Only the first charges of a bucket race to create it, so each round has
	// another one.
	for i := range 20 {
		id := fmt.Sprintf("key-%d", i)
		f.each(func(int) error {
			_, err := f.repo.Consume(f.ctx, epoch, ask(id, rpm(1)))
			return err
		})
		f.holds(0, id, (60-workers)*1000)
	}
}

func giveAndTake(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")

	f.each(func(int) error {
		for range times() / 2 {
			out, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
			if err != nil {
				return err
			}
			if !out.Admitted || len(out.Payers) < 2 {
				return fmt.Errorf("not admitted with its parent: %+v", out)
			}

			self, parent := limiter.Credit{Account: out.Payers[0].Account, Amounts: rpm(1)}, limiter.Credit{
				Account: out.Payers[1].Account, Amounts: rpm(1),
			}
			if err := f.repo.Credit(f.ctx, epoch, self, parent); err != nil {
				return err
			}
		}
		return nil
	})

	f.holds(0, "key-1", 60_000)
	f.holds(0, "project-1", 60_000)
}

func exactlyUsage(f *fixture) {
	f.setDefaults(limiter.PerMinute("rpm", 1_000_000))
	n := f.admitted(func(int) limiter.Charge { return ask("key-1", rpm(3)) })
	f.equal("admitted", n, int64(workers*times()))

	if f.countsUsage {
		f.used("key-1", n, counters{"rpm": 3 * n})
	}
}

// mutualParents would deadlock in a store that locks the entity before its
// parent.
func mutualParents(f *fixture) {
	f.setDefaults(limiter.PerMinute("rpm", 1_000_000))
	f.createCascading("a", "b")
	f.createCascading("b", "a")

	names := []string{"a", "b"}
	n := f.admitted(func(worker int) limiter.Charge { return ask(names[worker%2], rpm(1)) })
	f.equal("admitted", n, int64(workers*times()))
	f.holds(0, "a", (1_000_000-n)*1000)
	f.holds(0, "b", (1_000_000-n)*1000)
}

// changesAtOnce raises and lowers a limit. Neither fills a bucket, so the
// lower capacity bounds the admissions after the first repair.
func changesAtOnce(f *fixture) {
	f.setDefaults(perMinute60)
	// A bucket that is missing would start with 61 while the limit is raised.
	f.take(0, ask("key-1", rpm(0)), 60_000)

	var n atomic.Int64
	f.each(func(worker int) error {
		for i := range times() / 5 {
			if worker == 0 {
				cfg := limiter.Config{
					Scope:  limiter.Scope{Resource: model},
					Limits: []limiter.Limit{limiter.PerMinute("rpm", int64(60+i%2))},
				}
				if err := f.repo.SetConfig(f.ctx, cfg, f.event("limits_set", "$RESOURCE:"+model)); err != nil {
					return err
				}
				continue
			}

			out, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
			if err != nil {
				return err
			}
			if out.Admitted {
				n.Add(1)
			}
		}
		return nil
	})

	f.equal("admitted", n.Load(), int64(60))
}

func oneCreates(f *fixture) {
	var created atomic.Int64
	f.each(func(worker int) error {
		e := limiter.Entity{ID: "key-1", Name: fmt.Sprint(worker), CreatedAt: epoch}

		err := f.repo.CreateEntity(f.ctx, e, f.event("entity_created", "key-1"))
		if err == nil {
			created.Add(1)
		}
		if errors.Is(err, limiter.ErrExists) {
			return nil
		}
		return err
	})

	f.equal("created", created.Load(), int64(1))
	f.equal("events", len(f.audit("key-1", "")), 1)
}

func oneRegisters(f *fixture) {
	ids := make([]string, workers)
	f.each(func(worker int) error {
		ns, err := f.repo.RegisterNamespace(f.ctx, epoch, "other")
		ids[worker] = ns.ID
		return err
	})

	for _, id := range ids {
		f.equal("ID", id, ids[0])
	}
	f.equal("number of namespaces", len(f.namespaces()), 2)
}
