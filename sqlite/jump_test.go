package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// store is a store under test.
type store struct {
	t    *testing.T
	repo limiter.Repository
}

// embedded runs a test on each embedded store, whose callers share the clock
// of their machine. It runs in a synctest bubble, where the test advances the
// clock by sleeping.
func embedded(t *testing.T, test func(store)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) (limiter.Repository, error){
		"memory": func(*testing.T) (limiter.Repository, error) { return memory.New(nil), nil },
		"sqlite": func(t *testing.T) (limiter.Repository, error) {
			t.Helper()
			return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				repo, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = repo.Close() }() // its goroutines end within the bubble
				test(store{t, repo})
			})
		})
	}
}

// off returns a limiter whose clock differs from the machine's.
func off(t *testing.T, repo limiter.Repository, by time.Duration) *limiter.RateLimiter {
	t.Helper()
	lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time { return time.Now().Add(by) }})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

func ask(entity string, n int64) limiter.Request {
	return limiter.Request{Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", n)}
}

// refused returns the wait of a refused request, or 0 if it was admitted.
func refused(t *testing.T, lim *limiter.RateLimiter, req limiter.Request) time.Duration {
	t.Helper()
	_, err := lim.Acquire(t.Context(), req)
	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok {
		return ex.Decision.RetryAfter()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

const jump = 6 * time.Hour

// TestAJumpStopsABucketForItsFillTime makes one call from six hours ahead. The
// bucket pays back the refill of the jump, which is at most one fill time.
func TestAJumpStopsABucketForItsFillTime(t *testing.T) {
	t.Parallel()
	embedded(t, func(s store) {
		t, repo := s.t, s.repo
		right, wrong := off(t, repo, 0), off(t, repo, jump)
		if err := right.SetSystemDefaults(
			t.Context(), limiter.PerMinute("rpm", 60), limiter.PerSecond("rps", 100),
		); err != nil {
			t.Fatal(err)
		}
		for _, lim := range []*limiter.RateLimiter{right, wrong} {
			if wait := refused(t, lim, ask("alice", 60)); wait != 0 {
				t.Fatalf("the first bucket of tokens has to wait %v", wait)
			}
		}
		const want = time.Minute + 1001*time.Millisecond // to pay back, and for the token
		d, err := right.Explain(t.Context(), ask("alice", 1))
		if err != nil || d.RetryAfter() != want {
			t.Errorf("an explanation says %v, want %v: %v", d.RetryAfter(), want, err)
		}
		time.Sleep(10 * time.Second) // Peek has changed nothing
		if wait := refused(t, right, ask("alice", 1)); wait != want {
			t.Errorf("the wait is %v, want %v", wait, want)
		}
		time.Sleep(30 * time.Second) // the refusal has begun to pay back
		if wait := refused(t, right, ask("alice", 1)); wait != want-30*time.Second {
			t.Errorf("half a minute later the wait is %v, want %v", wait, want-30*time.Second)
		}
		statuses, err := right.Status(t.Context(), "alice")
		if err != nil || statuses[0].FullAfter != 90*time.Second+time.Millisecond {
			t.Errorf("full after %v, want 90.001s: %v", statuses[0].FullAfter, err)
		}
		began := time.Now()
		if _, err := right.Wait(t.Context(), ask("alice", 1)); err != nil || time.Since(began) > want-30*time.Second {
			t.Errorf("waited %v: %v", time.Since(began), err)
		}
	})
}

// TestAShortJumpIsPaidBackInFull has a bucket that is ahead by less than its
// fill time, and stays ahead.
func TestAShortJumpIsPaidBackInFull(t *testing.T) {
	t.Parallel()
	embedded(t, func(s store) {
		t, repo := s.t, s.repo
		right, wrong := off(t, repo, 0), off(t, repo, 30*time.Second)
		if err := right.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 60)); err != nil {
			t.Fatal(err)
		}
		refused(t, wrong, ask("alice", 60))
		const want = 31*time.Second + time.Millisecond
		if wait := refused(t, right, ask("alice", 1)); wait != want {
			t.Errorf("the wait is %v, want %v", wait, want)
		}
		short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := right.Wait(short, ask("alice", 1)); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != 0 {
			t.Errorf("after %v: %v, want at once that the deadline is too near", time.Since(began), err)
		}
	})
}

// TestAJumpEndsForEveryCall covers the bucket of a parent, credits and changes
// of limits.
func TestAJumpEndsForEveryCall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*limiter.RateLimiter, *limiter.Lease) error{
		"refusal of a child": func(lim *limiter.RateLimiter, _ *limiter.Lease) error {
			_, err := lim.Acquire(context.Background(), ask("child", 60))
			if _, ok := errors.AsType[*limiter.ExceededError](err); ok {
				return nil
			}
			return fmt.Errorf("not refused: %w", err)
		},
		"give-back": func(_ *limiter.RateLimiter, lease *limiter.Lease) error {
			return lease.Rollback(context.Background())
		},
		"change of limits": func(lim *limiter.RateLimiter, _ *limiter.Lease) error {
			return lim.SetLimits(context.Background(), "team", "gpt-4", limiter.PerMinute("rpm", 50))
		},
	} {
		t.Run(name, func(t *testing.T) {
			embedded(t, func(s store) {
				t, repo := s.t, s.repo
				right, wrong := off(t, repo, 0), off(t, repo, jump)
				err := right.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 60))
				if err == nil { // they keep the bucket, however late the caller is
					err = right.SetLimits(t.Context(), "team", "gpt-4", limiter.PerMinute("rpm", 60))
				}
				if err == nil {
					_, err = right.CreateEntity(t.Context(), limiter.Entity{ID: "child", Parent: "team", Cascade: true})
				}
				if err != nil {
					t.Fatal(err)
				}
				lease, err := right.Acquire(t.Context(), ask("team", 1))
				if err == nil {
					refused(t, wrong, ask("team", 60))
					err = call(right, lease)
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute) // one to pay back, one to fill
				if wait := refused(t, right, ask("team", 50)); wait != 0 {
					t.Errorf("two minutes later the wait is still %v", wait)
				}
			})
		})
	}
}

// TestAJumpIsPaidBack takes random amounts before and during a jump. Once the
// machine's clock reaches the time that the bucket was set back to, the
// admissions are what the limit allows without a jump.
func TestAJumpIsPaidBack(t *testing.T) {
	t.Parallel()
	limit := limiter.Custom("rpm", 40, 2, time.Second)
	const fill = 20 * time.Second
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			embedded(t, func(s store) {
				t, repo := s.t, s.repo
				rng := rand.New(rand.NewPCG(seed, 1))
				right, wrong := off(t, repo, 0), off(t, repo, jump)
				if err := right.SetSystemDefaults(t.Context(), limit); err != nil {
					t.Fatal(err)
				}
				began, total := time.Now(), int64(0)
				try := func(lim *limiter.RateLimiter) {
					n := rng.Int64N(limit.Capacity + 1)
					if refused(t, lim, ask("alice", n)) == 0 {
						total += n
					}
				}
				calls := func(of *limiter.RateLimiter, n int) {
					for range n {
						try(of)
						time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
					}
				}
				calls(right, rng.IntN(20))
				try(wrong)
				pulled := time.Now()
				calls(right, 20+rng.IntN(20))
				time.Sleep(time.Until(pulled.Add(fill)))
				for range 30 {
					calls(right, 1)
					if most := limit.Capacity + refill(limit, time.Since(began)); total > most {
						t.Fatalf("%d admitted after %v, the limit allows %d", total, time.Since(began), most)
					}
				}
			})
		})
	}
}

// TestTakingTurnsWithAClockAheadMintsNothing alternates between a caller that
// stays ahead and one whose clock is right. The first cannot refill again
// after the second has set the bucket back.
func TestTakingTurnsWithAClockAheadMintsNothing(t *testing.T) {
	t.Parallel()
	embedded(t, func(s store) {
		t, repo := s.t, s.repo
		const by = 10 * time.Minute
		right, wrong := off(t, repo, 0), off(t, repo, by)
		limit := limiter.PerMinute("rpm", 60)
		if err := right.SetSystemDefaults(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for i := range 200 {
			if refused(t, []*limiter.RateLimiter{right, wrong}[i%2], ask("alice", 60)) == 0 {
				total += 60
			}
		}
		if most := limit.Capacity + refill(limit, by); total > most {
			t.Errorf("%d admitted at one moment, the time that was skipped refills %d", total, most)
		}
	})
}

// grant is an admission.
type grant struct {
	at time.Duration // on the machine's clock
	n  [2]int64      // tokens of each limit
}

// TestJumpsMintNoMoreThanTheTimeTheySkip mixes callers with nearly right
// clocks and callers far ahead, at random. The admissions must fit the limits
// up to the latest time that any caller has seen. In a window of the machine's
// time without a jump, they must fit its refill and two full buckets, since an
// earlier jump may have filled one.
func TestJumpsMintNoMoreThanTheTimeTheySkip(t *testing.T) {
	t.Parallel()
	limits := []limiter.Limit{limiter.Custom("fast", 20, 10, time.Second), limiter.Custom("slow", 50, 1, time.Second)}
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			embedded(t, func(s store) {
				t, repo := s.t, s.repo
				rng := rand.New(rand.NewPCG(seed, 0))
				if err := off(t, repo, 0).SetSystemDefaults(t.Context(), limits...); err != nil {
					t.Fatal(err)
				}
				offsets := []time.Duration{
					0, 0, -time.Second, time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute,
				}
				began := time.Now()
				var latest time.Duration // of any caller, since the beginning
				var calm []grant         // since the last jump
				var total [2]int64
				for range 400 {
					time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
					by := offsets[rng.IntN(4)]
					if rng.IntN(5) == 0 {
						by = offsets[rng.IntN(len(offsets))]
					}
					g := grant{at: time.Since(began), n: [2]int64{rng.Int64N(15), rng.Int64N(15)}}
					latest = max(latest, g.at+by)
					req := limiter.Request{
						Entity: "alice", Resource: "gpt-4",
						Consume: limiter.Tokens("fast", g.n[0]).And("slow", g.n[1]),
					}
					if refused(t, off(t, repo, by), req) != 0 {
						continue
					}
					calm = append(calm, g)
					if by > 2*time.Second {
						calm = nil
					}
					for i, l := range limits {
						total[i] += g.n[i]
						if most := l.Capacity + refill(l, latest); total[i] > most {
							t.Fatalf("%s: %d admitted up to %v, the limit allows %d", l.Name, total[i], latest, most)
						}
						within := int64(0)
						for _, before := range slices.Backward(calm) {
							within += before.n[i]
							if most := 2*l.Capacity + refill(l, g.at-before.at+4*time.Second); within > most {
								t.Fatalf("%s: %d admitted from %v to %v, want at most %d", l.Name, within,
									before.at, g.at, most)
							}
						}
					}
				}
			})
		})
	}
}

func refill(l limiter.Limit, in time.Duration) int64 { return int64(in)*l.Refill/int64(l.Period) + 1 }
