package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// TestADisabledKeyIsRefused checks that nothing reaches the upstream, that the
// client gets 403 without the reason, and that the log has it.
func TestADisabledKeyIsRefused(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	alice := limiter.Scope{Entity: HashKey(aliceKey)}
	if err := r.lim.Disable(context.Background(), alice, "leaked"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{chatPath, "/v1/files"} {
		resp, body := r.post(path, plainCall)
		r.wantStatus(resp, http.StatusForbidden)
		if !strings.Contains(body, "access is disabled") || strings.Contains(body, "leaked") ||
			resp.Header.Get("Retry-After") != "" {
			t.Errorf("%s: %v %s", path, resp.Header, body)
		}
	}
	if r.calls() != 0 || len(r.errs) != 0 {
		t.Errorf("%d calls reached the upstream; reported %v", r.calls(), r.errs)
	}
	if log := r.log.String(); strings.Count(log, `"outcome":"disabled"`) != 2 || !strings.Contains(log, "leaked") {
		t.Errorf("log %s", log)
	}
	if err := r.lim.Enable(context.Background(), alice); err != nil {
		t.Fatal(err)
	}
	resp, _ := r.post(chatPath, plainCall)
	r.wantStatus(resp, http.StatusOK)
	r.wantUsed("m", 1, 42)
}

// TestAKeyDisabledInMidStream checks that the next step of a stream is refused: the
// client gets whole events and an error event, and what has arrived is charged.
func TestAKeyDisabledInMidStream(t *testing.T) {
	for path, want := range map[string]string{
		chatPath:       `data: {"error":{"code":"access_disabled","message":"the answer was cut: access is disabled","type":"permission_error"}}`,
		"/v1/messages": `event: error` + "\n" + `data: {"error":{"code":"access_disabled","message":"the answer was cut: access is disabled","type":"permission_error"},"type":"error"}`,
	} {
		t.Run(path, func(t *testing.T) {
			event := delta
			if path != chatPath {
				event = `data: {"delta":{"text":"hello world!"}}` + "\n\n"
			}
			var r *rig
			r = newRig(t, func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 100 {
					if i == 20 { // 60 tokens have been sent, beyond the estimate of 10
						if err := r.lim.Disable(
							q.Context(), limiter.Scope{Entity: HashKey(aliceKey)}, "leaked",
						); err != nil {
							t.Error(err)
						}
					}
					_, _ = io.WriteString(w, event)
					_ = http.NewResponseController(w).Flush()
				}
			}, func(o *Options) { o.Step = 10 })
			_, body := r.post(path, `{"model":"m","stream":true,"max_tokens":10}`)
			events, last, _ := strings.Cut(body, want)
			if n := strings.Count(events, event); n < 3 || n > 24 || events != strings.Repeat(event, n) ||
				last != "\n\n" {
				t.Errorf("%d events arrived; the stream ends with %q", n, body[max(0, len(body)-300):])
			}
			r.proxy.calls.Wait()
			if n := r.proxy.open.Load(); n != 0 {
				t.Errorf("%d leases are open", n)
			}
			if log := r.log.String(); !strings.Contains(log, `"outcome":"cut"`) ||
				!strings.Contains(log, "is disabled since") {
				t.Errorf("log %s", log)
			}
			if err := r.lim.Enable(context.Background(), limiter.Scope{Entity: HashKey(aliceKey)}); err != nil {
				t.Fatal(err)
			}
			if _, tokens := r.used(HashKey(aliceKey), "m"); tokens < int64(3*strings.Count(events, event)) {
				t.Errorf("%d tokens were charged for %d events", tokens, strings.Count(events, event))
			}
		})
	}
}
