package repotest

import (
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func fillRepairs(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", rpm(60).And("tpd", 90)), 0, 10_000)
	f.setDefaults(limiter.PerMinute("rpm", 600), daily(150), limiter.PerMinute("tpm", 6))
	// Ten seconds refill rpm by 10 at the old rate. The higher capacity adds 50
	// to tpd, and the top-up 5.
	f.topUp(10*time.Second, tpd(5), "a", true)
	f.listed(10*time.Second, "key-1", 10_000, 65_000, 6_000)

	f.listed(11*time.Second, "key-1", 20_000, 65_000, 6_000)

	f.reset(11*time.Second, "key-1")
	f.take(11*time.Second, ask("key-1", rpm(600).And("tpd", 150)), 0, 0, 6_000)
}

func fillUsage(f *fixture) {
	f.setDefaults(perMinute60)

	f.createCascading("key-1", "project-1")
	f.take(0, ask("key-1", rpm(60)), 0)

	f.topUp(0, rpm(10), "a", true)
	f.reset(0, "key-1")

	f.holds(0, "project-1", 0)
	f.refuse(0, ask("key-1", rpm(1)), 60_000)

	f.reset(0, "project-1")
	f.take(0, ask("key-1", rpm(20)), 40_000)

	if f.countsUsage {
		f.used("key-1", 2, counters{"rpm": 80})
		f.used("project-1", 2, counters{"rpm": 80})
	}
}

func fillLease(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(60)), 0).Payers[0].Account

	f.reset(0, "key-1")
	// The bucket is full already, so this adds nothing.
	f.credit(0, account, rpm(60))
	f.holds(0, "key-1", 60_000)

	f.credit(0, account, rpm(-50))
	f.holds(0, "key-1", 10_000)

	f.topUp(0, rpm(20), "a", true)
	f.credit(0, account, rpm(5))
	f.holds(0, "key-1", 35_000)
}

func fillRenews(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)))
	f.reset(6*time.Minute, "key-1")
	f.listed(6*time.Minute+lifetime-ms(1), "key-1", 60_000)
	f.unlisted(6*time.Minute+lifetime, "key-1")
}

// fillKeepsLifetime has a bucket with a slow limit from an override, which does not
// count.
func fillKeepsLifetime(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)))
	f.take(0, overrideCharge("key-1", limiter.Tokens("z", 1), slow))

	f.deleteConfig(limiter.Scope{Resource: model})
	f.reset(time.Minute, "key-1")

	f.listed(time.Minute+lifetime-ms(1), "key-1", 60_000, 10_000)
	f.unlisted(time.Minute+lifetime, "key-1")
}

func fillShadow(f *fixture) {
	f.setDefaults(shadowed)

	f.take(0, ask("key-1", rpm(60)), 0)
	f.spared(f.take(0, ask("key-1", rpm(1)), 0).Payers[0], true)

	f.topUp(0, rpm(1), "a", true)
	f.spared(f.take(0, ask("key-1", rpm(1)), 0).Payers[0])

	f.reset(0, "key-1")
	f.spared(f.take(0, ask("key-1", rpm(60)), 0).Payers[0])

	// The usage counts the spared token too: 60, 1, 1 and 60.
	f.wouldRefuse("key-1", counters{"rpm": 122}, counters{"rpm": 1})
}

func fillOverride(f *fixture) {
	f.take(0, overrideCharge("key-1", rpm(60).And("tpm", 100), perMinute60, limiter.PerMinute("tpm", 100)), 0, 0)
	f.topUp(0, tpm(30), "a", true)
	f.listed(0, "key-1", 0, 30_000)

	f.reset(0, "key-1")
	f.listed(0, "key-1", 60_000, 100_000)
}

func fillNamespaces(f *fixture) {
	_, other := f.namespace("other")
	for _, in := range []*fixture{f, other} {
		in.setDefaults(perMinute60)
		in.take(0, ask("key-1", rpm(60)), 0)
		in.topUp(0, rpm(10), "a", true)
		in.topUp(0, rpm(10), "a", false)
		in.holds(0, "key-1", 10_000)
	}

	f.reset(0, "key-1")
	other.holds(0, "key-1", 10_000)
}

func fillAudit(f *fixture) {
	f.setDefaults(perMinute60)

	f.take(0, ask("key-1", rpm(60)), 0)

	ev := f.event("bucket_topped_up", "key-1")
	ev.Resource, ev.Details = model, map[string]any{"id": "a", "amounts": map[string]any{"rpm": int64(10)}}
	fill := limiter.Fill{Entity: "key-1", Resource: model, Amounts: rpm(10), ID: "a"}

	_, err := f.repo.Fill(f.ctx, epoch, fill, ev)
	f.ok("Fill", err)

	_, err = f.repo.Fill(f.ctx, epoch, fill, f.event("bucket_topped_up", "key-1"))
	f.ok("Fill again", err)

	_, err = f.repo.Fill(f.ctx, epoch, limiter.Fill{Entity: "key-1", Resource: model, Limits: []string{"x"}},
		f.event("bucket_reset", "key-1"))
	f.invalid("Fill of a limit that does not exist", err)

	f.equal("events", f.audit("key-1", ""), []limiter.AuditEvent{ev})
	f.reset(0, "key-1")
	f.equal("actions", actions(f.audit("key-1", "")), []string{"bucket_reset", "bucket_topped_up"})
}

func fillLimiter(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 100))
	f.take(0, ask("key-1", rpm(60).And("tpm", 100)), 0, 0)

	lim := f.limiter(0)
	for i := range 2 {
		done, err := lim.TopUp(f.ctx, "key-1", model, rpm(7), "a")
		f.ok("TopUp", err)
		f.equal("done", done, i == 0)
	}
	f.holds(0, "key-1", 7_000, 0)

	f.ok("Reset", lim.Reset(f.ctx, "key-1", model, "tpm"))
	f.holds(0, "key-1", 7_000, 100_000)
	f.ok("Reset", lim.Reset(f.ctx, "key-1", model))
	f.holds(0, "key-1", 60_000, 100_000)
	f.invalid("Reset of a limit that does not exist", lim.Reset(f.ctx, "key-1", model, "x"))

	want := []limiter.AuditEvent{
		{
			Action: "bucket_reset", Entity: "key-1", Resource: model, At: epoch,
			Details: map[string]any{"limits": []any{"rpm", "tpm"}},
		},
		{
			Action: "bucket_reset", Entity: "key-1", Resource: model, At: epoch,
			Details: map[string]any{"limits": []any{"tpm"}},
		},
		{
			Action: "bucket_topped_up", Entity: "key-1", Resource: model, At: epoch,
			Details: map[string]any{"id": "a", "amounts": map[string]any{"rpm": int64(7)}},
		},
	}

	got := f.audit("key-1", "")
	// A limiter makes IDs of its own.
	for i := range got {
		got[i].ID = ""
	}

	f.equal("events", got, want)
}

func topUpConcurrent(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, limiter.PerDay("rpm", 1000))

	f.take(0, ask("key-1", rpm(1000)), 0)

	const callers, ids = 8, 4
	done := make([]int, ids)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range ids {
				// Each caller begins with another ID, so that every ID is used
				// by several at once.
				id := string(rune('a' + (caller+i)%ids))

				ev := f.event("bucket_topped_up", "key-1")
				ok, err := f.repo.Fill(f.ctx, epoch,
					limiter.Fill{Entity: "key-1", Resource: model, Amounts: rpm(1), ID: id}, ev)

				mu.Lock()
				if err != nil {
					f.Errorf("Fill: %v", err)
				} else if ok {
					done[(caller+i)%ids]++
				}
				mu.Unlock()
			}
		})
	}

	wg.Wait()
	f.equal("how often each was carried out", done, []int{1, 1, 1, 1})
	f.holds(0, "key-1", ids*1000)
}
