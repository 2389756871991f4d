package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// TestTransportHonoursRetryAfter sends a call, which is refused, and then another.
func TestTransportHonoursRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		value  func(now time.Time) []string
		wait   time.Duration
	}{
		{"seconds", 429, func(time.Time) []string { return []string{"Retry-After", "7"} }, 7 * time.Second},
		{"503", 503, func(time.Time) []string { return []string{"Retry-After", " 7 "} }, 7 * time.Second},
		{"date", 429, func(now time.Time) []string {
			return []string{"Retry-After", now.Add(9 * time.Second).UTC().Format(http.TimeFormat)}
		}, 9 * time.Second},
		{"date by another clock", 429, func(now time.Time) []string {
			off := now.Add(-time.Hour).UTC()
			return []string{
				"Date", off.Format(http.TimeFormat), "Retry-After",
				off.Add(9 * time.Second).Format(http.TimeFormat),
			}
		}, 9 * time.Second},
		{"at most five minutes", 429, func(time.Time) []string {
			return []string{"Retry-After", "86400"}
		}, 5 * time.Minute},
		{"a huge number", 429, func(time.Time) []string {
			return []string{"Retry-After", "99999999999999999999999"}
		}, 5 * time.Minute},
		{"a far date", 429, func(time.Time) []string {
			return []string{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"}
		}, 5 * time.Minute},
		{"a past date", 429, func(time.Time) []string {
			return []string{"Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"}
		}, 0},
		{"zero", 429, func(time.Time) []string { return []string{"Retry-After", "0"} }, 0},
		{"negative", 429, func(time.Time) []string { return []string{"Retry-After", "-7"} }, 0},
		{"nonsense", 429, func(time.Time) []string { return []string{"Retry-After", "soon"} }, 0},
		{"none", 429, func(time.Time) []string { return nil }, 0},
		{"another status", 200, func(time.Time) []string { return []string{"Retry-After", "7"} }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fields := c.value(time.Now())
				k := newCaller(t, func(*http.Request) *answer {
					return reply(c.status, fields...)
				}, httplimit.TransportOptions{
					Keep: func(*http.Request, httplimit.Exchange) bool { return false }, // there is always room
				})
				took, status, err := k.call("http://a/key", time.Hour)
				if err != nil || status != c.status || took != 0 || k.base.calls.Load() != 1 {
					t.Fatalf("%d, %v after %v in %d calls; want the answer of the one call", status, err, took,
						k.base.calls.Load())
				}
				k.base.answer = always(200)
				k.admitted("http://b/key", 0)
				k.admitted("http://a/other", 0)
				took, _, err = k.call("http://a/key", time.Hour)
				if err != nil || took != c.wait {
					t.Errorf("%v after %v, want success after %v", err, took, c.wait)
				}
				if n := k.base.calls.Load(); n != 4 {
					t.Errorf("%d calls, want 4: none is repeated", n)
				}
			})
		})
	}
}

func TestRetryAfterBeyondTheDeadline(t *testing.T) {
	for _, failFast := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := newCaller(t, always(429, "Retry-After", "60"), httplimit.TransportOptions{FailFast: failFast})
			if _, _, err := k.call("http://a/key", time.Hour); err != nil {
				t.Fatal(err)
			}
			err := k.refused("http://a/key", 30*time.Second)
			pause, ok := errors.AsType[*httplimit.RetryAfterError](err)
			if !ok || pause.Host != "a" || time.Until(pause.Until) != time.Minute {
				t.Errorf("error %v, want a pause of a minute", err)
			}
			if errors.Is(err, context.DeadlineExceeded) == failFast {
				t.Errorf("error %v: only a call that waits has a deadline", err)
			}
			if want := "a asked for no request before " +
				time.Now().Add(time.Minute).UTC().Format(time.RFC3339); pause.Error() != want {
				t.Errorf("text %q, want %q", pause, want)
			}
		})
	}
}

func TestCancelledPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCaller(t, always(429, "Retry-After", "60"), httplimit.TransportOptions{})
		if _, _, err := k.call("http://a/key", time.Hour); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a/key", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		resp, err := k.transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if took := time.Since(begin); !errors.Is(err, context.Canceled) || took != 5*time.Second {
			t.Errorf("%v after %v, want a cancellation after 5 s", err, took)
		}
	})
}

// TestPauseThatBeginsWhileACallWaitsForRoom lets a call wait for room. Meanwhile
// another call is refused for two minutes. The first one waits for that too, and
// holds no lease meanwhile.
func TestPauseThatBeginsWhileACallWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		k := newCaller(t, func(r *http.Request) *answer {
			if r.Header.Get("Late") != "" {
				<-answered
				return reply(429, "Retry-After", "120")
			}
			return reply(200)
		}, httplimit.TransportOptions{Keep: func(*http.Request, httplimit.Exchange) bool { return true }})
		go func() {
			req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://a/key", http.NoBody)
			req.Header.Set("Late", "yes")
			if resp, err := k.transport.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
		synctest.Wait()
		k.admitted("http://a/key", 0)
		time.AfterFunc(30*time.Second, func() { close(answered) })
		k.admitted("http://a/key", 150*time.Second)
	})
}

// TestPausesAreForgotten makes many keys pause, one after the other.
func TestPausesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCaller(t, always(429, "Retry-After", "1"), httplimit.TransportOptions{})
		for i := range 1000 {
			if _, _, err := k.call(
				"http://a/key-"+string(rune('a'+i%26))+time.Duration(i).String(), time.Hour,
			); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // of the bubble
		}
		if n := k.transport.Pauses(); n > 64 {
			t.Errorf("%d pauses are remembered, want at most 64", n)
		}
	})
}
