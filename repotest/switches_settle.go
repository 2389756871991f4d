package repotest

import (
	"github.com/zeroae/zae-limiter-go"
)

func switchLate(f *fixture) {
	f.createCascading("key-1", "team")
	f.setDefaults(perMinute60)

	for _, s := range []limiter.Scope{{Entity: "key-1"}, {Entity: "team", Resource: model}, {Resource: model}, {}} {
		f.disable(s, reason)
	}

	late := ask("key-1", rpm(50))
	late.Late = true
	// This creates both buckets.
	f.take(0, late, 10_000)
	f.listed(0, "team", 10_000)

	alone := ask("alice", rpm(10))
	alone.Late = true
	f.take(0, alone, 50_000)

	f.disabled(ask("alice", rpm(1)), limiter.Scope{Resource: model})
	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})
	// Switches do not refuse late work, but a limit that is short does.
	f.refuse(0, late, 10_000)

	f.adjust(rpm(15))
	f.listed(0, "key-1", -5_000)
	f.listed(0, "team", -5_000)

	f.adjust(rpm(-15))
	f.listed(0, "team", 10_000)

	for _, s := range []limiter.Scope{{}, {Resource: model}, {Entity: "key-1"}} {
		f.enable(s)
	}

	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "team", Resource: model})
	f.enable(limiter.Scope{Entity: "team", Resource: model})
	f.take(0, ask("key-1", rpm(1)), 9_000)
}

// adjust records use of key-1 after the fact.
func (f *fixture) adjust(a limiter.Amounts) {
	f.Helper()
	if _, err := f.limiter(0).Adjust(f.ctx, request(a)); err != nil {
		f.Errorf("Adjust of %s: %v", a, err)
	}
}

func switchCredit(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")

	out := f.take(0, ask("key-1", rpm(10)), 50_000)
	f.disable(limiter.Scope{}, reason)

	f.credit(0, out.Payers[0].Account, rpm(4))
	f.credit(0, out.Payers[1].Account, rpm(-30))

	f.listed(0, "key-1", 54_000)
	f.listed(0, "project-1", 20_000)
}

func switchFill(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.disable(limiter.Scope{Entity: "key-1"}, reason)

	f.topUp(0, rpm(10), "a", true)
	f.listed(0, "key-1", 10_000)

	f.reset(0, "key-1")
	f.listed(0, "key-1", 60_000)

	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})
}
