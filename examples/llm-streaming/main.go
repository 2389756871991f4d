// Command llm-streaming limits the tokens of streams that a language model answers
// with: it takes an estimate first, and corrects it as the answer arrives.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
)

func main() {
	model := httptest.NewServer(http.HandlerFunc(answer))
	err := run(context.Background(), model.URL)
	model.Close()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	// A clock that only this program moves. Leave Now out to use the real time.
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limits, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
	if err != nil {
		return err
	}

	if err := limits.SetResourceDefaults(
		ctx, "gpt-4o", limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 1000),
	); err != nil {
		return err
	}

	fmt.Println("Each key has 1,000 tokens a minute. The requests set no maximum for the answer.")

	trusting := &gateway{limits: limits, url: url}
	if trusting.lim, err = llm.New(limits, nil); err != nil {
		return err
	}

	if err := ask(ctx, trusting, "alice", "haiku", "essay", "haiku"); err != nil {
		return err
	}

	now = now.Add(35 * time.Second)
	fmt.Println("\n35 seconds later the refill has repaid the debt:")
	if err := ask(ctx, trusting, "alice", "haiku"); err != nil {
		return err
	}

	fmt.Println("\nBob's gateway takes 100 tokens more whenever an answer outgrows what it holds:")
	strict := &gateway{limits: limits, url: url}
	if strict.lim, err = llm.New(limits, &llm.Options{Step: 100}); err != nil {
		return err
	}
	return ask(ctx, strict, "bob", "essay")
}

// ask sends prompts one after the other.
func ask(ctx context.Context, g *gateway, key string, prompts ...string) error {
	for _, prompt := range prompts {
		if err := g.ask(ctx, key, prompt); err != nil {
			return err
		}
	}
	return nil
}

// gateway passes requests on to a model.
type gateway struct {
	limits *limiter.RateLimiter
	lim    *llm.Limiter
	url    string
}

// ask sends one prompt, reads the answer as it arrives, and prints what it cost.
func (g *gateway) ask(ctx context.Context, key, prompt string) error {
	body := fmt.Appendf(nil,
		`{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"Write %s about rivers."}]}`, prompt)

	req, err := llm.ParseRequest(llm.Chat, body, nil)
	if err != nil {
		return err
	}

	lease, err := g.lim.Acquire(ctx, key, req.Model, req)
	var refused *limiter.ExceededError
	if errors.As(err, &refused) {
		fmt.Printf("  %s: refused before the model was called, retry after %v\n", prompt, refused.Decision.RetryAfter())
		return nil
	}
	if err != nil {
		return err
	}

	// After Commit this does nothing.
	defer func() { _ = lease.Rollback(ctx) }()

	// The buffer stands for the client's connection.
	var client bytes.Buffer
	err = forward(ctx, g.url, req.WithStreamUsage(body), lease, &client)
	// A refusal cuts the answer, and what has arrived is used all the same.
	cut := errors.As(err, &refused)

	if err != nil && !cut {
		return err
	}

	used, _ := lease.Usage()
	if err := lease.Commit(ctx); err != nil {
		return err
	}

	left, err := g.limits.Available(ctx, key, req.Model)

	verb := "used"
	if cut {
		verb = "cut after"
	}

	fmt.Printf("  %s: estimated %d tokens, %s %d; %d left\n", prompt, lease.Estimate().Total(), verb, used.Total(),
		left.Get("tpm"))
	return err
}

// forward sends a request and passes the answer on. The lease reads each part
// before the client does, and refuses a part that the limits do not cover.
func forward(ctx context.Context, url string, body []byte, lease *llm.Lease, client io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()

	lease.Answer(resp.Header.Get("Content-Type"), resp.Header.Get("Content-Encoding"))

	_, err = io.Copy(io.MultiWriter(lease, client), resp.Body)
	return err
}
