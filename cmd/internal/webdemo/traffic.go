package webdemo

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/llm"
)

// meanGap is the mean time between two calls of the background traffic. The keys
// together ask for a little more than their project has.
const meanGap = 800 * time.Millisecond

// traffic makes calls in the background. It is safe for concurrent use.
type traffic struct {
	gateway *gateway
	random  *rand.Rand // of run

	mu    sync.Mutex
	state trafficJSON
}

// trafficJSON is the state of the background traffic.
type trafficJSON struct {
	Paused   bool  `json:"paused" doc:"whether no new calls are made"`
	Calls    int64 `json:"calls" doc:"calls made since the start"`
	Admitted int64 `json:"admitted" doc:"calls that were admitted"`
	Refused  int64 `json:"refused" doc:"calls that a limit refused"`
}

// trafficBody pauses or resumes the traffic.
type trafficBody struct {
	Paused *bool `json:"paused" doc:"whether to make no new calls"`
}

func newTraffic(g *gateway, seed uint64) *traffic {
	return &traffic{gateway: g, random: rand.New(rand.NewPCG(seed, 2))} //nolint:gosec // a simulation
}

func (h *Handler) trafficRoutes() []route {
	return []route{
		get("/api/traffic", "Show the background traffic", nil, func(*call) (trafficJSON, error) {
			return h.traffic.read(), nil
		}),
		change(http.MethodPost, "/api/traffic", "Pause or resume the background traffic", http.StatusOK, nil,
			func(_ *call, body trafficBody) (trafficJSON, error) {
				if body.Paused == nil {
					return trafficJSON{}, web.Bad("body: field paused is missing; give true or false")
				}
				h.traffic.update(func(s *trafficJSON) { s.Paused = *body.Paused })
				return h.traffic.read(), nil
			}),
	}
}

func (t *traffic) read() (state trafficJSON) {
	t.update(func(s *trafficJSON) { state = *s })
	return state
}

func (t *traffic) update(change func(*trafficJSON)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.state)
}

// run makes calls until ctx ends, and returns when none is under way.
func (t *traffic) run(ctx context.Context) {
	var underWay sync.WaitGroup
	defer underWay.Wait()

	for pause.For(ctx, time.Duration(t.random.ExpFloat64()*float64(meanGap))) == nil {
		key, req := t.draw()
		if !t.read().Paused {
			underWay.Go(func() { t.call(ctx, key, req) })
		}
	}
}

// draw returns the key and the request of the next call. Bob asks for three times as
// much as his limits allow, so that his calls are refused after half a minute.
func (t *traffic) draw() (key string, req *llm.Request) {
	keys := []string{
		"key-alice", "key-alice", "key-alice", "key-bob", "key-bob", "key-bob", "key-charlie", "key-charlie",
	}

	req = &llm.Request{
		Format: llm.Chat, Model: modelLarge, Choices: 1, Prompt: minTokens + t.random.Int64N(30),
		MaxOutput: 50 + 10*t.random.Int64N(16),
	}

	if t.random.IntN(4) == 0 {
		req.Model = modelSmall
	}

	return keys[t.random.IntN(len(keys))], req
}

// call makes one call, unless the key was deleted.
func (t *traffic) call(ctx context.Context, key string, req *llm.Request) {
	if _, err := t.gateway.identify(ctx, key); errors.Is(err, errKey) {
		return
	}

	t.update(func(s *trafficJSON) { s.Calls++ })

	lease, err := t.gateway.admit(ctx, key, req)
	if _, refused := errors.AsType[*limiter.ExceededError](err); refused {
		t.update(func(s *trafficJSON) { s.Refused++ })
		return
	}
	if err != nil {
		// The end of the traffic cuts calls short, which is no failure.
		if ctx.Err() == nil {
			t.gateway.onError(err)
		}
		return
	}

	t.update(func(s *trafficJSON) { s.Admitted++ })
	// complete fails only when ctx ends.
	_, _ = t.gateway.complete(ctx, lease, req)
}
