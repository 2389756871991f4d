package webdemo

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/zeroae/zae-limiter-go/llm"
)

// chatBody is a request for a chat completion, as the OpenAPI document shows it.
// Package llm reads requests, which may have other fields of OpenAI's too.
type chatBody struct {
	Model         string         `json:"model" doc:"gpt-4 or gpt-3.5-turbo"`
	Messages      []message      `json:"messages" doc:"the conversation, at least one message"`
	MaxTokens     int64          `json:"max_tokens,omitempty" doc:"most tokens of an answer; default 100, at most 4000"`
	Temperature   float64        `json:"temperature,omitempty" doc:"from 0 to 2; ignored, since answers are simulated"`
	Stream        bool           `json:"stream,omitempty" doc:"whether the answer comes as server-sent events"`
	StreamOptions *streamOptions `json:"stream_options,omitempty" doc:"how a stream reports its usage"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage" doc:"whether the usage comes in a chunk of its own, as OpenAI does it"`
}

// message is a message of a conversation.
type message struct {
	Role    string `json:"role" doc:"system, user or assistant"`
	Content string `json:"content" doc:"the text"`
}

// completion is the answer to a chat request.
type completion struct {
	ID      string   `json:"id" doc:"ID of the answer"`
	Object  string   `json:"object" doc:"chat.completion"`
	Created int64    `json:"created" doc:"Unix time of the answer"`
	Model   string   `json:"model" doc:"model that was asked for"`
	Choices []choice `json:"choices" doc:"the answer"`
	Usage   usage    `json:"usage" doc:"tokens that were charged"`
}

type choice struct {
	Index   int     `json:"index" doc:"0"`
	Message message `json:"message" doc:"the answer"`
	Finish  string  `json:"finish_reason" doc:"stop or length"`
}

// usage is the number of tokens of a call.
type usage struct {
	Prompt     int64 `json:"prompt_tokens" doc:"tokens of the prompt"`
	Completion int64 `json:"completion_tokens" doc:"tokens of the answer"`
	Total      int64 `json:"total_tokens" doc:"their sum"`
}

func newUsage(prompt, completion int64) usage { return usage{prompt, completion, prompt + completion} }

// report returns an answer with nothing but its usage, to settle a lease with.
func (u usage) report() []byte {
	body, _ := json.Marshal(struct { //nolint:errchkjson // it has nothing that JSON cannot hold
		Usage usage `json:"usage"`
	}{u})
	return body
}

func newCompletion(req *llm.Request, made simulated) *completion {
	return &completion{
		ID: newID(), Object: "chat.completion", Created: time.Now().Unix(), Model: req.Model,
		Choices: []choice{{Message: message{"assistant", made.text()}, Finish: made.finish(req)}},
		Usage:   newUsage(req.Prompt, made.tokens),
	}
}

// finish returns why an answer ended.
func (s simulated) finish(req *llm.Request) string {
	if s.tokens >= req.MaxOutput {
		return "length"
	}
	return "stop"
}

// newID returns the ID of an answer: chatcmpl- and 12 hex digits.
func newID() string {
	var random [6]byte
	// Read never fails.
	_, _ = rand.Read(random[:])
	return "chatcmpl-" + hex.EncodeToString(random[:])
}
