package llmproxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
)

// TestErrorsInSDKs checks that both SDKs show the sentence of the proxy, and the
// type and the code that programs look for.
func TestErrorsInSDKs(t *testing.T) {
	r := startWith(t, []string{"--max-body", "4096"}, "-l", "rpm:1/hour", "-l", "tpm:100000")
	r.run(t, "entity", "disable", "bob", "--reason", "left", "--yes")
	long := strings.Repeat("hello ", 1000)
	ask := func(key, model, text string) (error, error) {
		return r.askOpenAI(t.Context(), key, model, text), r.askAnthropic(t.Context(), key, model, text)
	}

	wantErrors(t, 400, "invalid_request_error", "invalid_request", "invalid_request_error",
		"not known here")(ask("test-alice", "no valid name", "hi"))
	wantErrors(t, 401, "invalid_request_error", "invalid_api_key", "authentication_error",
		"not known here")(ask("test-carol", "gpt-4o", "hi"))
	wantErrors(t, 403, "permission_error", "access_disabled", "permission_error",
		"access is disabled")(ask("test-bob", "gpt-4o", "hi"))
	wantErrors(t, 413, "invalid_request_error", "request_too_large", "request_too_large",
		"too large")(ask("test-alice", "gpt-4o", long))
	if first, second := ask("test-alice", "gpt-4o", "hi"); (first == nil) == (second == nil) {
		t.Fatalf("one of two calls is admitted: %v, %v", first, second)
	}
	wantErrors(t, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error",
		"rpm: the request needs 1, and 0 are available")(ask("test-alice", "gpt-4o", "hi"))

	openAI, claude := r.openai(), r.anthropic()
	_, first := openAI.Files.List(t.Context(), openai.FileListParams{})
	_, second := claude.Messages.Batches.List(t.Context(), anthropic.MessageBatchListParams{})
	wantErrors(t, 404, "invalid_request_error", "not_found", "not_found_error", "--paths")(first, second)
}

// TestBusyInSDKs checks the same for a proxy whose places are taken.
func TestBusyInSDKs(t *testing.T) {
	r := startWith(t, []string{"--max-requests", "1"}, plenty...)
	r.gate, r.begun = &sync.WaitGroup{}, make(chan bool, 1)
	r.gate.Add(2)
	arrived := make(chan error, 1)
	go func() { arrived <- r.askOpenAI(t.Context(), "test-alice", "gpt-4o", "hi") }()
	<-r.begun
	first, second := r.askOpenAI(t.Context(), "test-bob", "gpt-4o",
		"hi"), r.askAnthropic(t.Context(), "test-bob", "gpt-4o", "hi")
	r.gate.Done()
	if err := <-arrived; err != nil {
		t.Error(err)
	}
	wantErrors(t, 503, "server_error", "overloaded", "overloaded_error",
		"too many requests are under way")(first, second)
}

// TestModelsInSDKs checks that both SDKs list models.
func TestModelsInSDKs(t *testing.T) {
	r := start(t, plenty...)
	openAI, claude := r.openai(), r.anthropic()
	if models, err := openAI.Models.List(t.Context()); err != nil || len(models.Data) != 1 ||
		models.Data[0].ID != "gpt-4o" {
		t.Errorf("OpenAI's SDK lists %v, %v", models, err)
	}
	if models, err := claude.Models.List(t.Context(), anthropic.ModelListParams{}); err != nil ||
		len(models.Data) != 1 || models.Data[0].ID != "claude-sonnet" {
		t.Errorf("Anthropic's SDK lists %v, %v", models, err)
	}
}

func (r *rig) askOpenAI(ctx context.Context, key, model, text string) error {
	client := r.openaiWith(key)
	_, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	})
	return err
}

func (r *rig) askAnthropic(ctx context.Context, key, model, text string) error {
	client := r.anthropicWith(key)
	params := messageParams()
	params.Model, params.Messages = model, []anthropic.MessageParam{
		anthropic.NewUserMessage(anthropic.NewTextBlock(text)),
	}
	_, err := client.Messages.New(ctx, params)
	return err
}

// wantErrors returns a check of the errors of both SDKs.
func wantErrors(t *testing.T, status int, kind, code, claudeKind, message string) func(first, second error) {
	t.Helper()
	return func(first, second error) {
		t.Helper()
		var a *openai.Error
		if !errors.As(first, &a) || a.StatusCode != status || a.Type != kind || a.Code != code ||
			!strings.Contains(a.Message, message) {
			t.Errorf("OpenAI's SDK reports %v; want %d, %s, %s, %q", first, status, kind, code, message)
		}
		var b *anthropic.Error
		if !errors.As(second, &b) || b.StatusCode != status || !strings.Contains(b.Error(), message) {
			t.Errorf("Anthropic's SDK reports %v; want %d, %q", second, status, message)
			return
		}
		if raw := b.RawJSON(); !strings.Contains(raw, `"type":"error"`) ||
			!strings.Contains(raw, `"type":"`+claudeKind+`"`) {
			t.Errorf("Anthropic's SDK reads %s; want the type %s of %s", raw, claudeKind, http.StatusText(status))
		}
	}
}
