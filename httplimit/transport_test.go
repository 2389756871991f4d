package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
)

// answers is a RoundTripper that answers with a function and counts calls. Like
// http.Transport it closes the body of the request.
type answers struct {
	answer func(*http.Request) *answer // nil fails
	calls  atomic.Int32
	idle   bool // CloseIdleConnections was called
}

// RoundTrip answers.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.calls.Add(1)
	if r.Body != nil {
		_ = r.Body.Close()
	}
	reply := a.answer(r)
	if reply == nil {
		return nil, errDown
	}
	return &http.Response{StatusCode: reply.status, Header: reply.header, Body: reply.body}, nil
}

// CloseIdleConnections notes the call.
func (a *answers) CloseIdleConnections() { a.idle = true }

// answer is the answer to a call.
type answer struct {
	status int
	header http.Header
	body   io.ReadCloser
}

// reply returns an answer with fields, which are given as pairs.
func reply(status int, fields ...string) *answer {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &answer{status, h, io.NopCloser(strings.NewReader("text"))}
}

func always(status int, fields ...string) func(*http.Request) *answer {
	return func(*http.Request) *answer { return reply(status, fields...) }
}

// caller makes calls in a bubble, where waiting takes no time.
type caller struct {
	*testing.T
	base      *answers
	lim       *limiter.RateLimiter
	transport *httplimit.Transport
}

// newCaller limits one call a minute for each host and path: the path is the
// entity.
func newCaller(t *testing.T, reply func(*http.Request) *answer, opts httplimit.TransportOptions) *caller {
	t.Helper()
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{
		limiter.PerMinute("rpm", 1).WithBurst(2),
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{T: t, base: &answers{answer: reply}, lim: lim}
	opts.Base = c.base
	c.transport = httplimit.NewTransport(lim, func(r *http.Request) (limiter.Request, error) {
		return limiter.Request{
			Entity: strings.Trim(r.URL.Path, "/"), Resource: "api", Consume: limiter.Tokens("rpm", 1),
		}, nil
	}, &opts)
	return c
}

// call makes a call within a timeout and closes the answer. It returns how long
// the call took, and checks that the request's body was closed once.
func (c *caller) call(url string, timeout time.Duration) (took time.Duration, status int, err error) {
	c.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	body := &closeCounter{Reader: strings.NewReader("x")}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		c.Fatal(err)
	}
	resp, err := c.transport.RoundTrip(req)
	if n := body.closed(); n != 1 {
		c.Errorf("the request's body was closed %d times, want once", n)
	}
	if err == nil {
		status = resp.StatusCode
		_ = resp.Body.Close()
	}
	return time.Since(begin), status, err
}

// admitted checks that a call succeeds after a wait.
func (c *caller) admitted(url string, wait time.Duration) {
	c.Helper()
	took, _, err := c.call(url, time.Hour)
	if err != nil || took.Truncate(time.Second) != wait {
		c.Errorf("%v after %v, want success after %v", err, took, wait)
	}
}

// refused checks that a call fails at once, with all the errors.
func (c *caller) refused(url string, timeout time.Duration, want ...error) error {
	c.Helper()
	calls := c.base.calls.Load()
	took, _, err := c.call(url, timeout)
	for _, target := range want {
		if !errors.Is(err, target) {
			c.Errorf("error %v, want %v", err, target)
		}
	}
	if err == nil || took != 0 || c.base.calls.Load() != calls {
		c.Errorf("%v after %v, want an error at once and no call", err, took)
	}
	return err
}

func TestTransportWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, always(200), httplimit.TransportOptions{})
		c.admitted("http://a/key", 0)
		c.admitted("http://a/key", 0)
		c.admitted("http://a/key", time.Minute)
		err := c.refused("http://a/key", 30*time.Second, context.DeadlineExceeded)
		if _, ok := errors.AsType[*limiter.ExceededError](err); !ok {
			t.Errorf("error %v, want a refusal", err)
		}
		c.admitted("http://a/other", 0)
	})
}

func TestTransportFailsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, always(200), httplimit.TransportOptions{FailFast: true})
		c.admitted("http://a/key", 0)
		c.admitted("http://a/key", 0)
		err := c.refused("http://a/key", time.Hour)
		if ex, ok := errors.AsType[*limiter.ExceededError](err); !ok || ex.RetryAfterHeader() != "60" {
			t.Errorf("error %v, want a refusal for 61 s", err)
		}
		_ = c.refused("http://a/no key", time.Hour) // bad input
	})
}

// TestClientTimeoutBoundsTheWait uses the timeout of http.Client as a deadline.
func TestClientTimeoutBoundsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, always(200), httplimit.TransportOptions{})
		client := &http.Client{Transport: c.transport, Timeout: 10 * time.Second}
		for i := range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/key", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if refused := errors.Is(err, context.DeadlineExceeded); refused != (i == 2) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
}

func TestTransportSettlesWhenTheBodyIsClosed(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		used   limiter.Amounts // by the option
		caller int64           // by the caller, before it closes
		tpm    int64
		errs   int
	}{
		{"as estimated", 200, limiter.Amounts{}, 0, 900, 0},
		{"by the option", 200, limiter.Tokens("tpm", 30), 0, 970, 0},
		{"by the caller", 200, limiter.Amounts{}, 250, 750, 0},
		{"the option is last", 200, limiter.Tokens("tpm", 30), 250, 970, 0},
		{"an unknown limit", 200, limiter.Tokens("tpd", 30), 250, 750, 1},
		{"rolled back", 503, limiter.Tokens("tpm", 30), 250, 1000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			transport := httplimit.NewTransport(r.lim, ask, &httplimit.TransportOptions{
				Base: &answers{answer: always(c.status)}, Used: func(*http.Response) limiter.Amounts {
					return c.used
				}, OnError: r.onError,
			})
			resp, err := transport.RoundTrip(r.request(http.MethodGet, "http://a/"))
			r.ok(err)
			r.record(resp.Request.Context())
			if c.caller > 0 {
				r.ok(httplimit.Used(resp.Request.Context(), "tpm", c.caller))
			}
			r.available(2, 900)
			r.ok(resp.Body.Close())
			rpm := int64(2)
			if c.status == 503 {
				rpm = 3
			}
			r.available(rpm, c.tpm)
			r.ok(resp.Body.Close())
			r.available(rpm, c.tpm)
			r.ended(1)
			r.equal("reports", len(r.errs), c.errs)
		})
	}
}

func TestAnswerWithoutABodySettlesAtOnce(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		r := newRig(t)
		resp, err := httplimit.NewTransport(r.lim, ask, &httplimit.TransportOptions{
			Base: &answers{answer: func(*http.Request) *answer { return &answer{status: 204, body: body} }},
			Used: func(*http.Response) limiter.Amounts { return limiter.Tokens("tpm", 7) },
		}).RoundTrip(r.request(http.MethodGet, "http://a/"))
		r.ok(err)
		r.record(resp.Request.Context())
		if resp.Body != nil {
			r.ok(resp.Body.Close())
		}
		r.available(2, 993)
		r.ended(1)
	}
}

// TestTrailerIsThereWhenUsedIsCalled settles from a field after the body.
func TestTrailerIsThereWhenUsedIsCalled(t *testing.T) {
	r := newRig(t)
	server := r.server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Tokens")
		_, _ = io.WriteString(w, "text")
		w.Header().Set("X-Tokens", "xxxxx")
	}), false)
	client := &http.Client{Transport: httplimit.NewTransport(r.lim, ask, &httplimit.TransportOptions{
		Base: server.Client().Transport,
		Used: func(resp *http.Response) limiter.Amounts {
			return limiter.Tokens("tpm", int64(len(resp.Trailer.Get("X-Tokens"))))
		},
	})}
	r.equal("body", r.get(client, http.MethodGet, server.URL).body, "text")
	r.available(2, 995)
	client.CloseIdleConnections()
}

func TestKeepDecides(t *testing.T) {
	r := newRig(t)
	var seen []httplimit.Exchange
	base := &answers{answer: always(500)}
	transport := httplimit.NewTransport(r.lim, ask, &httplimit.TransportOptions{
		Base: base,
		Keep: func(_ *http.Request, e httplimit.Exchange) bool {
			seen = append(seen, e)
			return true
		},
	})
	resp, err := transport.RoundTrip(r.request(http.MethodGet, "http://a/"))
	r.ok(err)
	_ = resp.Body.Close()
	base.answer = func(*http.Request) *answer { return nil }
	resp, err = transport.RoundTrip(r.request(http.MethodGet, "http://a/"))
	if err == nil {
		_ = resp.Body.Close()
	}
	r.equal("error", errors.Is(err, errDown), true)
	r.equal("exchanges", len(seen), 2)
	r.equal("status", seen[0].Response.StatusCode, 500)
	r.equal("cause", errors.Is(seen[1].Err, errDown), true)
	r.equal("perhaps sent", seen[1].Sent, true) // this RoundTripper reports nothing
	r.available(1, 800)
}

// TestUpgradedConnectionCanBeWritten keeps the writer of status 101.
func TestUpgradedConnectionCanBeWritten(t *testing.T) {
	r := newRig(t)
	var written strings.Builder
	resp, err := httplimit.NewTransport(r.lim, ask,
		&httplimit.TransportOptions{Base: &answers{answer: func(*http.Request) *answer {
			return &answer{status: 101, body: struct {
				io.ReadCloser
				io.Writer
			}{http.NoBody, &written}}
		}}}).RoundTrip(r.request(http.MethodGet, "http://a/"))
	r.ok(err)
	defer resp.Body.Close()
	_, err = io.WriteString(resp.Body.(io.Writer), "hi")
	r.ok(err)
	r.equal("written", written.String(), "hi")
}

func TestTransportPassesTheRestOn(t *testing.T) {
	r := newRig(t)
	base := &answers{answer: always(200)}
	skip := httplimit.NewTransport(r.lim, func(*http.Request) (limiter.Request, error) {
		return limiter.Request{}, httplimit.ErrSkip
	}, &httplimit.TransportOptions{Base: base})
	resp, err := skip.RoundTrip(r.request(http.MethodGet, "http://a/"))
	r.ok(err)
	_ = resp.Body.Close()
	r.available(3, 1000)
	skip.CloseIdleConnections()
	r.equal("idle connections are closed", base.idle, true)

	cause := errors.New("no key")
	body := &closeCounter{}
	req := r.request(http.MethodPost, "http://a/")
	req.Body = body
	resp, err = httplimit.NewTransport(r.lim, func(*http.Request) (limiter.Request, error) {
		return limiter.Request{}, cause
	}, nil).RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	r.equal("cause", errors.Is(err, cause), true)
	r.equal("closed", body.closed(), 1)
}

// TestConcurrentCallsAddUp makes many calls at once. What the calls used is what is
// charged, and never more calls run than the limit admits.
func TestConcurrentCallsAddUp(t *testing.T) {
	r := newRig(t)
	r.ok(r.lim.SetLimits(context.Background(), key, model, limiter.PerMinute("rpm", 100),
		limiter.PerMinute("tpm", 20_000)))
	base := &answers{answer: always(200)}
	transport := httplimit.NewTransport(r.lim, ask, &httplimit.TransportOptions{Base: base, FailFast: true})
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			resp, err := transport.RoundTrip(r.request(http.MethodGet, "http://a/"))
			if err != nil {
				return
			}
			r.works(httplimit.Used(resp.Request.Context(), "tpm", 150))
			_ = resp.Body.Close()
		})
	}
	group.Wait()
	r.equal("calls", int(base.calls.Load()), 100)
	r.available(0, 5_000)
}
