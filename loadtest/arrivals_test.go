package loadtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// stalling is a store that takes a millisecond for a charge, and answers nothing
// during a stall.
type stalling struct {
	limiter.Repository
	from, until time.Time
}

func (s *stalling) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := s.Repository.Namespace(ctx, name)
	return &stalling{view, s.from, s.until}, err
}

func (s *stalling) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	time.Sleep(time.Millisecond)
	if t := time.Now(); t.After(s.from) && t.Before(s.until) {
		time.Sleep(s.until.Sub(t))
	}
	return s.Repository.Consume(ctx, now, charge)
}

// TestOpenModelShowsAStall checks that a stall of 1 s in 10 s delays a tenth of
// all tasks by half a second on average, which the closed model would hide.
func TestOpenModelShowsAStall(t *testing.T) {
	run := func(users int) (r loadtest.Result) {
		synctest.Test(t, func(t *testing.T) {
			from := time.Now().Add(4 * time.Second)
			repo := &stalling{openMemory(t), from, from.Add(time.Second)}
			var err error
			r, err = loadtest.Run(t.Context(), repo, find(t, "max_rps"), &loadtest.Options{
				Classes: []string{"MaxRpsUser"}, Rate: 500, Users: users, Duration: 10 * time.Second, Seed: 3,
			})
			check(t, err)
		})
		return r
	}
	// Too few users for the stall: tasks wait for a user.
	for _, users := range []int{10, 1000} {
		r := run(users)
		if n := r.Admitted; n < 4800 || n > 5200 {
			t.Errorf("%d users: %d admitted, want about 500 a second", users, n)
		}
		if r.Total.P50 > 2*time.Millisecond || r.Total.P95 < 400*time.Millisecond ||
			r.Total.P99 < 850*time.Millisecond {
			t.Errorf("%d users: p50 %v, p95 %v, p99 %v; want the stall in the upper tenth", users, r.Total.P50,
				r.Total.P95, r.Total.P99)
		}
		if r.Waiting != 0 {
			t.Errorf("%d users: %d tasks never began", users, r.Waiting)
		}
		if users == 10 && (r.Late < 400 || r.Late > 700) {
			t.Errorf("%d tasks began late, want about 500", r.Late)
		}
		if users == 1000 && r.Late > 0 {
			t.Errorf("%d tasks began late though there was a user for each", r.Late)
		}
	}
}

// TestOpenModelCountsTasksThatNeverBegan checks a store that cannot keep up.
func TestOpenModelCountsTasksThatNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := &stalling{Repository: openMemory(t)}
		r, err := loadtest.Run(t.Context(), repo, find(t, "max_rps"), &loadtest.Options{
			Classes: []string{"MaxRpsUser"}, Rate: 4000, Users: 2, Duration: 2 * time.Second, Seed: 3,
		})
		check(t, err)
		if r.Admitted < 3900 || r.Admitted > 4100 || r.Waiting < 3800 || r.Waiting > 4200 {
			t.Errorf("%d admitted, %d never began; want half of 8000 each", r.Admitted, r.Waiting)
		}
		if r.Total.P99 < 900*time.Millisecond {
			t.Errorf("p99 %v, want nearly the second that tasks waited at the end", r.Total.P99)
		}
	})
}

// TestOpenModelMixesClasses checks that tasks of classes come in
// proportion to their weights, even if one class is slow.
func TestOpenModelMixesClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := func(name string, lasts time.Duration) []loadtest.Task {
			return []loadtest.Task{{Name: name, Run: func(ctx context.Context, u *loadtest.User) error {
				time.Sleep(lasts)
				return u.As(name).IsAvailable(ctx)
			}}}
		}
		s := loadtest.Scenario{Name: "mixed", Classes: []loadtest.Class{
			{Name: "Slow", Weight: 1, Tasks: task("slow", time.Second)},
			{Name: "Fast", Weight: 3, Tasks: task("fast", 0)},
		}}
		r, err := loadtest.Run(t.Context(), openMemory(t), s, &loadtest.Options{Rate: 100, Duration: 20 * time.Second})
		check(t, err)
		names := requests(r, func(r loadtest.Row) string { return r.Name })
		if n := names["slow"]; n < 430 || n > 570 {
			t.Errorf("%v, want a quarter of 2000 slow", names)
		}
	})
}
