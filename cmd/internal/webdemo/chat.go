package webdemo

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/llm"
)

// chatPath is the path of chat completions.
const chatPath = "/v1/chat/completions"

// maxBody bounds the body of a request.
const maxBody = 1 << 20

// fields describes the limits in the header of an answer.
var fields = httplimit.Fields{Units: map[string]string{limiter.RPM: "requests", limiter.TPM: "tokens"}, Legacy: true}

// serveChat answers a request for a chat completion.
func (h *Handler) serveChat(w http.ResponseWriter, r *http.Request) {
	key, req, err := h.readChat(w, r)
	if err != nil {
		h.fail(w, r, err)
		return
	}

	lease, err := h.gateway.admit(r.Context(), key, req)
	if err != nil {
		h.refuseChat(w, r, err)
		return
	}

	// Fields have to be set before the first byte of the answer.
	fields.Set(w.Header(), lease.Decision())

	if req.Stream {
		h.streamChat(w, r, lease, req)
		return
	}

	// complete fails only if the client has left, which needs no answer.
	if answer, err := h.gateway.complete(r.Context(), lease, req); err == nil {
		h.send(w, r, http.StatusOK, answer)
	}
}

// readChat returns the API key and the request.
func (h *Handler) readChat(w http.ResponseWriter, r *http.Request) (key string, req *llm.Request, err error) {
	if _, err := rules.ParseQuery(r, nil); err != nil {
		return "", nil, err
	}

	e, err := h.gateway.identify(r.Context(), apiKey(r.Header))
	if err != nil {
		return "", nil, err
	}

	body, err := rules.ReadBody(w, r, maxBody)
	if err != nil {
		return "", nil, err
	}

	req, err = parseChat(body)
	return e.ID, req, err
}

// apiKey returns the API key of a request, of X-API-Key or else a bearer token.
func apiKey(h http.Header) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}

	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// refuseChat answers a call that was not admitted. A refusal shows every limit, also of
// the parent, since the demo explains them; a gateway would show
// limiter.ExceededError.Public.
func (h *Handler) refuseChat(w http.ResponseWriter, r *http.Request, err error) {
	refusal, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok {
		h.fail(w, r, err)
		return
	}

	fields.Set(w.Header(), refusal.Decision)

	// No wait helps a call that never fits.
	if after := refusal.RetryAfterHeader(); after != "" && !refusal.Decision.NeverFits() {
		w.Header().Set("Retry-After", after)
	}
	h.send(w, r, http.StatusTooManyRequests, refusal)
}

// streamChat sends an answer word by word. A client that leaves pays for the words
// that were sent to it, and for nothing if there were none.
func (h *Handler) streamChat(w http.ResponseWriter, r *http.Request, lease *llm.Lease, req *llm.Request) {
	s := &chatStream{
		send: web.NewEvents(w, writeTime).Send, request: req,
		answer: h.gateway.simulator.draw(req.Model, req.MaxOutput),
	}
	s.first = chunk{ID: newID(), Object: "chat.completion.chunk", Created: now(), Model: req.Model}
	s.run(r.Context())

	if s.sent == 0 {
		h.gateway.rollback(r.Context(), lease)
		return
	}

	h.gateway.settle(r.Context(), lease, s.usage())

	// The client sees the end of a stream after its charge.
	if s.whole {
		_ = s.finish()
	}
}

// gone reports whether a call ended because its client has left.
func gone(r *http.Request, err error) bool {
	return r.Context().Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
