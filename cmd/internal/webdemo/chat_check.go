package webdemo

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// checkChat rejects what OpenAI's API rejects too, and package llm does not look at.
// A field that is null counts as absent.
func checkChat(body []byte) error {
	var request struct {
		Messages    json.RawMessage `json:"messages"`
		MaxTokens   json.RawMessage `json:"max_tokens"`
		Completion  json.RawMessage `json:"max_completion_tokens"`
		Choices     json.RawMessage `json:"n"`
		Temperature json.RawMessage `json:"temperature"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return web.Bad("body: must be one JSON object")
	}

	if err := checkMessages(request.Messages); err != nil {
		return err
	}

	for _, number := range []struct {
		name        string
		value       json.RawMessage
		whole       bool
		least, most float64
		reason      string
	}{
		{"max_tokens", request.MaxTokens, true, 1, math.MaxInt64, "must be a whole number, 1 or more"},
		{"max_completion_tokens", request.Completion, true, 1, math.MaxInt64, "must be a whole number, 1 or more"},
		{"n", request.Choices, true, 1, 1, "must be 1; the demo gives one answer"},
		{"temperature", request.Temperature, false, 0, 2, "must be a number from 0 to 2"},
	} {
		// An absent field has no value, and a null leaves n nil.
		var n *float64
		err := json.Unmarshal(number.value, &n)
		if number.value == nil || err == nil && n == nil {
			continue
		}
		if err != nil || *n < number.least || *n > number.most || number.whole && *n != math.Trunc(*n) {
			return &limiter.InvalidError{
				Field: number.name, Value: fmt.Sprintf("%.40s", number.value), Reason: number.reason,
			}
		}
	}
	return nil
}

// checkMessages rejects a request without messages, and a message without a role or
// a content, which is a text or a list of parts.
func checkMessages(list json.RawMessage) error {
	var messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	if err := json.Unmarshal(list, &messages); err != nil || len(messages) == 0 {
		return &limiter.InvalidError{
			Field:  "messages",
			Reason: `must be a list with at least one message, such as [{"role":"user","content":"Hello"}]`,
		}
	}

	for i, m := range messages {
		_, text := m.Content.(string)
		_, parts := m.Content.([]any)
		if m.Role == "" || !text && !parts {
			return &limiter.InvalidError{
				Field:  fmt.Sprintf("messages[%d]", i),
				Reason: `must have a role and a content, such as {"role":"user","content":"Hello"}`,
			}
		}
	}
	return nil
}
