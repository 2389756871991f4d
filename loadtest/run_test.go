package loadtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/memory"
)

func openMemory(t *testing.T) limiter.Repository {
	t.Helper()
	repo := memory.New(nil)
	t.Cleanup(func() { check(t, repo.Close()) })
	return repo
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, name string) loadtest.Scenario {
	t.Helper()
	s, err := loadtest.Find(name, "")
	check(t, err)
	return s
}

func TestClosedModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := openMemory(t)
		var seen []loadtest.Snapshot
		result, err := loadtest.Run(t.Context(), repo, find(t, "simple"), &loadtest.Options{
			Users: 20, SpawnRate: 10, Duration: 10 * time.Second, Seed: 1,
			Report: func(s loadtest.Snapshot) { seen = append(seen, s) },
		})
		check(t, err)
		if len(seen) < 9 || seen[0].Users < 10 || seen[0].Users > 12 || seen[4].Users != 20 {
			t.Errorf("%d reports, users after 1 s: %d, after 5 s: %d; want 10 a second up to 20", len(seen),
				seen[0].Users, seen[4].Users)
		}
		if n := result.Admitted; n < 270 || n > 400 {
			t.Errorf("%d admitted; 20 users with pauses of 0.55 s on average should make about 330 requests in 10 s", n)
		}
		if result.Failed != 0 || result.Refused != 0 || len(result.Failures) != 0 {
			t.Errorf("got %d failed, %d refused, %v; want none", result.Failed, result.Refused, result.Failures)
		}
		if rate := float64(result.Total.Requests) / result.Elapsed.Seconds(); result.Total.PerSecond != rate {
			t.Errorf("%v requests a second, want requests / time = %v", result.Total.PerSecond, rate)
		}
		if n := len(result.Points); n < 10 || n > 11 {
			t.Errorf("%d points, want one for each second", n)
		}
		if result.Users != 20 || result.Points[len(result.Points)-1].Users != 20 {
			t.Errorf("%d users at the end, want those before the stop", result.Users)
		}
		if left := namespaces(t, repo); left != 1 {
			t.Errorf("%d namespaces left, want only the default", left)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := openMemory(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		result, err := loadtest.Run(ctx, repo, find(t, "simple"), &loadtest.Options{Duration: time.Hour})
		check(t, err)
		if result.Admitted == 0 || result.Elapsed > 4*time.Second {
			t.Errorf("%d admitted in %v, want the first 3 s", result.Admitted, result.Elapsed)
		}
		if left := namespaces(t, repo); left != 1 {
			t.Errorf("%d namespaces left, want only the default", left)
		}
	})
}

func namespaces(t *testing.T, repo limiter.Repository) int {
	t.Helper()
	n := 0
	for _, err := range repo.Namespaces(t.Context()) {
		check(t, err)
		n++
	}
	return n
}

func TestMaxRPSCascades(t *testing.T) {
	repo := openMemory(t)
	result, err := loadtest.Run(t.Context(), repo, find(t, "locustfiles/max_rps.py"), &loadtest.Options{
		Classes: []string{"MaxRpsCascadeUser"}, Users: 4, SpawnRate: 1000, Duration: 300 * time.Millisecond,
	})
	check(t, err)
	if result.Admitted < 100 || result.Failed > 0 {
		t.Errorf("%d admitted, %d failed, %v", result.Admitted, result.Failed, result.Failures)
	}
	t.Logf("%.0f/s, p99 %v", result.Total.PerSecond, result.Total.P99)
}
