package limiter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestAdjustTakesWhatFitsAndTheRestAsDebt(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100))
	w.family(t)
	for _, step := range []struct {
		amounts  limiter.Amounts
		rpm, tpm int64
	}{
		{rpm(1).And("tpm", 40), 9, 60},
		{tpm(70), 9, -10},
		{tpm(5), 9, -15},
		{rpm(2).And("tpm", -25), 7, 10},
		{rpm(8).And("tpm", -5), -1, 15},
		{rpm(-99).And("tpm", -99), 10, 100},
		{rpm(0), 10, 100},
	} {
		d, err := w.Adjust(bg, request(alice, step.amounts))
		check(t, err)
		for _, entity := range []string{alice, project} {
			w.wantLeft(t, entity, "rpm", step.rpm)
			w.wantLeft(t, entity, "tpm", step.tpm)
		}
		if len(d.Statuses) != 4 || !d.Admitted() {
			t.Fatalf("after %v: %+v", step.amounts, d)
		}
		for i, want := range []int64{step.rpm, step.tpm, step.rpm, step.tpm} {
			if got := d.Statuses[i].Available; got != want {
				t.Errorf("after %v the decision has %d of %s, want %d", step.amounts, got, d.Statuses[i].Limit.Name,
					want)
			}
		}
	}
}

// A bucket that does not exist yet must pay even if the amount is above its
// capacity, and even if its parent is in debt.
func TestAdjustChargesNewBuckets(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.family(t)
	_, err := w.Adjust(bg, request(project, rpm(25)))
	check(t, err)
	_, err = w.Adjust(bg, request(alice, rpm(12)))
	check(t, err)
	w.wantLeft(t, alice, "rpm", -2)
	w.wantLeft(t, project, "rpm", -27)
	w.refuse(t, rpm(0))
}

func TestAdjustThatHasBegunSurvivesItsCaller(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	ctx, cancel := context.WithCancel(bg)
	w.store.onConsume = func(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
		cancel()
		return w.store.Repository.Consume(ctx, now, c)
	}
	_, err := w.Adjust(ctx, request(alice, rpm(13)))
	check(t, err)
	w.wantLeft(t, alice, "rpm", -3)
}

func TestAdjustRefusesBadInput(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	for _, amounts := range []limiter.Amounts{
		{}, limiter.Tokens("", 1), rpm(9_223_372_036_855), rpm(-9_223_372_036_855), tpm(-1), tpm(1),
	} {
		_, err := w.Adjust(bg, request(alice, amounts))
		invalid(t, err, "consume")
	}
	_, err := w.Adjust(bg, request("#", rpm(1)))
	invalid(t, err, "entity_id")
}

func TestAdjustReportsAnOutage(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	check(t, w.SetOnUnavailable(bg, limiter.Allow))
	w.store.down()
	_, err := w.Adjust(bg, request(alice, rpm(1)))
	if _, ok := errors.AsType[*limiter.UnavailableError](err); !ok {
		t.Errorf("%v", err)
	}
}
