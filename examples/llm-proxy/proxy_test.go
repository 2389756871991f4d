package llmproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// TestMain builds the program once, in place of the README's installed one.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	folder, err := os.MkdirTemp("", "llm-proxy-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	program = filepath.Join(folder, "zae-limiter.exe")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", program, "./cmd/zae-limiter")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	return m.Run()
}

// program is the path of zae-limiter.
var program string

// rig is the program in front of a fake upstream, with a store in a file.
type rig struct {
	*upstream
	store string
	url   string
	stop  func()
}

// start runs the proxy with the mapping of the README. Limits of the store must be
// set before.
func start(t *testing.T, limits ...string) *rig {
	t.Helper()
	return startWith(t, nil, limits...)
}

// startWith runs the proxy with more flags.
func startWith(t *testing.T, flags []string, limits ...string) *rig {
	t.Helper()
	r := &rig{upstream: newUpstream(t), store: filepath.Join(t.TempDir(), "limits.db")}
	r.run(t, append([]string{"system", "set-defaults"}, limits...)...)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	command := exec.CommandContext(ctx, program, append([]string{
		"proxy", "--upstream", r.URL, "--listen", "127.0.0.1:0", "--store", "sqlite:" + r.store, "--mapping",
		"keys.yaml",
		"--charge", "requests=rpm", "--charge", "total=tpm", "--charge", "input=itpm", "--charge", "output=otpm",
		"--charge", "cached=ctpm",
	}, flags...)...)
	talk, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	messages := bufio.NewReader(talk)
	line, err := messages.ReadString('\n')
	_, at, ok := strings.Cut(strings.TrimSpace(line), " on ")
	if !ok {
		t.Fatalf("the proxy says %q, %v", line, err)
	}
	r.url = at
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			defer cancel()
			_ = command.Process.Signal(syscall.SIGTERM)
			rest, _ := io.ReadAll(messages)
			if err := command.Wait(); err != nil || len(rest) > 0 {
				t.Errorf("the proxy ended with %v and says %s", err, rest)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

func (r *rig) run(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, append(args, "--store", "sqlite:"+r.store)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

func (r *rig) openai() openai.Client { return r.openaiWith("test-alice") }

func (r *rig) openaiWith(key string) openai.Client {
	return openai.NewClient(openaioption.WithBaseURL(r.url+"/v1"), openaioption.WithAPIKey(key),
		openaioption.WithMaxRetries(0))
}

func (r *rig) anthropic() anthropic.Client { return r.anthropicWith("test-alice") }

func (r *rig) anthropicWith(key string) anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithBaseURL(r.url), anthropicoption.WithAPIKey(key),
		anthropicoption.WithMaxRetries(0))
}

func chatParams() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "gpt-4o", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("say hello")},
	}
}

func messageParams() anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "claude-sonnet", MaxTokens: 1000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("say hello"))},
	}
}

// streamChat reads a whole stream and returns its text, and the number of chunks
// without choices.
func (r *rig) streamChat(
	ctx context.Context, params openai.ChatCompletionNewParams,
) (text string, extra int, err error) {
	client := r.openai()
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	for stream.Next() {
		chunk := stream.Current()
		if len(chunk.Choices) == 0 {
			extra++
			continue
		}
		text += chunk.Choices[0].Delta.Content
	}
	return text, extra, errors.Join(stream.Err(), stream.Close())
}

func (r *rig) streamMessage(ctx context.Context) (text string, err error) {
	client := r.anthropic()
	stream := client.Messages.NewStreaming(ctx, messageParams())
	for stream.Next() {
		text += stream.Current().Delta.Text
	}
	return text, errors.Join(stream.Err(), stream.Close())
}

// compare ends the proxy and compares what the store says was used with what the
// upstream says it has served, for the key and for its project.
func (r *rig) compare(t *testing.T) {
	t.Helper()
	r.stop()
	repo, err := sqlite.Open(context.Background(), r.store, &sqlite.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range r.served {
		for _, entity := range []string{"alice", "project-1"} {
			summary, err := lim.UsageSummary(context.Background(), limiter.UsageQuery{Entity: entity, Resource: model})
			if err != nil {
				t.Fatal(err)
			}
			used := summary.Total
			got := sums{used["rpm"], used["itpm"], used["otpm"], used["ctpm"]}
			if got != want || used["tpm"] != want.Input+want.Output {
				t.Errorf("%s used %+v of %s, %d in total; the upstream served %+v", entity, got, model, used["tpm"],
					want)
			}
		}
	}
}

var plenty = []string{
	"-l", "rpm:1000000", "-l", "tpm:1000000000", "-l", "itpm:1000000000", "-l", "otpm:1000000000", "-l",
	"ctpm:1000000000",
}

// TestSDKs calls every API with its SDK.
func TestSDKs(t *testing.T) {
	r := start(t, plenty...)
	ctx := t.Context()
	chat, err := r.openaiChat(ctx)
	if err != nil || chat != "hello" {
		t.Errorf("chat %q, %v", chat, err)
	}
	text, extra, err := r.streamChat(ctx, chatParams())
	if err != nil || text != "hello" || extra != 0 {
		t.Errorf("stream %q with %d more chunks, %v", text, extra, err)
	}
	asking := chatParams()
	asking.StreamOptions.IncludeUsage = openai.Bool(true)
	if text, extra, err := r.streamChat(ctx, asking); err != nil || text != "hello" || extra != 1 {
		t.Errorf("stream with usage %q with %d more chunks, %v", text, extra, err)
	}
	client := r.openai()
	params := responses.ResponseNewParams{
		Model: "o5", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("say hello")},
	}
	if answer, err := client.Responses.New(ctx, params); err != nil || answer.OutputText() != "hello" {
		t.Errorf("responses %v, %v", answer, err)
	}
	stream, events := client.Responses.NewStreaming(ctx, params), 0
	for stream.Next() {
		events++
	}
	if stream.Err() != nil || events != 2 {
		t.Errorf("%d events of responses, %v", events, stream.Err())
	}
	embedding := openai.EmbeddingNewParams{
		Model: "embed", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hello")},
	}
	if answer, err := client.Embeddings.New(ctx, embedding); err != nil || len(answer.Data) != 1 {
		t.Errorf("embeddings %v, %v", answer, err)
	}
	claude := r.anthropic()
	if answer, err := claude.Messages.New(ctx, messageParams()); err != nil || answer.ID != "m" {
		t.Errorf("messages %v, %v", answer, err)
	}
	if text, err := r.streamMessage(ctx); err != nil || text != "hello" {
		t.Errorf("stream of messages %q, %v", text, err)
	}
	r.compare(t)
}

func (r *rig) openaiChat(ctx context.Context) (string, error) {
	client := r.openai()
	answer, err := client.Chat.Completions.New(ctx, chatParams())
	if err != nil {
		return "", err
	}
	return answer.Choices[0].Message.Content, nil
}

// TestManyStreams runs 200 streams at the same time.
func TestManyStreams(t *testing.T) {
	const streams = 200
	r := start(t, plenty...)
	r.gate = &sync.WaitGroup{}
	r.gate.Add(streams) // each waits for the others
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			var text string
			var err error
			if i%2 == 0 {
				text, _, err = r.streamChat(ctx, chatParams())
			} else {
				text, err = r.streamMessage(ctx)
			}
			if err != nil || text != "hello" {
				t.Errorf("stream %d: %q, %v", i, text, err)
			}
		})
	}
	all.Wait()
	r.compare(t)
	if got := r.served["gpt-4o"].Requests + r.served["claude-sonnet"].Requests; got != streams {
		t.Errorf("the upstream served %d streams, want %d", got, streams)
	}
}

// TestRefusalsInSDKs checks what a user of an SDK sees of a refusal.
func TestRefusalsInSDKs(t *testing.T) {
	r := start(t, "-l", "rpm:1/hour", "-l", "tpm:100000")
	if _, err := r.openaiChat(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := r.openaiChat(t.Context())
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusTooManyRequests ||
		refused.Response.Header.Get("Retry-After") == "" {
		t.Errorf("OpenAI's SDK reports %v", err)
	}
	claude := r.anthropic()
	if _, err := claude.Messages.New(t.Context(), messageParams()); err != nil {
		t.Fatal(err)
	}
	_, err = claude.Messages.New(t.Context(), messageParams())
	var refusedToo *anthropic.Error
	if !errors.As(err, &refusedToo) || refusedToo.StatusCode != http.StatusTooManyRequests {
		t.Errorf("Anthropic's SDK reports %v", err)
	}
	if r.served["gpt-4o"].Requests != 1 || r.served["claude-sonnet"].Requests != 1 {
		t.Errorf("the upstream served %v", r.served)
	}
}

// TestREADME checks the hashes of the mapping against the command of the README.
func TestREADME(t *testing.T) {
	mapping, err := os.ReadFile("keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"test-alice", "test-bob"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf %s "$1" | sha256sum | cut -c 1-16`, "sh",
			key).Output()
		if err != nil || !strings.Contains(string(mapping), strings.TrimSpace(string(out))) {
			t.Errorf("keys.yaml does not have %s, the hash of %s: %v", out, key, err)
		}
	}
}
