package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// fault is one row of a fault matrix: what breaks, what the client sees, and what
// is charged.
type fault struct {
	name     string
	method   string         // of the store, that fails
	how      repotest.Fault // how it fails
	slow     bool           // it does not answer instead
	upstream string         // "" works; "down", or a mode of upstream
	leaves   bool           // the client leaves after the first byte, or after 10 s without one

	status   int   // 0: the call fails
	rpm, tpm int64 // available afterwards
	reported error
}

// slowStore is a store whose methods may hang until their context ends.
type slowStore struct {
	limiter.Repository
	method string
}

func (s *slowStore) hang(ctx context.Context, method string) error {
	if s.method != method {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// Consume hangs, or calls Consume of the store.
func (s *slowStore) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	if err := s.hang(ctx, "Consume"); err != nil {
		return limiter.Outcome{}, err
	}
	return s.Repository.Consume(ctx, now, c)
}

// Credit hangs, or calls Credit of the store.
func (s *slowStore) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if err := s.hang(ctx, "Credit"); err != nil {
		return err
	}
	return s.Repository.Credit(ctx, now, credits...)
}

// faultyRig returns a rig whose store fails as the row says. The test's checks see
// a store that works.
func faultyRig(t *testing.T, c *fault) *rig {
	t.Helper()
	r := newRig(t)
	repo := memory.New(nil)
	r.lim = r.limiter(repo)
	r.ok(r.lim.SetResourceDefaults(context.Background(), model, limiter.PerMinute("rpm", 3),
		limiter.PerMinute("tpm", 1000)))
	var store limiter.Repository = repotest.NewFaulty(repo, func(method string) repotest.Fault {
		if method == c.method && !c.slow {
			return c.how
		}
		return repotest.None
	})
	if c.slow {
		store = &slowStore{store, c.method}
	}
	var err error
	r.broken, err = limiter.New(store, &limiter.Options{Now: func() time.Time {
		return noon
	}, Timeout: time.Second, SettleTimeout: 2 * time.Second})
	r.ok(err)
	return r
}

// call makes a call that behaves as the row says. It returns the status and the
// body as far as they arrived.
func (c *fault) call(r *rig, transport http.RoundTripper, done func(*http.Response)) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	sent := &closeCounter{Reader: strings.NewReader("question")}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream/", sent)
	r.ok(err)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		synctest.Wait()
		r.equal("request body closed", sent.closed() > 0, true)
		return 0, "", err
	}
	defer resp.Body.Close()
	if c.leaves {
		_, err = io.ReadFull(resp.Body, make([]byte, 1))
		r.ok(err)
		cancel()
	}
	text, err := io.ReadAll(resp.Body)
	done(resp)
	return resp.StatusCode, string(text), err
}

// TestFaultsOfTheHandler puts the middleware in front of a reverse proxy. A bubble
// ends only when all its goroutines have, so a row that leaks one fails.
func TestFaultsOfTheHandler(t *testing.T) {
	for _, c := range []fault{
		{name: "nothing fails", status: 200, rpm: 2, tpm: 960},
		{
			name: "store down", method: "Consume", how: repotest.Before, status: 503, rpm: 3, tpm: 1000,
			reported: repotest.ErrInjected,
		},
		{
			name: "store slow", method: "Consume", slow: true, status: 503, rpm: 3, tpm: 1000,
			reported: context.DeadlineExceeded,
		},
		{
			name: "store fails after the write", method: "Consume", how: repotest.After, status: 503, rpm: 2,
			tpm: 900, reported: repotest.ErrInjected,
		},
		{
			name: "commit fails", method: "Credit", how: repotest.Before, status: 200, rpm: 2, tpm: 900,
			reported: repotest.ErrInjected,
		},
		{
			name: "commit fails after the write", method: "Credit", how: repotest.After, status: 200, rpm: 2,
			tpm: 960, reported: repotest.ErrInjected,
		},
		{
			name: "commit slow", method: "Credit", slow: true, status: 200, rpm: 2, tpm: 900,
			reported: context.DeadlineExceeded,
		},
		{name: "upstream down", upstream: "down", status: 502, rpm: 3, tpm: 1000},
		{
			name: "upstream down, rollback fails", upstream: "down", method: "Credit", how: repotest.Before,
			status: 502, rpm: 2, tpm: 900, reported: repotest.ErrInjected,
		},
		{
			name: "upstream down, rollback fails after the write", upstream: "down", method: "Credit",
			how: repotest.After, status: 502, rpm: 3, tpm: 1000, reported: repotest.ErrInjected,
		},
		{name: "upstream slow, client leaves", upstream: "slow", rpm: 3, tpm: 1000},
		{name: "upstream cut before the header", upstream: "cut before the header", status: 502, rpm: 3, tpm: 1000},
		{name: "upstream cut in mid-stream", upstream: "cut in mid-stream", rpm: 3, tpm: 1000},
		{name: "client leaves in mid-stream", upstream: "endless", leaves: true, rpm: 2, tpm: 900},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := faultyRig(t, &c)
				behind, stopBehind := newNetwork().serve(upstream(c.upstream))
				if c.upstream == "down" {
					stopBehind()
				}
				proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "upstream"})
				proxy.Transport, proxy.FlushInterval, proxy.ErrorLog = behind, -1, discardLog()
				limit := httplimit.New(r.broken, ask, &httplimit.Options{OnError: r.onError})
				front, stopFront := newNetwork().serve(limit.Handler(http.HandlerFunc(func(
					w http.ResponseWriter, q *http.Request,
				) {
					r.record(q.Context())
					proxy.ServeHTTP(w, q)
					r.works(httplimit.Used(q.Context(), "tpm", 40))
				})))
				status, body, err := c.call(r, front, func(*http.Response) {})
				if err != nil {
					status = 0
				}
				r.equal("status", status, c.status)
				if status == 503 {
					r.equal("retry is offered", decode(t, body).Status, 503)
				}
				synctest.Wait()
				stopFront()
				stopBehind()
				c.check(r)
			})
		})
	}
}

// check compares the charge, the reports and the leases with the row.
func (c *fault) check(r *rig) {
	r.Helper()
	time.Sleep(3 * time.Second) // of the bubble: longer than every timeout of the limiter
	r.available(c.rpm, c.tpm)
	if c.reported != nil {
		r.reported(c.reported)
	} else {
		r.reported()
	}
	r.ended(len(r.leases))
	if admitted := c.method != "Consume"; admitted != (len(r.leases) == 1) {
		r.Errorf("%d leases, want one if the request was admitted", len(r.leases))
	}
}

// TestFaultsOfTheTransport calls an upstream through a Transport.
func TestFaultsOfTheTransport(t *testing.T) {
	for _, c := range []fault{
		{name: "nothing fails", status: 200, rpm: 2, tpm: 960},
		{name: "store down", method: "Consume", how: repotest.Before, rpm: 3, tpm: 1000},
		{name: "store slow", method: "Consume", slow: true, rpm: 3, tpm: 1000},
		{name: "store fails after the write", method: "Consume", how: repotest.After, rpm: 2, tpm: 900},
		{
			name: "commit fails", method: "Credit", how: repotest.Before, status: 200, rpm: 2, tpm: 900,
			reported: repotest.ErrInjected,
		},
		{
			name: "commit fails after the write", method: "Credit", how: repotest.After, status: 200, rpm: 2,
			tpm: 960, reported: repotest.ErrInjected,
		},
		{
			name: "commit slow", method: "Credit", slow: true, status: 200, rpm: 2, tpm: 900,
			reported: context.DeadlineExceeded,
		},
		{name: "upstream down", upstream: "down", rpm: 3, tpm: 1000},
		{
			name: "upstream down, rollback fails", upstream: "down", method: "Credit", how: repotest.Before,
			rpm: 2, tpm: 900, reported: repotest.ErrInjected,
		},
		{name: "upstream slow", upstream: "slow", rpm: 2, tpm: 900},
		{name: "upstream cut before the header", upstream: "cut before the header", rpm: 2, tpm: 900},
		{name: "upstream cut in mid-stream", upstream: "cut in mid-stream", rpm: 2, tpm: 900},
		{name: "upstream fails", upstream: "500", status: 500, rpm: 3, tpm: 1000},
		{name: "upstream refuses", upstream: "429", status: 429, rpm: 3, tpm: 1000},
		{name: "caller leaves in mid-stream", upstream: "endless", leaves: true, rpm: 2, tpm: 900},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := faultyRig(t, &c)
				base, stop := newNetwork().serve(upstream(c.upstream))
				if c.upstream == "down" {
					stop()
				}
				transport := httplimit.NewTransport(r.broken, ask, &httplimit.TransportOptions{
					Base: recording{base, r}, OnError: r.onError,
				})
				status, _, err := c.call(r, transport, func(resp *http.Response) {
					if resp.StatusCode == http.StatusOK && c.upstream == "" {
						r.ok(httplimit.Used(resp.Request.Context(), "tpm", 40))
					}
				})
				if err != nil {
					status = 0
				}
				r.equal("status", status, c.status)
				if c.method == "Consume" {
					_, outage := errors.AsType[*limiter.UnavailableError](err)
					r.equal("outage", outage, true)
				}
				synctest.Wait()
				stop()
				c.check(r)
			})
		})
	}
}

// recording notes the lease of each call that is sent.
type recording struct {
	*http.Transport
	r *rig
}

// RoundTrip makes the call.
func (b recording) RoundTrip(q *http.Request) (*http.Response, error) {
	b.r.record(q.Context())
	return b.Transport.RoundTrip(q)
}

// TestShutdownWaitsForTheCommit stops a server while a commit is under way.
func TestShutdownWaitsForTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := faultyRig(t, &fault{method: "Credit", slow: true})
		limit := httplimit.New(r.broken, ask, &httplimit.Options{OnError: r.onError})
		net := newNetwork()
		transport, stop := net.serve(limit.Handler(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			r.works(httplimit.Used(q.Context(), "tpm", 40))
		})))
		defer stop()
		begin := time.Now()
		go func() { _, _, _ = new(fault).call(r, transport, func(*http.Response) {}) }()
		synctest.Wait() // the commit hangs
		r.reported()
		r.ok(net.server.Shutdown(t.Context()))
		r.reported(context.DeadlineExceeded)
		r.equal("the commit ended by its own timeout", time.Since(begin) >= 2*time.Second, true)
	})
}
