package webdemo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/outlive"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/llm"
)

// gateway admits calls of models, simulates them, and settles what they used. It is
// safe for concurrent use.
type gateway struct {
	lim       *limiter.RateLimiter
	calls     *llm.Limiter
	simulator *simulator
	onError   func(error)
}

// errKey answers a request whose API key is missing or unknown.
var errKey = &httplimit.Problem{
	Status: http.StatusUnauthorized,
	Detail: "the API key is missing or unknown; send one in X-API-Key, such as key-alice",
}

// identify returns the entity of an API key, which is its ID.
func (g *gateway) identify(ctx context.Context, key string) (limiter.Entity, error) {
	e, err := g.lim.Entity(ctx, key)
	// A key that no entity can have is unknown, and no mistake of the request.
	if _, invalid := errors.AsType[*limiter.InvalidError](err); invalid || errors.Is(err, limiter.ErrNotFound) {
		return e, errKey
	}
	return e, err
}

// parseChat reads a request for a chat completion.
func parseChat(body []byte) (*llm.Request, error) {
	req, err := llm.ParseRequest(llm.Chat, body, &llm.RequestOptions{Count: countTokens})
	if err != nil {
		return nil, err
	}

	if err := checkChat(body); err != nil {
		return nil, err
	}

	if !slices.Contains(models(), req.Model) {
		return nil, &httplimit.Problem{
			Status: http.StatusNotFound,
			Detail: fmt.Sprintf("there is no model %.40q; the models are %s", req.Model,
				strings.Join(models(), " and ")),
		}
	}

	if req.MaxOutput == 0 {
		req.MaxOutput = defaultOutput
	}
	req.MaxOutput = min(req.MaxOutput, maxOutput)
	return req, nil
}

// admit takes the most that a call may use from the limits of a key, so that no
// call passes a limit. A call that may use more than a limit holds never fits. A
// client that leaves meanwhile does not stop a charge under way, since a charge
// without an answer could not be rolled back. It gets its tokens back.
func (g *gateway) admit(client context.Context, key string, req *llm.Request) (*llm.Lease, error) {
	ctx, cancel := outlive.Context(client, outlive.DefaultTime)
	defer cancel()

	most := *req
	// The simulator gives no shorter answer.
	most.MaxOutput = max(req.MaxOutput, minTokens)

	lease, err := g.calls.Acquire(ctx, key, req.Model, &most)
	if err != nil {
		return nil, err
	}

	// The charge was made without its client, so its tokens go back.
	if gone := client.Err(); gone != nil {
		g.rollback(client, lease)
		return nil, gone
	}
	return lease, nil
}

// complete waits for an answer and settles it. If ctx ends before, nothing was
// delivered, and the call is rolled back.
func (g *gateway) complete(ctx context.Context, lease *llm.Lease, req *llm.Request) (*completion, error) {
	made := g.simulator.draw(req.Model, req.MaxOutput)
	if err := pause.For(ctx, made.latency()); err != nil {
		g.rollback(ctx, lease)
		return nil, err
	}

	answer := newCompletion(req, made)
	g.settle(ctx, lease, answer.Usage)
	return answer, nil
}

// settle ends the lease of a call that used u, also if ctx has ended.
func (g *gateway) settle(client context.Context, lease *llm.Lease, u usage) {
	ctx, cancel := outlive.Context(client, outlive.DefaultTime)
	defer cancel()

	// The lease reads the usage from an answer, as in a proxy. WriteContext never
	// fails for a body.
	_, _ = lease.Answer("application/json", "").WriteContext(ctx, u.report())

	if err := lease.Commit(ctx); err != nil {
		g.onError(fmt.Errorf("settle a call: %w", err))
	}
}

// rollback ends the lease of a call that delivered nothing.
func (g *gateway) rollback(client context.Context, lease *llm.Lease) {
	ctx, cancel := outlive.Context(client, outlive.DefaultTime)
	defer cancel()
	if err := lease.Rollback(ctx); err != nil {
		g.onError(fmt.Errorf("roll a call back: %w", err))
	}
}
