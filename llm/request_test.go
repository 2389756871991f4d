package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
)

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]Format{
		"/v1/chat/completions":                            Chat,
		"/openai/deployments/x/chat/completions":          Chat,
		"/V1/Chat/Completions/":                           Chat,
		"/v1/completions":                                 Completions,
		"/v1/responses":                                   Responses,
		"/v1/embeddings":                                  Embeddings,
		"/v1/messages":                                    Messages,
		"/chat/completions":                               Chat,
		"/openai/v1/responses":                            Responses,
		"/openai/deployments/responses/embeddings/":       Embeddings,
		"/v1/engines/x/completions":                       Completions,
		"/v1beta/openai/chat/completions":                 Chat,
		"/v1alpha2/openai/chat/completions":               Chat,
		"/api/v1/chat/completions":                        Chat,
		"/messages":                                       Messages,
		"/v1/threads/t1/messages":                         "",
		"/v1/evals/responses":                             "",
		"/v1/audio/completions":                           "",
		"/x/y/z/chat/completions":                         "",
		"/v1/chat/completions/completions":                "",
		"/v1//chat/completions":                           "",
		"/deployments/completions":                        "",
		"/deployments//completions":                       "",
		"/vx/completions":                                 "",
		"/v1gamma/completions":                            "",
		"v1/completions":                                  "",
		"/v1/xcompletions":                                "",
		"/v1/messages/count_tokens":                       "",
		"/v1/models":                                      "",
		"/v1/responses/resp_1":                            "",
		"/v1/threads/thread_1/messagess":                  "",
		"/":                                               "",
		"":                                                "",
		"/v1/chat/completions/chatcmpl-1/messages_export": "",
	} {
		got, ok := FormatOf(path)
		if got != want || ok != (want != "") {
			t.Errorf("FormatOf(%q) = %q, %t; want %q", path, got, ok, want)
		}
	}
}

func TestParseRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		format Format
		body   string
		want   Request
	}{
		"chat": {
			Chat, `{"model":"m","messages":[{"role":"user","content":"12345678"}],"max_completion_tokens":100,"max_tokens":7,"n":3}`,
			Request{Model: "m", Prompt: 3, MaxOutput: 300, Choices: 3},
		},
		"older maximum": {Chat, `{"model":"m","max_tokens":7}`, Request{Model: "m", MaxOutput: 7, Choices: 1}},
		"other names": {
			Chat, `{"X_Model":"cheap","model":"m","MAX_OUTPUT_TOKENS":5}`, Request{Model: "m", Choices: 1},
		},
		"escaped name": {Chat, `{"mod\u0065l":"m"}`, Request{Model: "m", Choices: 1}},
		"stream":       {Chat, ` { "stream" : true , "model" : "m" } `, Request{Model: "m", Choices: 1, Stream: true}},
		"stream usage": {
			Chat, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
			Request{Model: "m", Choices: 1, Stream: true, StreamUsage: true},
		},
		"background": {Responses, `{"model":"m","background":true}`, Request{Model: "m", Choices: 1, Background: true}},
		"nulls": {
			Chat, `{"model":"m","n":null,"max_tokens":null,"stream":null,"stream_options":null}`,
			Request{Model: "m", Choices: 1},
		},
		"whole numbers": {Chat, `{"model":"m","n":2.0,"max_tokens":1e3}`, Request{
			Model: "m", MaxOutput: 2000, Choices: 2,
		}},
		"fields of other formats": {
			Messages, `{"model":"m","n":"x","best_of":"x","max_completion_tokens":"x","stream_options":7}`,
			Request{Model: "m", Choices: 1},
		},
		"huge numbers": {
			Chat, `{"model":"m","n":9223372036854775807,"max_tokens":9223372036854775807}`,
			Request{Model: "m", MaxOutput: maxTokens, Choices: maxTokens},
		},
		"many answers": {Chat, `{"model":"m","n":1e9,"max_tokens":10}`, Request{
			Model: "m", MaxOutput: 10_000_000_000, Choices: 1_000_000_000,
		}},
		"negative numbers": {Chat, `{"model":"m","n":-5,"max_tokens":-1}`, Request{Model: "m", Choices: 1}},
		"prompts": {
			Completions, `{"model":"m","prompt":["a","b"],"max_tokens":5,"n":2,"best_of":3}`,
			Request{Model: "m", Prompt: 1, MaxOutput: 30, Choices: 6},
		},
		"prompt of tokens": {Completions, `{"model":"m","prompt":[1,22,333],"max_tokens":5}`, Request{
			Model: "m", Prompt: 3, MaxOutput: 5, Choices: 1,
		}},
		"responses": {
			Responses, `{"model":"m","input":"1234","instructions":"5678","max_output_tokens":9,"max_tokens":1}`,
			Request{Model: "m", Prompt: 2, MaxOutput: 9, Choices: 1},
		},
		"embeddings": {Embeddings, `{"model":"m","input":[[1,2],[3,4]]}`, Request{Model: "m", Prompt: 4, Choices: 1}},
		"messages": {
			Messages, `{"model":"m","system":"1234","messages":[{"role":"user","content":"5678"}],"max_tokens":11}`,
			Request{Model: "m", Prompt: 3, MaxOutput: 11, Choices: 1},
		},
		"tools": {Messages, `{"model":"m","tools":[{"name":"f"}]}`, Request{Model: "m", Prompt: 4, Choices: 1}},
		"image": {
			Chat, `{"model":"m","messages":[{"content":[{"type":"x","image_url":{"url":"data:image/png;base64,` +
				strings.Repeat("A", 1<<20) + `"}}]}]}`,
			Request{Model: "m", Prompt: 1001, Choices: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRequest(tc.format, []byte(tc.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Format = tc.format
			if diff := cmp.Diff(tc.want, *got, cmpopts.IgnoreUnexported(Request{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPathNamesTheModel(t *testing.T) {
	for body, fits := range map[string]bool{
		`{}`: true, `{"model":null}`: true, `{"model":"m"}`: true, `{"model":"n"}`: false, `{"model":5}`: false,
	} {
		r, err := ParseRequest(Chat, []byte(body), &RequestOptions{Model: "m"})
		if (err == nil) != fits || fits && r.Model != "m" {
			t.Errorf("%s: %+v, %v", body, r, err)
		}
	}
}

func TestParseRequestRejects(t *testing.T) {
	for name, body := range map[string]string{
		"empty":           "",
		"text":            "hello",
		"cut":             `{"model":"m"`,
		"list":            `["model"]`,
		"two objects":     `{"model":"m"}{"model":"n"}`,
		"no model":        `{"messages":[]}`,
		"null model":      `{"model":null}`,
		"number as model": `{"model":4}`,
		"long model":      `{"model":"` + strings.Repeat("x", 300) + `"}`,
		"model twice":     `{"model":"cheap","model":"dear"}`,
		"model escaped":   `{"model":"cheap","mod\u0065l":"dear"}`,
		"Model":           `{"Model":"cheap","model":"m"}`,
		"MAX_TOKENS":      `{"model":"m","MAX_TOKENS":5}`,
		"long s":          `{"model":"m","ſtream":true}`,
		"no UTF-8":        "{\"model\":\"m\",\"messages\":\"\xff\"}",
		"half a pair":     `{"model":"m\ud800"}`,
		"half in a name":  `{"model":"m","n\udc00":1}`,
		"end in a name":   `{"model":"m","n\u0000":1}`,
		"byte order mark": "\ufeff" + `{"model":"m"}`,
		"two utf-16":      "{\x00\"\x00m\x00\"\x00:\x001\x00}\x00",
		"stream 1":        `{"model":"m","stream":1}`,
		"stream as text":  `{"model":"m","stream":"true"}`,
		"options list":    `{"model":"m","stream_options":[]}`,
		"options twice":   `{"model":"m","stream_options":{"include_usage":false,"include_usage":true}}`,
		"usage 1":         `{"model":"m","stream_options":{"include_usage":1}}`,
		"maximum as text": `{"model":"m","max_tokens":"100"}`,
		"older maximum":   `{"model":"m","max_completion_tokens":5,"max_tokens":"100"}`,
		"fraction":        `{"model":"m","max_tokens":1.5}`,
		"above int64":     `{"model":"m","max_tokens":9223372036854775808}`,
		"far above":       `{"model":"m","n":1e999}`,
		"n in a list":     `{"model":"m","n":[2]}`,
		"too deep":        `{"model":"m","x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
	} {
		_, err := ParseRequest(Chat, []byte(body), nil)
		if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
			t.Errorf("%s: error %v, want an InvalidError", name, err)
		}
	}
}

// TestReferences checks that input outside of the body is found, however its
// fields are written, and that a prompt which only looks like it is not.
func TestReferences(t *testing.T) {
	for _, tc := range []struct {
		format     Format
		body, want string
	}{
		{Responses, `"previous_response_id":"resp_1"`, "previous_response_id"},
		{Responses, `"previous_response_id":null`, ""},
		{Responses, `"conversation":{"id":"c"}`, "conversation"},
		{Responses, `"prompt":{"id":"p"}`, "prompt"},
		{Responses, `"input":[{"type":"item_reference","id":"x"}]`, "item_reference"},
		{Responses, `"input":[{"type":"item_ref\u0065rence","id":"x"}]`, "item_reference"},
		{Responses, `"input":[{"id":"x"}]`, "id"},
		{Responses, `"input":{"id":"x"}`, "id"},
		{Responses, `"input":[{"type":"reasoning","id":"rs","summary":[]}]`, "id"},
		{Responses, `"input":[{"type":"reasoning","id":"rs","summary":[],"encrypted_content":null}]`, "id"},
		{Responses, `"input":[{"type":"reasoning","id":"rs","summary":[{"text":"x"}],"content":[{"text":"x"}]}]`, "id"},
		{Responses, `"input":[{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"gAAA"}]`, ""},
		{Responses, `"input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}]}]`, ""},
		{Responses, `"input":[{"role":"user","content":"x"},{"type":"image_generation_call","id":"ig"}]`, "id"},
		{Responses, `"input":[{"type":"image_generation_call","id":"ig","result":"AAAA"}]`, "id"},
		{Responses, `"input":[{"type":"image_generation_call"}]`, "type"},
		{Responses, `"input":[{"type":"file_search_call","id":"fs","queries":["x"],"results":[{"text":"x"}]}]`, "id"},
		{Responses, `"input":[{"type":"web_search_call","id":"ws","action":{"type":"search"}}]`, "id"},
		{Responses, `"input":[{"type":"code_interpreter_call","id":"ci","container_id":"c","code":"x"}]`, "id"},
		{Responses, `"input":[{"type":"mcp_list_tools","id":"m","tools":[{"name":"x"}]}]`, "id"},
		{Responses, `"input":[{"type":"compaction","encrypted_content":"gAAA"}]`, "type"},
		{Responses, `"input":[{"type":"message","role":"assistant","id":"msg"}]`, "id"},
		{Responses, `"input":[{"type":"message","role":"assistant","id":"msg","content":[]}]`, "id"},
		{Responses, `"input":[{"type":"message","role":"assistant","id":"msg","content":null,"x":"y"}]`, "id"},
		{Responses, `"input":[{"type":"message","role":"assistant","id":"msg","content":"x","content":""}]`, "id"},
		{Responses, `"input":[{"type":"message","role":"assistant","id":"msg","Content":"x"}]`, "id"},
		{Responses, `"input":[{"type":"message","id":"msg","x":{"content":"x"}}]`, "id"},
		{Responses, `"input":[{"Type":"message","id":"msg","content":"x"}]`, "id"},
		{Responses, `"input":[{"role":"assistant","id":"msg"}]`, "id"},
		{Responses, `"input":[{"Role":"assistant","id":"msg","content":"x"}]`, "id"},
		{Responses, `"input":[{"role":"assistant","id":"msg","content":"x"}]`, ""},
		{Responses, `"input":[{"role":"assistant","content":""},{"role":"user","content":null}]`, ""},
		{
			Responses,
			`"input":[{"type":"message","role":"assistant","id":"msg","content":[{"type":"output_text","text":"x"}]}]`, "",
		},
		{Responses, `"input":[{"type":"m\u0065ssage","role":"user","id":"msg","cont\u0065nt":"x"}]`, ""},
		{Responses, `"input":[{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{}"}]`, ""},
		{Responses, `"input":[{"type":"function_call","id":"fc","call_id":"c","name":"f"}]`, "id"},
		{Responses, `"input":[{"type":"function_call_output","call_id":"c","output":""}]`, ""},
		{Responses, `"input":[{"type":"function_call_output","id":"fco","call_id":"c","output":"x"}]`, ""},
		{Responses, `"input":[{"type":"custom_tool_call","id":"ctc","input":"x"},{"id":"x"}]`, "id"},
		{Responses, `"input":[{"type":"computer_call","id":"cu","action":{"type":"screenshot"}}]`, ""},
		{Responses, `"input":[{"id":"x","type":null}]`, "id"},
		{Responses, `"input":[{"id":"x","type":"message","type":null}]`, "id"},
		{
			Responses,
			`"input":[{"id":"x","type":"message","role":"user","content":"y"},{"role":"user","content":"z"}]`,
			"",
		},
		{
			Responses, `"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://x"}]}]`,
			"image_url",
		},
		{
			Responses,
			`"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]`,
			"",
		},
		{Responses, `"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]`, "file_id"},
		{Responses, `"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x"}]}]`, "file_url"},
		{
			Responses,
			`"input":[{"type":"message","role":"assistant","content":[{"text":"x","annotations":[{"type":"url_citation","url":"https://x"}]}]}]`,
			"",
		},
		{Responses, `"tools":[{"type":"function","name":"type"}]`, ""},
		{Responses, `"tools":[{"type":"function"},{"type":"web_search"}]`, "tools"},
		{Responses, `"tools":{"type":"web_search"}`, "tools"},
		{Responses, `"tools":["web_search"]`, "tools"},
		{Responses, `"tools":[{"type":"functi\u006fn","name":"f","strict":true,"description":"d"}]`, ""},
		{Chat, `"tools":[{"type":"function","function":{"name":"f"},"googleSearch":{}}]`, "tools"},
		{Chat, `"tools":[{"function":{"name":"f"},"code_execution":true}]`, "tools"},
		{Chat, `"functions":[{"name":"f","googleSearch":{}}]`, "functions"},
		{Chat, `"functions":[{"name":"f","description":"d","parameters":{"googleSearch":{}}}]`, ""},
		{Messages, `"tools":[{"name":"f","input_schema":{},"some_new_field":true}]`, ""},
		{Responses, `"tools":[{"type":"function","type":"file_search"}]`, "tools"},
		{Responses, `"tools":[{"type":"function","parameters":{"type":"object"}}]`, ""},
		{Chat, `"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]`, "image_url"},
		{Chat, `"messages":[{"content":[{"IMAGE_URL":{"u\u0072l":"https://x"}}]}]`, "image_url"},
		{Chat, `"messages":[{"content":[{"image_url":{"detail":{"x":["y"]},"url":"https://x"}}]}]`, "image_url"},
		{
			Chat,
			`"messages":[{"content":[{"image_url":{"url":"https://x","url":"data:image/png;base64,AAAA"}}]}]`,
			"image_url",
		},
		{Chat, `"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}]}]`, ""},
		{Chat, `"messages":[{"content":[{"type":"file","file":{"file_id":"f"}}]}]`, "file_id"},
		{Chat, `"messages":[{"audio":{"id":"a"}}]`, "audio"},
		{Chat, `"messages":[{"content":[{"video_url":{"url":"https://x"}}]}]`, "url"},
		{Chat, `"messages":[{"content":"see https://x","name":"url"}]`, ""},
		{Chat, `"messages":[{"content":[{"type":"file","file":{"url":"https://x"}}]}]`, "url"},
		{Chat, `"messages":[{"attachments":{"file_ids":["f"]}}]`, "file_id"},
		{Chat, `"web_search_options":{}`, "web_search_options"},
		{Messages, `"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]`, "url"},
		{Messages, `"messages":[{"content":[{"type":"image","\u017fource":{"type":"url","url":"https://x"}}]}]`, "url"},
		{Messages, `"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]`, "file_id"},
		{
			Messages,
			`"messages":[{"content":[{"type":"tool_use","input":{"source":{"url":"https://x"},"file_id":"f"}}]}]`,
			"",
		},
		{Messages, `"messages":[{"content":[{"type":"tool_use","input":{}},{"source":{"url":"https://x"}}]}]`, "url"},
		{Messages, `"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"bash_20250124"}]`, ""},
		{Messages, `"tools":[{"type":"web_search_20250305"}]`, "tools"},
		{Messages, `"container":"c"`, "container"},
		{Messages, `"mcp_servers":[{}]`, "mcp_servers"},
		{Embeddings, `"input":["x"]`, ""},
		{Embeddings, `"input":[{"image":"https://x"}]`, "image"},
		{Embeddings, `"input":[{"type":"text","text":"https://x"}]`, ""},
		{Embeddings, `"messages":[{"content":[{"image_url":{"url":"https://x"}}]}]`, "image_url"},
		{Chat, `"messages":[{"content":[{"type":"image","image":"https://x"}]}]`, "image"},
		{Chat, `"messages":[{"content":[{"type":"image","image":{"url":"https://x"}}]}]`, "image"},
		{Chat, `"messages":[{"content":[{"type":"image_embeds","image_embeds":"AA"}]}]`, "image"},
		{Chat, `"messages":[{"content":[{"imageUrl":"https://x"}]}]`, "image_url"},
		{Chat, `"messages":[{"content":[{"type":"image_url","image_url":null,"uuid":"u"}]}]`, "uuid"},
		{Chat, `"messages":[{"content":[{"video_url":"https://x"}]}]`, "url"},
		{Chat, `"messages":[{"content":[{"audio_url":"\u0068ttps://x"}]}]`, "url"},
		{Chat, `"messages":[{"content":[{"type":"audio","audio":"https://x"}]}]`, "audio"},
		{Chat, `"messages":[{"content":[{"type":"document_url","document_url":"https://x"}]}]`, "document_url"},
		{Chat, `"messages":[{"content":[{"file_data":{"fileUri":"gs://x"}}]}]`, "file_url"},
		{Chat, `"images":["https://x"]`, "image"},
		{Chat, `"tools":[{"google_search":{}}]`, "tools"},
		{Chat, `"tools":[{"function":{"name":"f"}},{"name":"f"}]`, ""},
		{Responses, `"tools":[{"type":"function"},{"web_search":{}}]`, "tools"},
		{Chat, `"images":["AAAA"]`, "image"},
		{Chat, `"documents":["https://x"]`, "url"},
		{Chat, `"documents":[{"url":"https://x"}]`, "url"},
		{Chat, `"documents":[{"text":"a text of https://x"}]`, ""},
		{Chat, `"documents":["a text: of words"]`, ""},
		{Chat, `"cached_content":"cachedContents/x"`, "cached_content"},
		{Chat, `"extra_body":{"google":{"cached_content":"cachedContents/x"}}`, "cached_content"},
		{Chat, `"extra_body":{"google":{"cachedContent":"cachedContents/x"}}`, "cached_content"},
		{Chat, `"extra_body":{"google":{"thinking_config":{"include_thoughts":true}}}`, ""},
		{Chat, `"search_parameters":{"mode":"on"}`, "search_parameters"},
		{Chat, `"enable_search":true`, "enable_search"},
		{Chat, `"previous_response_id":"r"`, "previous_response_id"},
		{Chat, `"prompt":{"id":"pmpt_1"}`, "prompt"},
		{Chat, `"prompt_id":"p","prompt_variables":{}`, "prompt_id"},
		{Chat, `"vector_store_ids":["v"]`, "vector_store_ids"},
		{Chat, `"tool_resources":{"file_search":{"vector_store_ids":["v"]}}`, "tool_resources"},
		{Chat, `"mcp_servers":[{"type":"url","url":"https://x"}]`, "mcp_servers"},
		{Chat, `"context_id":"c"`, "context_id"},
		{Chat, `"session_id":"s"`, "session_id"},
		{Messages, `"session_id":null`, ""},
		{Completions, `"prompt":{"prompt_string":"<__media__>","multimodal_data":["AAAA"]}`, "image"},
		{Completions, `"prompt":{"prompt_string":"x"}`, ""},
		{Completions, `"prompt_embeds":"AAAA"`, "prompt_embeds"},
		{Chat, `"image_data":[{"data":"AAAA","id":10}]`, ""},
		{Chat, `"messages":[{"content":[{"type":"image","url":"https://x"}]}]`, "url"},
		{Chat, `"documents":["  https://x"]`, "url"},
		{Chat, `"documents":["\u00a0\thttps://x"]`, "url"},
		{Chat, `"documents":["two\nlines"]`, ""},
		{Chat, `"enable_search":false`, ""},
		{Chat, `"connectors":[{"id":"web-search"}]`, "connectors"},
		{Chat, `"chat_template":"{% for i in range(9) %}x{% endfor %}"`, "chat_template"},
		{Chat, `"mm_processor_kwargs":{"max_pixels":9}`, "mm_processor_kwargs"},
		{Chat, `"audio":{"voice":"alloy","format":"mp3"},"modalities":["text","audio"]`, ""},
		{Chat, `"metadata":{"url":"https://x","image":"https://x"},"user":"https://x"`, ""},
		{Chat, `"parallel_tool_calls":true,"prediction":{"type":"content","content":"x"}`, ""},
	} {
		req, err := ParseRequest(tc.format, []byte(`{"model":"m",`+tc.body+`}`), nil)
		if err != nil {
			t.Fatal(tc.body, err)
		}
		if req.Reference != tc.want {
			t.Errorf("%s of %s refers with %q, want %q", tc.format, tc.body, req.Reference, tc.want)
		}
	}
}

// TestOtherModelsAreRefused checks the fields by which a call may run on a model
// whose price is not looked at.
func TestOtherModelsAreRefused(t *testing.T) {
	for _, fields := range []string{
		`"models":["dear"]`, `"route":"fallback"`, `"fallbacks":["dear"]`, `"Models":["dear"]`,
		`"extra_body":{"max_tokens":9}`, `"extra_body":{"google":{},"n":5}`, `"extra_body":[1]`,
	} {
		for _, format := range []Format{Chat, Completions, Responses, Messages, Embeddings} {
			if _, err := ParseRequest(format, []byte(`{"model":"m",`+fields+`}`), nil); err == nil {
				t.Errorf("%s of %s is accepted", format, fields)
			}
		}
	}
	if req, err := ParseRequest(Chat, []byte(`{"model":"m:online"}`), nil); err != nil || req.Reference != "model" {
		t.Errorf("a model that searches: %+v, %v", req, err)
	}
	req, err := ParseRequest(Completions, []byte(
		`{"model":"m","models":null,"extra_body":{},"max_tokens":10,"prompt":"x","prompt_embeds":["A","B","C"]}`), nil)
	if err != nil || req.MaxOutput != 40 {
		t.Errorf("%+v, %v; want 4 answers", req, err)
	}
}

// TestOnlyFilesCountAsOne checks that a text does not get cheaper by looking
// like a file.
func TestOnlyFilesCountAsOne(t *testing.T) {
	const size = 40_000
	base64, text := strings.Repeat("AB+/", size/4), strings.Repeat("say ", size/4)
	for content, want := range map[string]int64{
		`"data:` + text + `"`:                                        size / 4,
		`{"text":"data:image/png;base64,` + base64 + `"}`:            size / 4,
		`{"url":"data:` + text + `"}`:                                size / 4,
		`{"url":"data:` + text + `/x;base64,"}`:                      size / 4,
		`{"url":"data:image/png;base64,` + text + `"}`:               size / 4,
		`{"url":"data:text/plain,` + text + `"}`:                     size / 4,
		`{"data":"` + text + `"}`:                                    size / 4,
		`{"file_data":"` + text + `"}`:                               size / 4,
		`{"url":"data:image/png;base64,` + base64 + `"}`:             binaryTokens,
		`{"url":"data:image\/png;base64,` + base64 + `\/\n"}`:        binaryTokens,
		`{"image_url":"data:image/png;x=y;base64,` + base64 + `"}`:   binaryTokens,
		`{"file_data":"data:application/pdf;base64,` + base64 + `"}`: binaryTokens,
		`{"file_data":"` + base64 + `"}`:                             binaryTokens,
		`{"data":"` + base64 + `","format":""}`:                      binaryTokens,
		`[{"data":"AAAA"},"` + base64 + `"]`:                         size / 4,
	} {
		req, err := ParseRequest(Chat, []byte(`{"model":"m","messages":[`+content+`]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if req.Prompt < want || req.Prompt > want+100 {
			t.Errorf("%.60s: %d tokens, want %d", content, req.Prompt, want)
		}
	}
}

func TestCounterSeesTheText(t *testing.T) {
	count := func(model, text string) int64 {
		if model != "m" || text != "be brief\nsay \"hi\"\n" {
			t.Errorf("counter was called with %q, %q", model, text)
		}
		return 42
	}
	req, err := ParseRequest(Responses, []byte(`{"model":"m","instructions":"say \"hi\"","input":"be brief"}`),
		&RequestOptions{Count: count})
	if err != nil || req.Prompt != 42 {
		t.Errorf("ParseRequest = %v, %v; want 42 tokens", req, err)
	}
}

func TestWithStreamUsageKeepsTheRest(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{`{"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{` { "model":"m", "stream":true}`, ` {"stream_options":{"include_usage":true}, "model":"m", "stream":true}`},
		{
			`{"model":"m","stream":true,"stream_options":null}`,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		},
		{
			`{"stream_options":{"include_usage":false},"model":"m","stream":true}`,
			`{"stream_options":{"include_usage":true},"model":"m","stream":true}`,
		},
		{
			`{"stream_options":{"x":[1]} ,"model":"m","stream":true}`,
			`{"stream_options":{"include_usage":true,"x":[1]} ,"model":"m","stream":true}`,
		},
		{`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, ""},
		{`{"model":"m"}`, ""},
	} {
		req, err := ParseRequest(Chat, []byte(tc.body), nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.want == "" {
			tc.want = tc.body
		}
		if got := string(req.WithStreamUsage([]byte(tc.body))); got != tc.want {
			t.Errorf("WithStreamUsage(%s)\n got %s\nwant %s", tc.body, got, tc.want)
		}
	}
}

// compareFields compares a request with what encoding/json reads in its body.
func compareFields(t *testing.T, req *Request, body []byte) {
	t.Helper()
	var plain struct {
		Stream, Background bool
		Options            struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
		N         json.Number
		Maximum   json.Number `json:"max_output_tokens"`
		Previous  any         `json:"previous_response_id"`
		Reference any         `json:"conversation"`
		Prompt    any
	}
	if err := json.Unmarshal(body, &plain); err != nil {
		return // a field that this format does not read has another type
	}
	if req.Stream != plain.Stream || req.Format == Chat && req.StreamUsage != plain.Options.Usage {
		t.Fatalf("%+v of %s, encoding/json reads %+v", req, body, plain)
	}
	if req.Format != Responses {
		return
	}
	referred := plain.Previous != nil || plain.Reference != nil || plain.Prompt != nil
	if req.Background != plain.Background || referred && req.Reference == "" {
		t.Fatalf("%+v of %s, encoding/json reads %+v", req, body, plain)
	}
	if n, err := plain.Maximum.Int64(); err == nil && req.MaxOutput != min(max(n, 0), maxTokens) {
		t.Fatalf("maximum %d of %s, encoding/json reads %d", req.MaxOutput, body, n)
	}
}

// compareStrings compares the text of a prompt with the strings that encoding/json
// reads in it.
func compareStrings(t *testing.T, format Format, body []byte) {
	t.Helper()
	var got string
	_, err := ParseRequest(format, body, &RequestOptions{Count: func(_, text string) int64 { got = text; return 1 }})
	var plain map[string]json.RawMessage
	if err := errors.Join(err, json.Unmarshal(body, &plain)); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	binary := false
	for _, name := range promptFields[format] {
		for _, text := range stringsOf(t, plain[name], &binary) {
			want.WriteString(text + "\n")
		}
	}
	for _, name := range schemaFields {
		if raw := plain[name]; raw != nil && string(raw) != "null" {
			want.WriteString(string(raw) + "\n")
		}
	}
	if !binary && got != want.String() {
		t.Fatalf("the text of %s is %q, encoding/json reads %q", body, got, want.String())
	}
}

// stringsOf returns the strings in a value, without the names of fields. It reports
// whether a name is there for which a string may be a file.
func stringsOf(t *testing.T, raw json.RawMessage, binary *bool) []string {
	t.Helper()
	if raw == nil {
		return nil
	}
	var all []string
	var open []json.Delim
	decoder, names := json.NewDecoder(bytes.NewReader(raw)), false // the next string may be a name
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		delim, nests := token.(json.Delim)
		switch text, is := token.(string); {
		case is && names:
			*binary = *binary || fieldOf([]byte(strings.ToLower(text))) != fieldOther
			names = false
			continue
		case is:
			all = append(all, text)
		case nests && (delim == '{' || delim == '['):
			open = append(open, delim)
		case nests:
			open = open[:len(open)-1]
		}
		names = len(open) > 0 && open[len(open)-1] == '{'
	}
}

// escape writes the letters of all strings in valid JSON as escapes, where mask has
// their bit.
func escape(body []byte, mask uint64) []byte {
	var out []byte
	inString := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			inString = !inString
			out = append(out, c)
		case c == '\\':
			out = append(out, c, body[i+1])
			i++
		case inString && c < 0x80 && mask>>(i%64)&1 == 1:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return out
}

// FuzzEscapes checks that no spelling of a body hides what it refers to or holds.
func FuzzEscapes(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","messages":[{"content":[{"type":"document","source":{"type":"base64","data":"JVBERi0x"}}]}]}`,
		`{"model":"m","messages":[{"content":[{"type":"image","source":{"type":"base64","data":"JVBERi0x"}}]}]}`,
		`{"model":"m","messages":[{"content":[{"type":"document","source":{"type":"text","data":"two words"}}]}]}`,
		`{"model":"m","messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`,
		`{"model":"m","messages":[{"content":[{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}]}]}`,
		`{"model":"m","input":[{"type":"reasoning","id":"rs_1","summary":[]}],"tools":[{"type":"web_search"}]}`,
		`{"model":"m","input":[{"type":"message","role":"user","id":"x","content":"y"}],"documents":["https://x"]}`,
		`{"model":"m","messages":[{"content":[{"type":"tool_use","input":{"source":{"data":"x"},"file_id":"y"}}]}]}`,
	} {
		for _, mask := range []uint64{1<<64 - 1, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x1111111111111111} {
			f.Add([]byte(body), mask)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, mask uint64) {
		for _, format := range []Format{Chat, Completions, Responses, Embeddings, Messages} {
			req, err := ParseRequest(format, body, nil)
			if err != nil {
				continue
			}
			escaped := escape(body, mask)
			// A name may be too long with escapes.
			again, err := ParseRequest(format, escaped, nil)
			if err != nil {
				continue
			}
			if again.Reference != req.Reference || again.inline.file != req.inline.file ||
				again.inline.images != req.inline.images {
				t.Fatalf("%s of %s refers with %q and holds %+v; %s with %q, %+v", format, body, req.Reference,
					req.inline, escaped, again.Reference, again.inline)
			}
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"content":"hi\n"}],"stream":true,"stream_options":{"a":1}}`))
	f.Add([]byte(`{"model":"m","n":1e3,"prompt":[-1,2.5e-7,"x"]}`))
	f.Add([]byte(
		`{"model":"m","input":[{"id":"x"},{"a":["\ud83d\ude00\u0000\/",{},[]],"b":null}],"background":true,"tools":[{"type":"x"}]}`,
	))
	f.Add([]byte(
		`{"model":"m","messages":[{"content":[{"type":"image","source":{"type":"base64","data":"\u0041 AA"}},{"url":"d\u0061ta:image\/png;base64,A"}]}]}`,
	))
	f.Add([]byte(
		`{"model":"m","input":{"type":"message","id":"x","cont\u0065nt":["\ud83dx"]},"prediction":{"content":"q~Z"},"tools":["x",{"\u0061":{}}]}`,
	))
	f.Add([]byte(`{"model":"m","max_output_tokens":12,"conversation":{"id":"c"},"instructions":"\ud800x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, format := range []Format{Chat, Completions, Responses, Embeddings, Messages} {
			req, err := ParseRequest(format, body, nil)
			if err != nil {
				continue
			}
			var plain map[string]any
			if err := json.Unmarshal(body, &plain); err != nil || plain["model"] != req.Model {
				t.Fatalf("model %q of %s, encoding/json reads %v, %v", req.Model, body, plain["model"], err)
			}
			compareFields(t, req, body)
			compareStrings(t, format, body)
			if req.Prompt < 0 || req.MaxOutput < 0 || req.Choices < 1 {
				t.Fatalf("%+v of %s", req, body)
			}
			changed := req.WithStreamUsage(body)
			again, err := ParseRequest(format, changed, nil)
			if err != nil {
				t.Fatalf("%s became %s: %v", body, changed, err)
			}
			again.StreamUsage = req.StreamUsage
			if diff := cmp.Diff(req, again, cmpopts.IgnoreUnexported(Request{})); diff != "" {
				t.Fatalf("%s became %s: %s", body, changed, diff)
			}
		}
	})
}
