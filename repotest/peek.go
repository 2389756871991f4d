package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// peekChecks compares a Peek with the following Consume in every state of a
// bucket, and checks that Peek changes nothing.
func peekChecks() []check {
	second := limiter.PerMinute("tpm", 6000)
	scenes := []struct {
		name    string
		prepare func(f *fixture)
		charge  limiter.Charge
	}{
		{"of a new bucket", func(f *fixture) {}, ask("key-1", rpm(5))},
		{"of a new bucket that refuses", func(f *fixture) {}, ask("key-1", rpm(61))},
		{"of a bucket that was charged", func(f *fixture) { f.take(0, ask("key-1", rpm(60))) }, ask("key-1", rpm(5))},
		{"of a bucket that refuses", func(f *fixture) { f.take(0, ask("key-1", rpm(60))) }, ask("key-1", rpm(11))},
		{"of a bucket that is ahead", func(f *fixture) {
			f.take(time.Minute, ask("key-1", rpm(60)))
		}, ask("key-1", rpm(0))},
		{"of a bucket in debt", func(f *fixture) {
			f.credit(0, f.take(0, ask("key-1", rpm(60))).Payers[0].Account, rpm(-60))
		}, ask("key-1", rpm(0))},
		{"of a bucket that has expired", func(f *fixture) {
			f.take(-time.Hour, ask("key-1", rpm(60)))
		}, ask("key-1", rpm(5))},
		{"after a change of limits", func(f *fixture) {
			f.take(0, ask("key-1", rpm(60)))
			f.setDefaults(limiter.PerMinute("rpm", 600), second)
		}, ask("key-1", rpm(5).And("tpm", 1))},
		{"with a parent", func(f *fixture) { f.createCascading("key-1", "project-1") }, ask("key-1", rpm(5))},
		{"with a parent that refuses", func(f *fixture) {
			f.createCascading("key-1", "project-1")
			f.take(0, ask("project-1", rpm(60)))
		}, ask("key-1", rpm(11))},
		{"of an override on a new bucket", func(f *fixture) {}, overrideCharge("key-1", tpm(5), second)},
		{"of an override on a bucket", func(f *fixture) {
			f.take(0, ask("key-1", rpm(60)))
		}, overrideCharge("key-1", rpm(5).And("tpm", 5), second, limiter.PerMinute("rpm", 600))},
	}

	checks := []check{{"amounts may be empty", peekOfNothing}}
	for _, s := range scenes {
		checks = append(checks, check{s.name + " is the consume that follows", func(f *fixture) {
			f.setDefaults(perMinute60)
			s.prepare(f)
			f.checkPeek(10*time.Second, s.charge)
		}})
	}
	return checks
}

// checkPeek checks that Peek predicts Consume and writes nothing.
func (f *fixture) checkPeek(d time.Duration, c limiter.Charge) {
	f.Helper()

	before := f.state(d)
	first, second := f.peek(d, c), f.peek(d, c)

	// Peek at a later time first: a write there would change the present.
	f.peek(d+time.Minute, c)
	f.equal("state after Peek", f.state(d), before)
	f.equal("second Peek", second, first)

	out, err := f.repo.Consume(f.ctx, at(d), c)
	f.ok("Consume", err)

	if !out.Admitted {
		// A store may refuse before it reads all ancestors, but Peek reads them in
		// any case.
		first.Payers = first.Payers[:len(out.Payers)]
	}

	f.equal("Peek, and the Consume that follows", first, out)
}

func peekOfNothing(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")

	out := f.peek(0, ask("key-1", limiter.Amounts{}))
	f.equal("admitted", out.Admitted, true)
	f.equal("balance", out.Payers[0].Tokens, []int64{60_000})
	f.paid(out, "project-1", 60_000)
	f.unlisted(0, "key-1")
	f.unlisted(0, "project-1")
}
