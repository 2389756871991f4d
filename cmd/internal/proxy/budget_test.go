package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// newBudgetRig starts a proxy whose only limit is a budget for the model m. A token
// of an answer costs a millionth, and a prompt nothing.
func newBudgetRig(t *testing.T, budget int64, answer http.HandlerFunc, change func(*Options)) *rig {
	t.Helper()
	r := newRig(t, answer, func(o *Options) {
		o.Prices = func(string, time.Time) (llm.Price, error) { return llm.Price{Output: 1_000_000}, nil }
		if change != nil {
			change(o)
		}
	})
	if err := r.lim.SetResourceDefaults(
		context.Background(), "m", limiter.Quota("spend", budget, limiter.EveryMonth),
	); err != nil {
		t.Fatal(err)
	}
	return r
}

// wantCost checks what Alice has spent.
func (r *rig) wantCost(budget, want int64) {
	r.t.Helper()
	r.proxy.calls.Wait()
	left, err := r.lim.Available(context.Background(), HashKey(aliceKey), "m")
	if got := budget - left.Get("spend"); err != nil || got != want {
		r.t.Errorf("%d are charged, %v; want %d", got, err, want)
	}
}

// The proxy writes a maximum into a request without one, in the field of its API,
// and changes nothing else.
func TestProxyWritesTheMaximum(t *testing.T) {
	newMaximum := func(o *Options) { o.MaximumField = "max_completion_tokens" }
	for _, tc := range []struct {
		path, body, want string
		change           func(*Options)
	}{
		{chatPath, `{"model":"m"}`, `{"max_tokens":8192,"model":"m"}`, nil},
		{chatPath, `{"model":"m"}`, `{"max_completion_tokens":100,"model":"m"}`, func(o *Options) {
			o.MaximumField, o.MaxOutput = "max_completion_tokens", 100
		}},
		{"/v1/completions", `{"model":"m" }`, `{"max_tokens":8192,"model":"m" }`, func(o *Options) {
			o.MaximumField = "max_completion_tokens"
		}},
		{"/v1/responses", `{"model":"m"}`, `{"max_output_tokens":8192,"model":"m"}`, nil},
		{"/v1/messages", `{"model":"m"}`, `{"max_tokens":8192,"model":"m"}`, nil},
		{"/v1/embeddings", `{"model":"m"}`, `{"model":"m"}`, nil},
		{chatPath, `{"model":"m","max_tokens":5}`, `{"model":"m","max_tokens":5}`, nil},
		{chatPath, `{"model":"m","max_tokens":-1}`, `{"model":"m","max_tokens":8192}`, nil},
		{
			chatPath, `{"model":"m","max_completion_tokens":5}`,
			`{"max_tokens":5,"model":"m","max_completion_tokens":null}`, nil,
		},
		{chatPath, `{"model":"m","n":3,"num_predict":5}`, `{"max_tokens":5,"model":"m","n":3,"num_predict":5}`, nil},
		{chatPath, `{"model":"m","n_predict":-1}`, `{"max_tokens":8192,"model":"m","n_predict":8192}`, nil},
		{chatPath, `{"model":"m","max_tokens":5}`, `{"model":"m","max_tokens":5}`, newMaximum},
		{
			chatPath, `{"model":"m","max_new_tokens":5}`,
			`{"max_completion_tokens":5,"model":"m","max_new_tokens":5}`, newMaximum,
		},
		{"/v1/completions", `{"model":"m","max_new_tokens":5}`, `{"max_tokens":5,"model":"m","max_new_tokens":5}`, nil},
		{
			chatPath, `{"model":"m","max_completion_tokens":5}`, `{"model":"m","max_completion_tokens":5}`,
			func(o *Options) {
				o.KeepRequests = true
			},
		},
		{chatPath, chatCall, `{"max_tokens":8192,"stream_options":{"include_usage":true},` + chatCall[1:], nil},
	} {
		r := newBudgetRig(t, 1_000_000, answerJSON(plainChat), tc.change)
		resp, body := r.post(tc.path, tc.body)
		if resp.StatusCode != http.StatusOK || r.lastBody() != tc.want {
			t.Errorf("%s: status %d, %s; the API got %s, want %s", tc.body, resp.StatusCode, body, r.lastBody(),
				tc.want)
		}
	}
}

// A zipped request with a maximum of the proxy is sent plain.
func TestProxyWritesTheMaximumIntoGzip(t *testing.T) {
	r := newBudgetRig(t, 1_000_000, answerJSON(plainChat), nil)
	resp, _ := r.post(chatPath, string(zip(t, 5, `{"model":"m"}`)), "Content-Encoding", "gzip")
	r.wantStatus(resp, http.StatusOK)
	if r.lastBody() != `{"max_tokens":8192,"model":"m"}` || r.lastHeader().Get("Content-Encoding") != "" {
		t.Errorf("the API got %s, %v", r.lastBody(), r.lastHeader())
	}
}

// No request is changed where money is not limited, or by a shadow limit only.
func TestProxyWritesNoMaximumWithoutABudget(t *testing.T) {
	r := newBudgetRig(t, 1_000_000, answerJSON(plainChat), nil)
	for _, limits := range [][]limiter.Limit{
		{limiter.PerMinute("tpm", 1000)},
		{limiter.PerMinute("tpm", 1000), limiter.Quota("spend", 5, limiter.EveryMonth).Shadow()},
	} {
		if err := r.lim.SetResourceDefaults(context.Background(), "free", limits...); err != nil {
			t.Fatal(err)
		}
		resp, _ := r.post(chatPath, `{"model":"free"}`, "Authorization", fmt.Sprintf("Bearer key-%d", len(limits)))
		if r.wantStatus(resp, http.StatusOK); r.lastBody() != `{"model":"free"}` {
			t.Errorf("the API got %s", r.lastBody())
		}
	}
}

// A refusal that calls under way cover is short, and SDKs retry it. It names the
// maximum that fits. A refusal for spent money lasts until the window ends.
func TestRefusalWhileCallsHoldTheMoney(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	r := newBudgetRig(t, 1000, func(w http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-release
		answerJSON(`{"usage":{"prompt_tokens":1,"completion_tokens":900}}`)(w, req)
	}, nil)
	var first sync.WaitGroup
	first.Go(func() { r.post(chatPath, `{"model":"m","max_tokens":900}`) })
	<-arrived
	refused := func() (reply, httplimit.Problem) {
		t.Helper()
		resp, body := r.post(chatPath, `{"model":"m","max_tokens":200}`)
		r.wantStatus(resp, http.StatusTooManyRequests)
		var p httplimit.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		return resp, p
	}
	resp, p := refused()
	want := "spend: the request needs $0.0002, and $0.0001 of $0.001 are available this month; a max_tokens " +
		"of 100 would fit; calls under way hold the rest; retry after 2s"
	if p.Detail != want || resp.Header.Get("Retry-After") != "2" || resp.Header.Get("X-Should-Retry") != "" {
		t.Errorf("detail %q, want %q; %v", p.Detail, want, resp.Header)
	}
	close(release)
	first.Wait()
	r.wantCost(1000, 900)
	resp, p = refused()
	if !strings.Contains(
		p.Detail, "a max_tokens of 100 would fit; retry after 30d12h",
	) || resp.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("detail %q, %v", p.Detail, resp.Header)
	}

	// A request without a maximum hears of the field that the proxy would write.
	resp, body := r.post(chatPath, `{"model":"m"}`)
	r.wantStatus(resp, http.StatusTooManyRequests)
	if !strings.Contains(body, "a max_tokens of 100 would fit") {
		t.Errorf("answer %s, want a max_tokens that fits", body)
	}
}

// Calls whose cost has no bound are refused with what to do.
func TestProxyRefusesUnboundedCalls(t *testing.T) {
	price := llm.Price{Input: 1_000_000, Output: 1_000_000}
	r := newBudgetRig(t, 1_000_000, answerJSON(plainChat), func(o *Options) {
		o.Prices = func(string, time.Time) (llm.Price, error) { return price, nil }
		o.KeepRequests, o.RefuseBackground = true, true
	})
	for body, want := range map[string]string{
		`{"model":"m","previous_response_id":"x"}`: `invalid previous_response_id: refers to input that the request does not contain, and the model \"m\" has no context`,
		`{"model":"m"}`:                   `invalid max_output_tokens: is missing, and the model \"m\" has no max_output`,
		`{"model":"m","background":true}`: "background responses are not allowed here",
	} {
		resp, got := r.post("/v1/responses", body)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) {
			t.Errorf("%s: %d, %s; want %s", body, resp.StatusCode, got, want)
		}
	}
	if r.calls() != 0 {
		t.Errorf("%d calls reached the API", r.calls())
	}
	price.Context = 1000
	resp, _ := r.post("/v1/responses", `{"model":"m","previous_response_id":"x"}`)
	r.wantStatus(resp, http.StatusOK)
}

// leaver sends a call on a connection of its own.
func (r *rig) leaver(body string) *net.TCPConn {
	r.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", chatPath, auth,
		len(body), body)
	if err != nil {
		r.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// A call whose client leaves is followed to its end, and charged what it used. How
// the client leaves, and whether the answer has begun, changes nothing.
func TestCallsAreFollowedToTheirEnd(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *net.TCPConn){
		"close": func(_ *testing.T, c *net.TCPConn) { _ = c.Close() },
		"reset": func(_ *testing.T, c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() },
		"half close": func(t *testing.T, c *net.TCPConn) {
			t.Helper()
			_ = c.CloseWrite()
			t.Cleanup(func() { _ = c.Close() })
		},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", name, stream), func(t *testing.T) {
				arrived, release := make(chan struct{}), make(chan struct{})
				gone := make(chan context.Context, 1)
				r := newBudgetRig(t, 100_000, func(w http.ResponseWriter, req *http.Request) {
					if stream {
						answerStream(delta)(w, req)
					}
					close(arrived)
					<-release
					if stream {
						answerStream(delta,
							`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":777}}`+"\n\n",
							done)(w, req)
						return
					}
					answerJSON(`{"usage":{"prompt_tokens":1,"completion_tokens":777}}`)(w, req)
				}, func(o *Options) {
					o.Identify = func(req *http.Request) (string, error) {
						gone <- req.Context()
						return HashKey(aliceKey), nil
					}
				})
				body := plainCall
				if stream {
					body = chatCall
				}
				conn := r.leaver(body)
				<-arrived
				if stream {
					if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				leave(t, conn)
				<-(<-gone).Done()
				close(release)
				r.wantCost(100_000, 777)
			})
		}
	}
}

// A call that does not end in time, or that is not followed, is charged what it
// reserved.
func TestCallsThatAreNotFollowed(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"not followed": -1, "too long": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			r := newBudgetRig(t, 100_000, func(w http.ResponseWriter, req *http.Request) {
				answerStream(delta)(w, req)
				close(arrived)
				<-req.Context().Done()
			}, func(o *Options) { o.FollowTimeout = timeout })
			conn := r.leaver(chatCall)
			<-arrived
			_ = conn.Close()
			r.wantCost(100_000, 8192)
			if log := r.log.String(); !strings.Contains(log, `"outcome":"gone"`) {
				t.Errorf("log %s", log)
			}
		})
	}
}

// Streams of HTTP/2 that are reset are followed too.
func TestResetStreamsAreFollowed(t *testing.T) {
	const calls = 20
	arrived, release := make(chan struct{}, calls), make(chan struct{})
	r := newBudgetRig(t, 1_000_000, func(w http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-release
		answerJSON(`{"usage":{"prompt_tokens":1,"completion_tokens":777}}`)(w, req)
	}, nil)
	server := httptest.NewUnstartedServer(r.proxy)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+chatPath,
				strings.NewReader(plainCall))
			req.Header.Set("Authorization", "Bearer "+aliceKey)
			if resp, err := server.Client().Do(req); err == nil {
				t.Errorf("status %d of %s", resp.StatusCode, resp.Proto)
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	for range calls {
		<-arrived
	}
	cancel()
	all.Wait()
	close(release)
	r.wantCost(1_000_000, calls*777)
}

// An API that ignores the maximum of the proxy is reported, once.
func TestIgnoredMaximumIsReported(t *testing.T) {
	r := newBudgetRig(t, 1_000_000, answerJSON(`{"usage":{"prompt_tokens":1,"completion_tokens":9000}}`), nil)
	for range 2 {
		r.post(chatPath, `{"model":"m"}`)
		r.proxy.calls.Wait()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) != 1 || !strings.Contains(
		r.errs[0].Error(), "an answer has 9000 tokens, above its maximum of 8192",
	) {
		t.Errorf("errors %v", r.errs)
	}
}

// A client that closes its side of the connection, and reads on, gets an answer that
// says so, and the operator no error.
func TestHalfClosedClientsAreNoFault(t *testing.T) {
	for _, atStore := range []bool{true, false} {
		arrived, gone := make(chan struct{}), make(chan context.Context, 1)
		r := newRig(t, func(_ http.ResponseWriter, req *http.Request) {
			close(arrived)
			<-req.Context().Done()
		}, func(o *Options) {
			o.FollowTimeout = -1
			o.Identify = func(req *http.Request) (string, error) {
				gone <- req.Context()
				return HashKey(aliceKey), nil
			}
			o.Prices = func(string, time.Time) (llm.Price, error) {
				if atStore {
					close(arrived)
					<-(<-gone).Done()
				}
				return llm.Price{}, nil
			}
		})
		conn := r.leaver(plainCall)
		<-arrived
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		_ = conn.Close()
		r.proxy.calls.Wait()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "closed its side") {
			t.Errorf("at the store %t: status %d, %s", atStore, resp.StatusCode, body)
		}
		if log := r.log.String(); len(r.errs) > 0 || !strings.Contains(log, `"outcome":"gone"`) {
			t.Errorf("at the store %t: errors %v, log %s", atStore, r.errs, log)
		}
	}
}

// A shutdown does not wait for calls that are only followed.
func TestShutdownEndsFollowedCalls(t *testing.T) {
	arrived := make(chan struct{})
	gone := make(chan context.Context, 1)
	r := newBudgetRig(t, 100_000, func(w http.ResponseWriter, req *http.Request) {
		answerStream(delta)(w, req)
		close(arrived)
		<-req.Context().Done()
	}, func(o *Options) {
		o.FollowTimeout = time.Hour
		o.Identify = func(req *http.Request) (string, error) { gone <- req.Context(); return HashKey(aliceKey), nil }
	})
	conn := r.leaver(chatCall)
	<-arrived
	_ = conn.Close()
	<-(<-gone).Done()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.proxy.Drain(ctx)
	r.wantCost(100_000, 8192)
}

// OpenAI's own hosts get the new field of chats, and others the old one.
func TestMaximumFieldOfTheUpstream(t *testing.T) {
	for host, want := range map[string]string{
		"https://api.openai.com": "max_completion_tokens", "https://x.openai.azure.com": "max_completion_tokens",
		"https://eu.api.openai.com/v1": "max_completion_tokens",
		"http://localhost:11434":       "max_tokens", "https://notopenai.com": "max_tokens",
		"https://api.openai.com.evil.example": "max_tokens",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, host, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := maximumField(req.URL); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

// Small images and files cannot be sent in parallel for more than the budget: each
// call reserves what they may cost, and gives back what they did not.
func TestInlineImagesStayWithinTheBudget(t *testing.T) {
	const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}`
	const file = `{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0="}}`
	for _, block := range []string{image, file} {
		arrived, release := make(chan bool, 100), make(chan bool)
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			arrived <- true
			<-release
			answerJSON(`{"usage":{"prompt_tokens":40000,"completion_tokens":0}}`)(w, req)
		}, func(o *Options) {
			o.Prices = func(string, time.Time) (llm.Price, error) {
				return llm.Price{Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Context: 40_000}, nil
			}
		})
		if err := r.lim.SetResourceDefaults(
			t.Context(), "m", limiter.Quota("spend", 100_000, limiter.EveryMonth),
		); err != nil {
			t.Fatal(err)
		}
		body := `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[` + block + `]}]}`
		var calls sync.WaitGroup
		statuses := make(chan int, 10)
		for range 10 {
			calls.Go(func() {
				resp, _ := r.post(chatPath, body)
				statuses <- resp.StatusCode
			})
		}
		refused := 0
		for range 8 { // two fit
			if status := <-statuses; status == http.StatusTooManyRequests {
				refused++
			}
		}
		close(release)
		calls.Wait()
		r.proxy.calls.Wait()
		if refused != 8 || len(arrived) != 2 {
			t.Errorf("%s: %d calls were refused, and %d reached the upstream", block, refused, len(arrived))
		}
	}
}
