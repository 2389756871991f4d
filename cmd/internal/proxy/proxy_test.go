package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func TestPlainCallIsChargedByItsUsage(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	resp, body := r.post(chatPath, plainCall)
	r.wantStatus(resp, 200)
	if body != plainChat {
		t.Errorf("answer %s", body)
	}
	if r.lastBody() != plainCall {
		t.Errorf("the upstream got %s", r.lastBody())
	}
	if got := resp.Header.Get("RateLimit"); !strings.Contains(got, `"tpm"`) {
		t.Errorf("RateLimit: %s", got)
	}
	r.wantUsed("m", 1, 42)
}

func TestStreamsGetTheirUsageUnseen(t *testing.T) {
	r := newRig(t, answerStream(delta, delta, lastUsage, done), nil)
	_, body := r.post(chatPath, chatCall)
	if want := delta + delta + done; body != want {
		t.Errorf("stream\n%q\nwant\n%q", body, want)
	}
	if want := `{"stream_options":{"include_usage":true},` + chatCall[1:]; r.lastBody() != want {
		t.Errorf("the upstream got %s", r.lastBody())
	}
	r.wantUsed("m", 1, 42)

	asked := `{"stream_options":{"include_usage":true},` + chatCall[1:]
	_, body = r.post(chatPath, asked)
	if want := delta + delta + lastUsage + done; body != want {
		t.Errorf("a client that asked got\n%q\nwant\n%q", body, want)
	}
	if r.lastBody() != asked {
		t.Errorf("the upstream got %s", r.lastBody())
	}
	r.wantUsed("m", 2, 84)
}

// TestStreamsAreNotDelayed checks that the client has an event before the upstream
// sends the next one.
func TestStreamsAreNotDelayed(t *testing.T) {
	next := make(chan bool)
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, delta)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
		_, _ = io.WriteString(w, lastUsage+done)
	}, nil)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+chatPath,
		strings.NewReader(chatCall))
	req.Header.Set("X-Api-Key", aliceKey)
	resp, err := r.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	event := make([]byte, len(delta))
	for range 3 {
		if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != delta {
			t.Fatalf("read %q, %v", event, err)
		}
		next <- true
	}
	if rest, _ := io.ReadAll(resp.Body); string(rest) != done {
		t.Errorf("the stream ends with %q", rest)
	}
	r.wantUsed("m", 1, 42)
}

func TestOtherPathsCostOneRequest(t *testing.T) {
	r := newRig(t, answerJSON(`{"usage":{"prompt_tokens":30}}`), nil)
	upload := strings.Repeat("x", 100_000)
	r.post("/v1/files?purpose=x", upload)
	if r.lastBody() != upload {
		t.Error("the upload was changed")
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+chatPath, http.NoBody)
	req.Header.Set("Authorization", "Bearer "+aliceKey)
	r.do(req)
	r.wantUsed("other", 2, 0)
}

func TestUpstreamStatusDecides(t *testing.T) {
	for status, want := range map[int]int64{400: 1, 401: 0, 403: 0, 404: 1, 429: 1, 500: 0, 529: 0} {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, nil)
		resp, _ := r.post(chatPath, plainCall)
		r.wantStatus(resp, status)
		r.wantUsed("m", want, 0)
	}
}

func TestAnswerWithoutUsageKeepsTheEstimate(t *testing.T) {
	r := newRig(t, answerJSON(`{"choices":[]}`), nil)
	r.post(chatPath, `{"model":"m","messages":[{"content":"12345678"}],"max_tokens":100}`)
	r.wantUsed("m", 1, 102)
}

func TestRefusals(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	resp, _ := r.post(chatPath, `{"model":"not a resource"}`)
	r.wantStatus(resp, 400)
	resp, _ = r.post(chatPath, `{"model":"m","model":"m"}`)
	r.wantStatus(resp, 400)
	resp, _ = r.post(chatPath, plainCall, "Content-Encoding", "br")
	r.wantStatus(resp, 415)

	long := `{"model":"m","messages":[{"content":"` + strings.Repeat("x", 5*capacity) + `"}]}`
	resp, body := r.post(chatPath, long)
	r.wantStatus(resp, 429)
	if resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-Should-Retry") != "false" ||
		!strings.Contains(body, "above the capacity") {
		t.Errorf("answer %v %s", resp.Header, body)
	}
	if err := r.lim.SetLimits(context.Background(), HashKey(aliceKey), "m", limiter.PerMinute("rpm", 1)); err != nil {
		t.Fatal(err)
	}
	resp, _ = r.post(chatPath, plainCall)
	r.wantStatus(resp, 200)
	resp, _ = r.post(chatPath, plainCall)
	r.wantStatus(resp, 429)
	if resp.Header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
	}
	if r.calls() != 1 {
		t.Errorf("%d calls reached the upstream, want 1", r.calls())
	}
}

func TestCompressedBodies(t *testing.T) {
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return b.String()
	}
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("Accept-Encoding %q", req.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, zip(plainChat))
	}, func(o *Options) { o.MaxBody = 1 << 20 })
	_, body := r.post(chatPath, zip(plainCall), "Content-Encoding", "gzip", "Accept-Encoding", "br, Gzip, zstd")
	if body != zip(plainChat) || r.lastBody() != zip(plainCall) {
		t.Error("a compressed body was changed")
	}
	r.wantUsed("m", 1, 42)

	for name, body := range map[string]string{
		"bomb": zip(`{"model":"m","x":"` + strings.Repeat(" ", 20<<20) + `"}`),
		"long": `{"model":"m","x":"` + strings.Repeat(" ", 2<<20) + `"}`,
	} {
		encoding := map[string]string{"bomb": "gzip", "long": "identity"}[name]
		resp, _ := r.post(chatPath, body, "Content-Encoding", encoding)
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d, want 413", name, resp.StatusCode)
		}
	}
	resp, _ := r.post(chatPath, "not gzip", "Content-Encoding", "gzip")
	r.wantStatus(resp, 400)
	if n := inUse(r.proxy.bodies); n != 0 {
		t.Errorf("%d bytes of the budget are not given back", n)
	}
}

func TestBodiesInMemoryAreBounded(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	r.proxy.bodies.all.Most = 10
	resp, _ := r.post(chatPath, plainCall)
	r.wantStatus(resp, 503)
	if resp.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
	}
}

func TestStepCutsAStreamThatOutgrowsItsLimit(t *testing.T) {
	const most = 60
	events := make([]string, 100)
	for i := range events {
		events[i] = delta // 3 tokens each
	}
	for path, want := range map[string]string{
		chatPath: `data: {"error":{`, "/v1/messages": "event: error\ndata: {\"error\":{",
	} {
		r := newRig(t, answerStream(events...), func(o *Options) { o.Step = 10 })
		if err := r.lim.SetResourceDefaults(
			context.Background(), "m", limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", most),
		); err != nil {
			t.Fatal(err)
		}
		_, body := r.post(path, `{"model":"m","stream":true,"max_tokens":10}`)
		if !strings.Contains(body, want) || !strings.Contains(body, "rate_limit_error") {
			t.Errorf("the stream of %s ends with %q", path, body[max(0, len(body)-300):])
		}
		r.proxy.calls.Wait()
		left, err := r.lim.Available(context.Background(), HashKey(aliceKey), "m")
		if spent := most - left.Get("tpm"); err != nil || spent <= most-10 || spent > most+10 {
			t.Errorf("%d tokens were spent of %d, error %v", spent, most, err)
		}
	}
}

func TestHealth(t *testing.T) {
	r := newRig(t, answerJSON("{}"), nil)
	for _, path := range []string{"/healthz", "/readyz"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+path, http.NoBody)
		resp, _ := r.do(req)
		r.wantStatus(resp, 204)
	}
	if r.calls() != 0 {
		t.Error("a probe reached the upstream")
	}
	r.proxy.Drain(t.Context())
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+"/readyz", http.NoBody)
	resp, _ := r.do(req)
	r.wantStatus(resp, 503)
	resp, _ = r.post(chatPath, plainCall)
	r.wantStatus(resp, 503)
}
