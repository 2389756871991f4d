// Package llm computes what a call of a large language model costs: an estimate
// before the call, and the usage that the answer reports after it.
//
// [ParseRequest] reads requests of OpenAI-compatible APIs (chat completions,
// completions, responses, embeddings) and of Anthropic's messages. [Answer] reads
// their answers, whole bodies and streams alike, as the bytes pass by. It never
// changes them and needs little memory, however long an answer is.
//
// [Limiter] connects both with a rate limiter:
//
//	lim, err := llm.New(limits, &llm.Options{Limits: llm.Limits{Requests: "rpm", Total: "tpm"}})
//	req, err := llm.ParseRequest(llm.Chat, body, nil)
//	lease, err := lim.Acquire(ctx, "key-abc", req.Model, req)
//	defer lease.Rollback(ctx) // does nothing after Commit
//	...
//	lease.Answer("application/json", "").Write(answer)
//	err = lease.Commit(ctx)
//
// # What is charged
//
// Acquire takes one request, the tokens of the prompt, and the tokens that the
// answer may need: the maximum that the request sets, or else the average of
// earlier answers to the same entity and model, at most a quarter of the smallest
// limit. Commit corrects the amounts to the usage that the answer reports. Where an
// answer reports none, because it was cut or its format has none, the estimate stays,
// and an answer longer than the estimate is charged by its length.
//
// # What it costs
//
// With Options.Prices, a call is also charged what it costs, in millionths of a
// dollar. [ParsePrices] reads a price file of the user, with the prices of models
// by kind of token and by date. The price at the time of Acquire applies to the
// reservation and to the usage.
//
// A limit of cost takes the most that a call can cost, so that a budget holds
// however many calls run in parallel. The caller writes [Lease.MaxOutput] into a
// request that sets no maximum, as [Request.MaxOutputEdits] does, or sets
// Options.KeepRequests.
package llm
