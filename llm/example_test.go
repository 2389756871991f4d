package llm_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
)

// A call takes an estimate, and pays for the usage that its answer reports.
func Example() {
	ctx := context.Background()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limits, _ := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return noon }})
	_ = limits.SetResourceDefaults(ctx, "gpt-4o", limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	lim, _ := llm.New(limits, nil)

	body := []byte(
		`{"model":"gpt-4o","max_tokens":300,"messages":[{"role":"user","content":"Say hello to the world."}]}`,
	)
	req, err := llm.ParseRequest(llm.Chat, body, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := lim.Acquire(ctx, "key-abc", req.Model, req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Rollback(ctx) // does nothing after Commit
	fmt.Printf("estimate %+v\n", lease.Estimate())

	// Call the API here, and write its answer as it arrives.
	lease.Answer("application/json", "")
	_, _ = lease.Write([]byte(`{"choices":[{"message":{"content":"Hello, world!"}}],`))
	_, _ = lease.Write([]byte(`"usage":{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17}}`))
	if err := lease.Commit(ctx); err != nil {
		fmt.Println(err)
	}
	left, _ := limits.Available(ctx, "key-abc", "gpt-4o")
	fmt.Println("left", left)
	// Output:
	// estimate {Input:7 Output:300 Cached:0 Written:0 Cost:0}
	// left rpm=99 tpm=9983
}

// An Answer reads the usage of a stream without a limiter.
func ExampleAnswer() {
	answer := llm.NewAnswer(llm.Messages, "text/event-stream", "", nil)
	for _, part := range []string{
		`data: {"type":"message_start","message":{"usage":{"input_tokens":20,"cache_read_input_tokens":5,"output_tokens":1}}}` + "\n\n",
		`data: {"type":"message_delta","usage":{"output_tokens":9}}` + "\n\n",
		`data: {"type":"message_stop"}` + "\n\n",
	} {
		_, _ = answer.Write([]byte(part))
	}
	usage, complete := answer.Usage()
	fmt.Printf("%+v %t\n", usage, complete)
	// Output: {Input:25 Output:9 Cached:5 Written:0 Cost:0} true
}
