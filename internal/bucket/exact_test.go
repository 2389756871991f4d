package bucket_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// The checks compare one call with the oracle; exact tests and fuzz targets
// share them. They stop at the first difference, since a wrong formula is wrong
// nearly everywhere.

func checkRefill(t *testing.T, s bucket.State, now int64) {
	t.Helper()
	if got, want := bucket.Refill(s, now), wantRefill(t, s, now); got != want {
		t.Fatalf("Refill(%+v, %d)\n got %+v\nwant %+v", s, now, got, want)
	}
}

func checkAdvance(t *testing.T, tokens, from, to int64, r bucket.Rate) {
	t.Helper()
	if got, want := bucket.Advance(tokens, from, to, r), wantAdvance(t, tokens, from, to, r); got != want {
		t.Fatalf("Advance(%d, %d, %d, %+v) = %d, want %d", tokens, from, to, r, got, want)
	}
	if got, want := bucket.Accrued(from, to, r), within64(wantAccrued(from, to, r)); got != want {
		t.Fatalf("Accrued(%d, %d, %+v) = %d, want %d", from, to, r, got, want)
	}
}

func checkWait(t *testing.T, deficit int64, r bucket.Rate) {
	t.Helper()
	if !checkMillis(t, bucket.Wait(deficit, r), wantWait(num(deficit), r)) {
		t.Fatalf("Wait(%d, %+v)", deficit, r)
	}
}

func checkTryConsume(t *testing.T, s bucket.State, requested, now int64) {
	t.Helper()
	got := bucket.TryConsume(s, requested, now)
	want, wait := wantTry(t, s, requested, now)
	if !checkMillis(t, got.Wait, wait) {
		t.Fatalf("TryConsume(%+v, %d, %d).Wait", s, requested, now)
	}
	got.Wait = bucket.Millis{}
	if got != want {
		t.Fatalf("TryConsume(%+v, %d, %d)\n got %+v\nwant %+v", s, requested, now, got, want)
	}
	if got := bucket.Available(s, now); got != want.Available {
		t.Fatalf("Available(%+v, %d) = %d, want %d", s, now, got, want.Available)
	}
}

func checkForceConsume(t *testing.T, s bucket.State, amount, now int64) {
	t.Helper()
	if got, want := bucket.ForceConsume(s, amount, now), wantForce(t, s, amount, now); got != want {
		t.Fatalf("ForceConsume(%+v, %d, %d)\n got %+v\nwant %+v", s, amount, now, got, want)
	}
}

func checkTimeUntil(t *testing.T, s bucket.State, needed, now int64) {
	t.Helper()
	_, wait := wantTry(t, s, needed, now)
	if !checkMillis(t, bucket.TimeUntil(s, needed, now), wait) {
		t.Fatalf("TimeUntil(%+v, %d, %d)", s, needed, now)
	}
}

func checkFillTime(t *testing.T, r bucket.Rate) {
	t.Helper()
	if got, want := bucket.FillTime(r), wantFillTime(r); got != want {
		t.Fatalf("FillTime(%+v) = %d, want %d", r, got, want)
	}
}

func TestRefillIsExact(t *testing.T) {
	everywhere(t, 3, func(v []int64, r bucket.Rate) { checkRefill(t, stateOf(v[0], v[1], r), v[2]) })
}

func TestAdvanceIsExact(t *testing.T) {
	everywhere(t, 3, func(v []int64, r bucket.Rate) { checkAdvance(t, v[0], v[1], v[2], r) })
}

func TestWaitIsExact(t *testing.T) {
	everywhere(t, 1, func(v []int64, r bucket.Rate) { checkWait(t, v[0], r) })
}

func TestTryConsumeIsExact(t *testing.T) {
	everywhere(t, 4, func(v []int64, r bucket.Rate) { checkTryConsume(t, stateOf(v[0], v[1], r), v[2], v[3]) })
}

func TestForceConsumeIsExact(t *testing.T) {
	everywhere(t, 4, func(v []int64, r bucket.Rate) { checkForceConsume(t, stateOf(v[0], v[1], r), v[2], v[3]) })
}

func TestTimeUntilIsExact(t *testing.T) {
	everywhere(t, 4, func(v []int64, r bucket.Rate) { checkTimeUntil(t, stateOf(v[0], v[1], r), v[2], v[3]) })
}

func TestFillTimeIsExact(t *testing.T) {
	everywhere(t, 0, func(_ []int64, r bucket.Rate) { checkFillTime(t, r) })
}
