package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestHandlerChargesAndShowsTheBalances(t *testing.T) {
	r := newRig(t)
	w := serve(t.Context(), r.handler(hello, nil))
	r.equal("status", w.Code, 200)
	r.equal("body", w.Body.String(), "hello")
	r.equal("policy", w.Header().Get("RateLimit-Policy"), `"rpm";q=3;w=60, "tpm";q=1000;w=60`)
	r.equal("state", w.Header().Get("RateLimit"), `"rpm";r=2;t=20, "tpm";r=900;t=1`)
	r.equal("legacy", w.Header().Get("X-Ratelimit-Limit"), "")
	r.available(2, 900)
	r.ended(1)
	r.reported()
}

func TestUsedCorrectsTheCharge(t *testing.T) {
	r := newRig(t)
	w := serve(t.Context(), r.handler(func(_ http.ResponseWriter, q *http.Request) {
		r.works(httplimit.Used(q.Context(), "tpm", 250))
	}, nil))
	r.equal("status", w.Code, 200)
	r.available(2, 750)
	r.ended(1)
}

func TestUsedWithoutALease(t *testing.T) {
	if lease := httplimit.Lease(t.Context()); lease != nil {
		t.Errorf("lease %v, want none", lease)
	}
	if err := httplimit.Used(t.Context(), "tpm", 1); !errors.Is(err, limiter.ErrLeaseDone) {
		t.Errorf("error %v, want ErrLeaseDone", err)
	}
}

// TestResultsThatRollBack lists the answers that cost nothing, and those that do.
func TestResultsThatRollBack(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	all := func(*http.Request, httplimit.Result) bool { return true }
	for _, c := range []struct {
		name string
		next http.HandlerFunc
		keep func(*http.Request, httplimit.Result) bool
		rpm  int64
	}{
		{"200", status(200), nil, 2},
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, nil, 2},
		{"404", status(404), nil, 2},
		{"499", status(499), nil, 2},
		{"500", status(500), nil, 3},
		{"503", status(503), nil, 3},
		{"500, kept by policy", status(500), all, 2},
		{"103 before 500", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusInternalServerError)
		}, nil, 3},
		{"500 after 200", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusInternalServerError)
		}, nil, 2},
		{"ended by the handler", func(_ http.ResponseWriter, q *http.Request) {
			_ = httplimit.Lease(q.Context()).Rollback(q.Context())
		}, nil, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			serve(t.Context(), r.handler(c.next, &httplimit.Options{Keep: c.keep}))
			r.available(c.rpm, 700+100*c.rpm)
			r.ended(1)
			r.reported()
		})
	}
}

func TestPanicRollsBackAndPropagates(t *testing.T) {
	for _, value := range []any{http.ErrAbortHandler, "boom"} {
		r := newRig(t)
		var seen httplimit.Result
		handler := r.handler(func(w http.ResponseWriter, q *http.Request) {
			hello(w, q)
			_ = httplimit.Used(q.Context(), "tpm", 500)
			panic(value)
		}, &httplimit.Options{Keep: func(_ *http.Request, result httplimit.Result) bool {
			seen = result
			return result.Served()
		}})
		func() {
			defer func() { r.equal("panic", recover() == value, true) }()
			serve(t.Context(), handler)
		}()
		r.equal("result", seen, httplimit.Result{Status: 200, Panicked: true})
		r.available(3, 1000)
		r.ended(1)
	}
}

// TestTheEndOfARequestGivesNothingBack cancels the request before the answer
// begins, and after.
func TestTheEndOfARequestGivesNothingBack(t *testing.T) {
	for _, c := range []struct {
		name string
		next func(leave func()) http.HandlerFunc
	}{
		{"before", func(leave func()) http.HandlerFunc {
			return func(w http.ResponseWriter, q *http.Request) { leave(); hello(w, q) }
		}},
		{"without an answer", func(leave func()) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { leave() }
		}},
		{"after a byte", func(leave func()) http.HandlerFunc {
			return func(w http.ResponseWriter, q *http.Request) { hello(w, q); leave() }
		}},
		{"after a flush", func(leave func()) http.HandlerFunc {
			return func(w http.ResponseWriter, q *http.Request) { w.(http.Flusher).Flush(); leave(); hello(w, q) }
		}},
		{"after a flush, with a panic", func(leave func()) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				leave()
				panic(http.ErrAbortHandler)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			ctx, cancel := context.WithCancel(t.Context())
			func() {
				defer func() { _ = recover() }()
				serve(ctx, r.handler(c.next(cancel), nil))
			}()
			r.available(2, 900)
			r.ended(1)
			r.reported()
		})
	}
}

// TestCommitOutlivesItsClient corrects the charge after the client has left.
func TestCommitOutlivesItsClient(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	serve(ctx, r.handler(func(w http.ResponseWriter, q *http.Request) {
		hello(w, q)
		cancel()
		r.works(httplimit.Used(q.Context(), "tpm", 50))
	}, nil))
	r.available(2, 950)
	r.ended(1)
	r.reported()
}

// streamRequest returns a request of an HTTP/2 stream.
func streamRequest(ctx context.Context) *http.Request {
	q := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	q.Proto, q.ProtoMajor, q.ProtoMinor = "HTTP/2.0", 2, 0
	return q
}

// A client that resets its stream before the charge pays nothing.
func TestClientGoneBeforeTheAcquire(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r.handler(hello, nil).ServeHTTP(w, streamRequest(ctx))
	r.equal("status", w.Code, 503)
	r.available(3, 1000)
	r.ended(0)
	r.reported()
}

// A client that resets its stream during the charge gets it back, and its handler
// does not run.
func TestClientGoneDuringTheAcquire(t *testing.T) {
	for _, fault := range []repotest.Fault{repotest.None, repotest.Before} {
		r := newRig(t)
		repo := memory.New(nil)
		r.lim = r.limiter(repo)
		r.ok(r.lim.SetResourceDefaults(t.Context(), model, limiter.PerMinute("rpm", 3), limiter.PerMinute("tpm", 1000)))
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		faulty := repotest.NewFaulty(repo, func(method string) repotest.Fault {
			if method == "Credit" {
				return fault
			}
			return repotest.None
		})
		limit := httplimit.New(r.limiter(repotest.NewLeaving(faulty, leave)), ask,
			&httplimit.Options{OnError: r.onError})
		handler := limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the handler runs")
		}))
		handler.ServeHTTP(httptest.NewRecorder(), streamRequest(ctx))
		if fault == repotest.None {
			r.available(3, 1000)
			r.reported()
			continue
		}
		r.available(2, 900)
		r.reported(repotest.ErrInjected)
	}
}

func TestSkipPassesEverythingUntouched(t *testing.T) {
	r := newRig(t)
	limit := httplimit.New(r.lim, func(*http.Request) (limiter.Request, error) {
		return limiter.Request{}, httplimit.ErrSkip
	}, nil)
	below := httptest.NewRecorder()
	limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.equal("writer", w == http.ResponseWriter(below), true)
		r.equal("lease", httplimit.Lease(q.Context()) == nil, true)
		hello(w, q)
	})).ServeHTTP(below, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	r.equal("answer", below.Body.String(), "hello")
	r.equal("fields", below.Header().Get("RateLimit"), "")
}

func TestRefuseReplacesTheAnswer(t *testing.T) {
	r := newRig(t)
	handler := r.handler(hello, &httplimit.Options{Refuse: func(w http.ResponseWriter, _ *http.Request, err error) {
		_, refused := errors.AsType[*limiter.ExceededError](err)
		r.equal("refused", refused, true)
		w.WriteHeader(http.StatusTeapot)
	}})
	for range 3 {
		serve(t.Context(), handler)
	}
	w := serve(t.Context(), handler)
	r.equal("status", w.Code, http.StatusTeapot)
	r.equal("state", w.Header().Get("RateLimit"), `"rpm";r=0;t=20, "tpm";r=700;t=1`)
}

func TestOutageUnderAllowIsServedAndReported(t *testing.T) {
	r := newRig(t)
	r.fail("Consume", 1)
	limit := httplimit.New(r.lim, func(q *http.Request) (limiter.Request, error) {
		req, err := ask(q)
		req.OnUnavailable = limiter.Allow
		return req, err
	}, &httplimit.Options{OnError: r.onError})
	w := serve(t.Context(), limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.record(q.Context())
		r.works(httplimit.Used(q.Context(), "tpm", 5))
		hello(w, q)
	})))
	r.equal("status", w.Code, 200)
	r.equal("fields", w.Header().Get("RateLimit"), "")
	r.ended(1)
	r.equal("reports", len(r.errs), 1)
	if _, ok := errors.AsType[*limiter.UnavailableError](r.errs[0]); !ok {
		t.Errorf("reported %v, want an outage", r.errs[0])
	}
}

func TestNewNeedsItsArguments(t *testing.T) {
	lim, err := limiter.New(memory.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(){
		"limiter":               func() { httplimit.New(nil, ask, nil) },
		"function":              func() { httplimit.New(lim, nil, nil) },
		"limiter of transport":  func() { httplimit.NewTransport(nil, ask, nil) },
		"function of transport": func() { httplimit.NewTransport(lim, nil, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic without %s", name)
				}
			}()
			call()
		}()
	}
}
