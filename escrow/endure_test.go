package escrow_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

var (
	endureSeeds = flag.Uint64("endure.seeds", 10, "histories of TestEndure")
	endureSlack = flag.Float64("endure.slack", 0.03, "slack of TestEndure, as a share of the capacity")
)

// process is a client with pots of its own. It can be killed.
type process struct {
	*escrow.Repository
	store limiter.Repository
	line  *line
	plan  func(method string) repotest.Fault
	calm  bool  // it cannot be killed
	local int64 // calls admitted locally by processes that were killed
}

func newProcess(store limiter.Repository, plan func(string) repotest.Fault) *process {
	p := &process{store: store, plan: plan}
	p.start()
	return p
}

func (p *process) start() {
	p.line = &line{Repository: p.store}
	p.Repository = escrow.New(repotest.NewFaulty(p.line, p.plan), nil)
}

// Forget kills the process. Its pots are lost, and another takes its place.
func (p *process) Forget() {
	if p.calm {
		return
	}
	p.line.cut.Store(true)
	p.local += p.Stats().AdmittedLocally
	_ = p.Repository.Close() // ends its goroutines
	p.start()
}

// Lossy reports that other processes may hold tokens, so that a refusal proves
// nothing.
func (*process) Lossy() bool { return true }

// Holds returns three holds of an account with limits.
func (*process) Holds(limits []limiter.Limit) time.Duration {
	hold := time.Second
	for _, l := range limits {
		if l.IsQuota() {
			continue
		}
		fill := time.Duration(float64(l.Period) * float64(l.Capacity) / float64(l.Refill))
		hold = min(hold, fill/100)
	}
	return 3 * hold
}

// line is the connection of a process to the store.
type line struct {
	limiter.Repository
	cut atomic.Bool
}

// Consume passes a charge on, unless the line is cut.
func (l *line) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	if l.cut.Load() {
		return limiter.Outcome{}, repotest.ErrInjected
	}
	return l.Repository.Consume(ctx, now, c)
}

// Credit passes credits on, unless the line is cut.
func (l *line) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if l.cut.Load() {
		return repotest.ErrInjected
	}
	return l.Repository.Credit(ctx, now, credits...)
}

// faults returns a plan in which one of some charges and credits fails, before or
// after it was executed. If oneIn is 0, none does.
func faults(seed uint64, oneIn int) func(string) repotest.Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 3))
	return func(method string) repotest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if method != "Consume" && method != "Credit" || oneIn == 0 || rng.IntN(oneIn) > 0 {
			return repotest.None
		}
		return []repotest.Fault{repotest.Before, repotest.After}[rng.IntN(2)]
	}
}

// bubble is a store in a bubble whose clock follows the history.
type bubble struct{ limiter.Repository }

// Elapse moves the clock of the bubble.
func (bubble) Elapse(d time.Duration) { time.Sleep(d) }

// Close keeps the store open for the other processes.
func (bubble) Close() error { return nil }

// TestEndure checks the promise of processes that hold tokens, with clocks that
// differ, faults and kills.
func TestEndure(t *testing.T) {
	for seed := range *endureSeeds {
		t.Run(fmt.Sprint("memory ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endure(t, seed, 3000, memory.New(nil)) })
		})
	}
}

func endure(t *testing.T, seed uint64, ops int, store limiter.Repository) {
	t.Helper()
	var processes []*process
	var clients []limiter.Repository
	for i := range 4 {
		oneIn := 15
		if seed%2 == 0 {
			oneIn = 0 // lost tokens would hide an excess
		}
		p := newProcess(bubble{store}, faults(seed+uint64(i), oneIn))
		p.calm = oneIn == 0
		processes, clients = append(processes, p), append(clients, p)
	}
	defer func() {
		for _, p := range processes {
			_ = p.Close()
		}
		_ = store.Close()
	}()
	nets := repotest.Endure(t, seed, ops, *endureSlack, bubble{store}, clients...)
	var local, requests int64
	for _, p := range processes {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		s := p.Stats()
		if s.Held != 0 {
			t.Errorf("held after Close: %+v", s)
		}
		local, requests = local+p.local+s.AdmittedLocally, requests+s.Requests
	}
	if local < int64(ops)/50 {
		t.Errorf("only %d of %d operations were admitted from a pot: too few to tell", local, ops)
	}
	t.Logf("%d local, %d requests", local, requests)
	checkNothingMinted(t, store, nets)
}

// checkNothingMinted checks that the store counts at least what was surely
// consumed. A process that returns tokens twice, or tokens that it spent, leaves
// less.
func checkNothingMinted(t *testing.T, store limiter.Repository, nets []repotest.Net) {
	t.Helper()
	for _, net := range nets {
		var counted int64
		for u, err := range store.Usage(t.Context(), limiter.UsageQuery{
			Entity: net.Entity, Resource: net.Resource, Window: limiter.Monthly,
		}) {
			if err != nil {
				t.Fatal(err)
			}
			counted += u.Counters[net.Limit]
		}
		if counted < net.Least {
			t.Errorf("%s of %s and %s: the store counts %d tokens, but at least %d were consumed", net.Limit,
				net.Entity, net.Resource, counted, net.Least)
		}
	}
}
