package docs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
)

// Prompts and answers have limits of their own.
func Example_inputAndOutput() {
	ctx := context.Background()
	lim, _ := inMemory()
	check(inputAndOutput(ctx, lim))
	left, err := lim.Available(ctx, "key-abc", "gpt-4o")
	fmt.Println(left, err)
	// Output: itpm=19988 otpm=3995 rpm=59 <nil>
}

func inputAndOutput(ctx context.Context, lim *limiter.RateLimiter) error {
	//docs:input
	err := lim.SetResourceDefaults(ctx, "gpt-4o",
		limiter.PerMinute("rpm", 60), limiter.PerMinute("itpm", 20_000), limiter.PerMinute("otpm", 4_000))
	if err != nil {
		return err
	}
	calls, err := llm.New(lim, &llm.Options{Limits: llm.Limits{Requests: "rpm", Input: "itpm", Output: "otpm"}})
	//docs:end
	if err != nil {
		return err
	}
	req, err := llm.ParseRequest(llm.Chat,
		[]byte(`{"model":"gpt-4o","max_tokens":300,"messages":[{"role":"user","content":"Say hello."}]}`), nil)
	if err != nil {
		return err
	}
	lease, err := calls.Acquire(ctx, "key-abc", req.Model, req)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Rollback(ctx) }()
	lease.Answer("application/json", "")
	if _, err := lease.WriteContext(ctx, []byte(`{"usage":{"prompt_tokens":12,"completion_tokens":5}}`)); err != nil {
		return err
	}
	return lease.Commit(ctx)
}

// A stream is cut where its limit ends.
func Example_steps() {
	ctx := context.Background()
	lim, _ := inMemory(limiter.PerMinute("tpm", 400))
	check(steps(ctx, lim))
	left, err := lim.Available(ctx, "key-abc", "gpt-4o")
	fmt.Println(left, err)
	// Output:
	// cut after 40 events
	// tpm=35 <nil>
}

func steps(ctx context.Context, lim *limiter.RateLimiter) error {
	req, err := llm.ParseRequest(llm.Chat,
		[]byte(`{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"Tell me a long story."}]}`),
		nil)
	if err != nil {
		return err
	}
	events := func(yield func(string) bool) {
		for range 100 {
			if !yield(`data: {"choices":[{"delta":{"content":"` + strings.Repeat("word ", 7) + `"}}]}` + "\n\n") {
				return
			}
		}
	}
	//docs:steps
	calls, err := llm.New(lim, &llm.Options{Limits: llm.Limits{Total: "tpm"}, Step: 50})
	if err != nil {
		return err
	}
	lease, err := calls.Acquire(ctx, "key-abc", "gpt-4o", req)
	if err != nil {
		return err
	}
	lease.Answer("text/event-stream", "")
	sent := 0
	for event := range events {
		_, err := lease.WriteContext(ctx, []byte(event)) // takes 50 tokens more when the text needs them
		if _, full := errors.AsType[*limiter.ExceededError](err); full {
			fmt.Println("cut after", sent, "events")
			break
		}
		sent++ // send the event to the client
	}
	err = lease.Commit(ctx)
	//docs:end
	return err
}
