package limiter_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func TestAmountsKeepTheOrderGivenAndAddUp(t *testing.T) {
	a := limiter.Tokens("rpm", 1).And("tpm", 500).And("a", 2).And("b", 3).And("c", 4).And("d", 5).And("rpm", 9).And("c", 6)
	const want = "rpm=10 tpm=500 a=2 b=3 c=10 d=5"
	if got := a.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if a.Len() != 6 {
		t.Errorf("%d limits, want 6", a.Len())
	}
	i := 0
	for limit, n := range a.All() {
		if l, m := a.At(i); l != limit || m != n || a.Get(limit) != n {
			t.Errorf("At(%d) is %s=%d and Get %d, but All says %s=%d", i, l, m, a.Get(limit), limit, n)
		}
		i++
	}
	for limit := range a.All() {
		if limit == "c" {
			break // a loop may end early
		}
	}
}

func TestAmountsOfNothing(t *testing.T) {
	var none limiter.Amounts
	if none.Len() != 0 || none.Get("rpm") != 0 || none.String() != "" {
		t.Errorf("the zero value is %d limits, %q", none.Len(), none)
	}
	if none.Equal(limiter.Tokens("rpm", 0)) {
		t.Error("naming a limit with amount 0 is not the same as leaving it out")
	}
	if got := none.And("rpm", 1); !got.Equal(limiter.Tokens("rpm", 1)) {
		t.Errorf("nothing and rpm=1 is %v", got)
	}
}

// TestAmountsAreImmutable checks that a value keeps its amounts after another
// value was derived from it.
func TestAmountsAreImmutable(t *testing.T) {
	for n := 1; n <= 7; n++ {
		base := limiter.Tokens("l0", 1)
		for i := 1; i < n; i++ {
			base = base.And("l"+string(rune('0'+i)), 1)
		}
		before := base.String()
		left, right := base.And("x", 1), base.And("y", 2)
		for limit := range base.All() {
			_ = base.And(limit, 100)
		}
		if got := base.String(); got != before {
			t.Errorf("%q became %q", before, got)
		}
		if left.Get("x") != 1 || left.Get("y") != 0 || right.Get("y") != 2 || right.Get("x") != 0 {
			t.Errorf("two values made of %q share: %q and %q", before, left, right)
		}
	}
}

func TestAmountsEqualInAnyOrder(t *testing.T) {
	a := limiter.Tokens("rpm", 1).And("tpm", 2)
	for _, c := range []struct {
		b    limiter.Amounts
		want bool
	}{
		{limiter.Tokens("tpm", 2).And("rpm", 1), true},
		{limiter.Tokens("tpm", 2).And("rpm", 2), false},
		{limiter.Tokens("tpm", 2).And("rps", 1), false},
		{limiter.Tokens("tpm", 2), false},
		{a.And("x", 0), false},
	} {
		if a.Equal(c.b) != c.want || c.b.Equal(a) != c.want {
			t.Errorf("%q equal to %q: want %t", a, c.b, c.want)
		}
	}
}

func TestAmountsStayWithinInt64(t *testing.T) {
	if got := limiter.Tokens("x", math.MaxInt64).And("x", 1).Get("x"); got != math.MaxInt64 {
		t.Errorf("the largest and one more is %d", got)
	}
	if got := limiter.Tokens("x", math.MinInt64).And("x", -1).Get("x"); got != math.MinInt64 {
		t.Errorf("the smallest and one less is %d", got)
	}
}

func TestAmountsJSON(t *testing.T) {
	for want, a := range map[string]limiter.Amounts{
		`{}`:                   {},
		`{"rpm":1,"tpm":-500}`: limiter.Tokens("tpm", -500).And("rpm", 1),
	} {
		got, err := json.Marshal(a)
		check(t, err)
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
