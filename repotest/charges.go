package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// take makes a charge that must be admitted. If balances are given, it checks
// that the charge leaves them on the entity's own account.
func (f *fixture) take(d time.Duration, c limiter.Charge, want ...int64) limiter.Outcome {
	f.Helper()
	return f.charge(d, c, true, want)
}

// refuse makes a charge that must be refused.
func (f *fixture) refuse(d time.Duration, c limiter.Charge, want ...int64) limiter.Outcome {
	f.Helper()
	return f.charge(d, c, false, want)
}

func (f *fixture) charge(d time.Duration, c limiter.Charge, admitted bool, want []int64) limiter.Outcome {
	f.Helper()
	out, err := f.repo.Consume(f.ctx, at(d), c)
	f.ok("Consume "+c.Amounts.String(), err)

	if out.Admitted != admitted {
		f.Fatalf("Consume %s of %s at %v: admitted %v, want %v; balances %v",
			c.Amounts, c.Entity, d, out.Admitted, admitted, balancesOf(out))
	}

	if want != nil {
		f.equal("balance after Consume "+c.Amounts.String(), out.Payers[0].Tokens, want)
	}
	return out
}

// balancesOf returns the balances of all payers.
func balancesOf(out limiter.Outcome) (all [][]int64) {
	for _, b := range out.Payers {
		all = append(all, b.Tokens)
	}
	return all
}

// credit changes the balance of an account.
func (f *fixture) credit(d time.Duration, account *limiter.Account, amounts limiter.Amounts) {
	f.Helper()
	f.ok("Credit "+amounts.String(), f.repo.Credit(f.ctx, at(d), limiter.Credit{Account: account, Amounts: amounts}))
}

// peek returns the outcome that Peek predicts for a charge.
func (f *fixture) peek(d time.Duration, c limiter.Charge) limiter.Outcome {
	f.Helper()
	out, err := f.repo.Peek(f.ctx, at(d), c)
	f.ok("Peek "+c.Amounts.String(), err)
	return out
}

// holds checks the balances of an entity for the default resource, and writes
// nothing.
func (f *fixture) holds(d time.Duration, entity string, want ...int64) {
	f.Helper()
	f.equal("balance of "+entity+" after "+d.String(), f.peek(d, ask(entity, limiter.Amounts{})).Payers[0].Tokens, want)
}

func (f *fixture) buckets(d time.Duration, of limiter.Scope) []limiter.Bucket {
	f.Helper()
	return collect(f, "Buckets", f.repo.Buckets(f.ctx, at(d), of))
}

// listed checks the only bucket of an entity.
func (f *fixture) listed(d time.Duration, entity string, want ...int64) {
	f.Helper()
	all := f.buckets(d, limiter.Scope{Entity: entity})

	if len(all) != 1 {
		f.Fatalf("Buckets of %s after %v: %d, want 1", entity, d, len(all))
	}
	f.equal("balance of "+entity+" as listed after "+d.String(), all[0].Tokens, want)
}

// unlisted checks that an entity has no bucket.
func (f *fixture) unlisted(d time.Duration, entity string) {
	f.Helper()
	if all := f.buckets(d, limiter.Scope{Entity: entity}); len(all) > 0 {
		f.Errorf("Buckets of %s after %v: %v, want none", entity, d, all[0].Tokens)
	}
}

// paid checks the balances that a charge left on the parent.
func (f *fixture) paid(out limiter.Outcome, parent string, want ...int64) {
	f.Helper()
	if len(out.Payers) < 2 {
		f.Fatalf("no parent was charged, want %s", parent)
	}

	f.equal("parent", out.Payers[1].Account.Entity, parent)
	f.equal("balance of "+parent, out.Payers[1].Tokens, want)
}
