package llmproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// sums is what the upstream says it has served.
type sums struct{ Requests, Input, Output, Cached int64 }

// upstream is a fake of both APIs. It makes up a usage for each call and adds up
// what it reported, by model.
type upstream struct {
	*httptest.Server
	mu     sync.Mutex
	served map[string]sums
	gate   *sync.WaitGroup // streams wait until all have arrived; nil for none
	begun  chan bool       // receives each call that has arrived; nil for none
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{served: map[string]sums{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", u.chat)
	mux.HandleFunc("POST /v1/responses", u.responses)
	mux.HandleFunc("POST /v1/embeddings", u.embeddings)
	mux.HandleFunc("POST /v1/messages", u.messages)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Anthropic-Version") != "" {
			send(w, false, `{"data":[{"type":"model","id":"claude-sonnet"}],"has_more":false}`)
			return
		}
		send(w, false, `{"object":"list","data":[{"id":"gpt-4o","object":"model"}]}`)
	})
	u.Server = httptest.NewServer(mux)
	t.Cleanup(u.Close)
	return u
}

type call struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// begin reads a request and makes up its usage.
func (u *upstream) begin(r *http.Request) (c call, use sums) {
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		panic(err)
	}
	u.mu.Lock()
	all := u.served[c.Model]
	use = sums{1, 100 + all.Requests*7%50, 20 + all.Requests*13%90, all.Requests * 3 % 40}
	u.served[c.Model] = sums{all.Requests + 1, all.Input + use.Input, all.Output + use.Output, all.Cached + use.Cached}
	gate := u.gate
	u.mu.Unlock()
	if u.begun != nil {
		u.begun <- true
	}
	if gate != nil {
		gate.Done()
		gate.Wait()
	}
	return c, use
}

// send writes one answer, or the events of a stream, each at once.
func send(w http.ResponseWriter, stream bool, parts ...string) {
	w.Header().Set("Content-Type", "application/json")
	if stream {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	for _, part := range parts {
		_, _ = io.WriteString(w, part)
		_ = http.NewResponseController(w).Flush()
	}
}

func (u *upstream) chat(w http.ResponseWriter, r *http.Request) {
	c, use := u.begin(r)
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		use.Input, use.Output, use.Input+use.Output, use.Cached)
	if !c.Stream {
		send(w, false,
			`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":`+usage+`}`)
		return
	}
	events := []string{}
	for _, word := range []string{"hel", "lo"} {
		events = append(events,
			`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"`+word+`"}}]}`+
				"\n\n")
	}
	if c.StreamOptions.IncludeUsage {
		events = append(events, `data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":`+usage+"}\n\n")
	}
	send(w, true, append(events, "data: [DONE]\n\n")...)
}

func (u *upstream) responses(w http.ResponseWriter, r *http.Request) {
	c, use := u.begin(r)
	body := fmt.Sprintf(`{"id":"r","object":"response","status":"completed","output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hello"}]}],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"total_tokens":%d}}`,
		use.Input, use.Cached, use.Output, use.Input+use.Output)
	if !c.Stream {
		send(w, false, body)
		return
	}
	send(w, true, event("response.output_text.delta", `"delta":"hello"`),
		event("response.completed", `"response":`+body))
}

func (u *upstream) embeddings(w http.ResponseWriter, r *http.Request) {
	_, use := u.begin(r)
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.served["embed"]
	all.Output, all.Cached = 0, 0 // an embedding has neither
	u.served["embed"] = all
	send(w, false,
		fmt.Sprintf(
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":%d,"total_tokens":%d}}`,
			use.Input, use.Input,
		))
}

// messages reports the usage as Anthropic does: the cached part apart from the
// rest of the prompt, and the answer twice, cumulated.
func (u *upstream) messages(w http.ResponseWriter, r *http.Request) {
	c, use := u.begin(r)
	usage := func(output int64) string {
		return fmt.Sprintf(`"usage":{"input_tokens":%d,"cache_creation_input_tokens":5,"cache_read_input_tokens":%d,"output_tokens":%d}`,
			use.Input-use.Cached-5, use.Cached, output)
	}
	message := `{"id":"m","type":"message","role":"assistant","content":[],`
	if !c.Stream {
		send(w, false, message+usage(use.Output)+"}")
		return
	}
	send(w, true,
		event("message_start", `"message":`+message+usage(1)+"}"),
		event("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`),
		event("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"hello"}`),
		event("content_block_stop", `"index":0`),
		event("message_delta", fmt.Sprintf(`"delta":{"stop_reason":null},"usage":{"output_tokens":%d}`, use.Output/2)),
		event("message_delta",
			fmt.Sprintf(`"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}`, use.Output)),
		event("message_stop", ""),
	)
}

func event(kind, fields string) string {
	fields = strings.TrimSuffix(`"type":"`+kind+`",`+fields, ",")
	return "event: " + kind + "\ndata: {" + fields + "}\n\n"
}
