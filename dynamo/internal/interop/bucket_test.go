package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// These tests run both libraries on one table. They need Python: `make interop`
// runs them.

func rpm(n int64) limiter.Amounts { return limiter.Tokens("rpm", n) }

// checkLeft checks the tokens that both programs report as available.
func (w *world) checkLeft(py pyProgram, entity string, want map[string]int64) {
	w.Helper()
	w.Equal("what Go says is left of "+entity, w.ours.left(entity, "gpt-4"), want)
	w.Equal("what Python says is left of "+entity, py.left(entity, "gpt-4"), want)
}

func (w *world) mustAdmit(p program, entity string, amounts limiter.Amounts) {
	w.Helper()
	if !p.take(entity, "gpt-4", amounts) {
		w.Fatalf("%T is refused %s of %s", p, amounts, entity)
	}
}

func (w *world) mustRefuse(p program, entity string, amounts limiter.Amounts) {
	w.Helper()
	if p.take(entity, "gpt-4", amounts) {
		w.Fatalf("%T gets %s of %s", p, amounts, entity)
	}
}

// TestInteropBucketIsShared checks that each library sees the charges of the
// other to the token, and that both refill by the same clock, whichever created
// the bucket.
func TestInteropBucketIsShared(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 6000))
		for _, c := range []struct {
			entity       string
			maker, other program
		}{{"alice", w.ours, py}, {"bob", py, w.ours}} {
			w.mustAdmit(c.maker, c.entity, rpm(10).And("tpm", 1000))
			w.mustAdmit(c.other, c.entity, rpm(20))
			w.mustAdmit(c.maker, c.entity, rpm(30))
			w.checkLeft(py, c.entity, map[string]int64{"rpm": 40, "tpm": 5000})
			w.mustRefuse(c.other, c.entity, rpm(41))
			w.mustRefuse(c.maker, c.entity, rpm(41))
			w.checkTokens(c.entity, map[string]int64{"rpm": 40_000, "tpm": 5_000_000})
		}
		w.wait(6 * time.Second)
		for _, entity := range []string{"alice", "bob"} {
			w.checkLeft(py, entity, map[string]int64{"rpm": 50, "tpm": 5600})
			w.mustAdmit(py, entity, rpm(5))
			w.mustAdmit(w.ours, entity, rpm(44))
			w.mustAdmit(py, entity, rpm(1))
			w.mustRefuse(w.ours, entity, rpm(1))
			w.mustRefuse(py, entity, rpm(1))
			w.checkLeft(py, entity, map[string]int64{"rpm": 0, "tpm": 5600})
		}
	})
}

// TestInteropLeasesAreSettled checks that tokens that one library gives back or
// takes late change the balance for the other.
func TestInteropLeasesAreSettled(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		py.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
		for entity, p := range map[string][2]program{"alice": {w.ours, py}, "bob": {py, w.ours}} {
			one, other := p[0], p[1]
			kept := one.hold(entity, "gpt-4", rpm(50))
			undone := other.hold(entity, "gpt-4", rpm(50))
			w.mustRefuse(one, entity, rpm(1))
			undone.rollback()
			w.mustAdmit(one, entity, rpm(50))
			kept.commit(rpm(-20))
			w.mustAdmit(other, entity, rpm(20))
			w.checkTokens(entity, map[string]int64{"rpm": 0})
			w.Equal("total", dynamotest.FormatAttribute(w.bucket(entity)["b_rpm_tc"]), "N 100000")
		}
	})
}

// TestInteropDebtBindsBoth checks that both libraries refuse charges of a bucket
// in debt.
func TestInteropDebtBindsBoth(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		py.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 60))
		for entity, p := range map[string][2]program{"alice": {w.ours, py}, "bob": {py, w.ours}} {
			debtor, other := p[0], p[1]
			debtor.hold(entity, "gpt-4", rpm(10)).commit(rpm(55))
			w.checkTokens(entity, map[string]int64{"rpm": -5_000})
			w.checkLeft(py, entity, map[string]int64{"rpm": -5})
			for _, amount := range []int64{1, 0} {
				w.mustRefuse(other, entity, rpm(amount))
				w.mustRefuse(debtor, entity, rpm(amount))
			}
		}
		w.wait(5 * time.Second)
		for entity, p := range map[string][2]program{"alice": {w.ours, py}, "bob": {py, w.ours}} {
			w.mustRefuse(p[1], entity, rpm(1))
			w.mustAdmit(p[1], entity, rpm(0))
			w.mustAdmit(p[0], entity, rpm(0))
		}
		w.wait(time.Second)
		w.mustAdmit(py, "alice", rpm(1))
		w.mustAdmit(w.ours, "bob", rpm(1))
	})
}

// TestInteropNamesOfLimits uses limit names that look like attributes of a
// bucket. Names with a hyphen or a dot, which Python stores but cannot charge,
// work in Go; Python still reads them.
func TestInteropNamesOfLimits(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for _, c := range []struct {
			name   string
			python bool
		}{
			{"tokens_per_minute", true},
			{"b_tk", true},
			{"x_tk", true},
			{"a_cp_tk", true},
			{"in-flight", false},
			{"v1.rpm", false},
		} {
			entity := "of-" + c.name
			one := limiter.Tokens(c.name, 1)
			py.set(limiter.Scope{Entity: entity, Resource: "gpt-4"}, limiter.PerMinute(c.name, 3),
				limiter.PerMinute("rpm", 9))
			w.mustAdmit(w.ours, entity, one)
			want := int64(2)
			if c.python {
				w.mustAdmit(py, entity, one)
				want--
			}
			w.checkLeft(py, entity, map[string]int64{c.name: want, "rpm": 9})
			w.mustAdmit(w.ours, entity, limiter.Tokens(c.name, want))
			w.mustRefuse(w.ours, entity, one)
			w.checkTokens(entity, map[string]int64{c.name: 0, "rpm": 9_000})
		}
	})
}

// TestInteropLife checks that Python keeps the identity of a bucket, and works on a
// bucket that has one. A bucket of Python gets it with the first locked write of Go.
func TestInteropLife(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.mustAdmit(w.ours, "alice", rpm(30))
		life := w.bucket("alice")["_id"]
		w.Equal("a bucket of Go has an identity", life != nil, true)
		w.mustAdmit(py, "alice", rpm(10))
		w.wait(time.Minute) // Python refills
		w.mustAdmit(py, "alice", rpm(10))
		py.set(limiter.Scope{Entity: "alice", Resource: "gpt-4"}, limiter.PerMinute("rpm", 50))
		w.mustAdmit(py, "alice", rpm(10))
		w.Equal("the identity after Python's writes", dynamotest.FormatAttribute(w.bucket("alice")["_id"]),
			dynamotest.FormatAttribute(life))

		w.mustAdmit(py, "bob", rpm(30))
		w.Equal("a bucket of Python has an identity", w.bucket("bob")["_id"] != nil, false)
		w.wait(time.Minute)
		w.mustAdmit(w.ours, "bob", rpm(30))
		w.Equal("after a locked write of Go", w.bucket("bob")["_id"] != nil, true)
		w.mustAdmit(py, "bob", rpm(30))
	})
}
