package llm

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	chatStream = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"12345678"},"finish_reason":null}],"usage":null}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\":"}}]}}],"usage":null}

data: {"id":"c","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

`
	responsesStream = `event: response.created
data: {"type":"response.created","response":{"id":"r","usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"1234567890123456"}

event: response.completed
data: {"type":"response.completed","response":{"output":[{"content":[{"text":"usage"}]}],"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":5},"output_tokens":9,"total_tokens":29}}}

`
	messagesStream = `event: message_start
data: {"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"123456789012"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":15}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":25}}

event: message_stop
data: {"type":"message_stop"}

`
)

// readUsage reads an answer in parts of the given size.
func readUsage(f Format, contentType, encoding, text string, part int) (Usage, bool) {
	a := NewAnswer(f, contentType, encoding, nil)
	for rest := []byte(text); len(rest) > 0; {
		n := min(part, len(rest))
		_, _ = a.Write(rest[:n])
		rest = rest[n:]
	}
	_ = a.Close()
	return a.Usage()
}

func zip(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func TestAnswers(t *testing.T) {
	const stream, body = "text/event-stream; charset=utf-8", "application/json"
	for name, tc := range map[string]struct {
		format      Format
		contentType string
		text        string
		want        Usage
		complete    bool
	}{
		"chat body": {
			Chat, body,
			`{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],"usage":{"prompt_tokens":5,"completion_tokens":6}}`,
			Usage{Input: 5, Output: 6},
			true,
		},
		"no usage":      {Chat, body, `{"choices":[]}`, Usage{}, false},
		"usage is null": {Chat, body, `{"usage":null}`, Usage{}, false},
		"not JSON":      {Chat, body, `<html>"usage": {`, Usage{}, false},
		"body cut":      {Chat, body, `{"choices":[],"usage":{"prompt_tokens":5,`, Usage{}, false},
		"huge usage": {
			Chat, body, `{"usage":{"prompt_tokens":5,"completion_tokens":9e99}}`,
			Usage{Input: 5, Output: maxTokens},
			true,
		},
		"negative": {
			Chat, body,
			`{"choices":[{"message":{"content":"12345678"}}],"usage":{"prompt_tokens":-5,"completion_tokens":-6}}`,
			Usage{Output: 2},
			false,
		},
		"only a prompt": {
			Chat, body,
			`{"choices":[{"message":{"content":"12345678"}}],"usage":{"prompt_tokens":5,"completion_tokens":-1}}`,
			Usage{Input: 5, Output: 2},
			false,
		},
		"only answers": {Messages, body, `{"content":[],"usage":{"output_tokens":4}}`, Usage{Output: 4}, false},
		"wrong types":  {Chat, body, `{"usage":{"prompt_tokens":"5"}}`, Usage{}, false},
		"embeddings": {
			Embeddings, body,
			`{"data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`,
			Usage{Input: 8},
			true,
		},
		"responses": {
			Responses, body,
			`{"usage":{"input_tokens":3,"output_tokens":4,"input_tokens_details":{"cached_tokens":2}}}`,
			Usage{Input: 3, Output: 4, Cached: 2},
			true,
		},
		"chat cache": {
			Chat, body,
			`{"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":3}}}`,
			Usage{Input: 9, Output: 4, Cached: 2, Written: 3},
			true,
		},
		"other cache": {
			Responses, body,
			`{"usage":{"input_tokens":9,"output_tokens":4,"input_tokens_details":{"cached_tokens":2,"cache_creation_tokens":3}}}`,
			Usage{Input: 9, Output: 4, Cached: 2, Written: 3},
			true,
		},
		"lying cache": {
			Chat, body,
			`{"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":7,"cache_write_tokens":8}}}`,
			Usage{Input: 9, Output: 4, Cached: 7, Written: 2},
			true,
		},
		"reasoning beside the answer": {
			Chat, body,
			`{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":30041,"completion_tokens_details":{"reasoning_tokens":30000}}}`,
			Usage{Input: 32, Output: 30_009},
			true,
		},
		"reasoning in the answer": {
			Chat, body,
			`{"usage":{"prompt_tokens":32,"completion_tokens":900,"total_tokens":932,"completion_tokens_details":{"reasoning_tokens":800}}}`,
			Usage{Input: 32, Output: 900},
			true,
		},
		"reasoning in no sum": {
			Responses, body,
			`{"usage":{"input_tokens":32,"output_tokens":9,"total_tokens":41,"output_tokens_details":{"reasoning_tokens":500}}}`,
			Usage{Input: 32, Output: 509},
			true,
		},
		"reasoning in the total alone": {
			Chat, body, `{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":541}}`,
			Usage{Input: 32, Output: 509},
			true,
		},
		"a total that is too small": {
			Chat, body, `{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":5}}`,
			Usage{Input: 32, Output: 9},
			true,
		},
		"a cache beside the prompt": {
			Chat, body,
			`{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":71,"prompt_tokens_details":{"cached_tokens":30}}}`,
			Usage{Input: 62, Output: 9, Cached: 30},
			true,
		},
		"a cache under Anthropic's names": {
			Chat, body,
			`{"usage":{"prompt_tokens":2,"completion_tokens":9,"total_tokens":66,"cache_read_input_tokens":40,"cache_creation_input_tokens":10}}`,
			Usage{Input: 52, Output: 14, Cached: 40, Written: 10},
			true,
		},
		"a cache in the prompt, and reasoning": {
			Chat, body,
			`{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":71,"prompt_tokens_details":{"cached_tokens":30},"completion_tokens_details":{"reasoning_tokens":30}}}`,
			Usage{Input: 32, Output: 39, Cached: 30},
			true,
		},
		"embeddings with a larger total": {
			Embeddings, body, `{"usage":{"prompt_tokens":8,"total_tokens":9}}`, Usage{Input: 8}, true,
		},
		"background": {Responses, body, `{"status":"queued","usage":null}`, Usage{}, false},
		"messages": {
			Messages, body,
			`{"usage":{"input_tokens":3,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":4}}`,
			Usage{Input: 15, Output: 4, Cached: 7, Written: 5},
			true,
		},

		"chat text": {
			Chat, body,
			`{"choices":[{"message":{"role":"assistant","content":"12345678","tool_calls":[{"function":{"name":"f","arguments":"{\"\"}"}}]},"logprobs":{"content":[{"token":"x"}]}}],"usa`,
			Usage{Output: 3},
			false,
		},
		"completions text": {
			Completions, body,
			`{"id":"c","choices":[{"text":"12345678","logprobs":{"tokens":["1234"]}},{"text":"1234`,
			Usage{Output: 3},
			false,
		},
		"responses text": {
			Responses, body,
			`{"instructions":"1234","output":[{"type":"reasoning","summary":[{"text":"1234"}]},{"type":"message","content":[{"type":"output_text","text":"12345678"}]}],"text":{"format":"12345678"}`,
			Usage{Output: 3},
			false,
		},
		"messages text": {
			Messages, body,
			`{"content":[{"type":"thinking","thinking":"1234","signature":"12345678"},{"type":"text","text":"1234"},{"type":"tool_use","name":"f","input":{"a":"1234","b":["1234"]}}],"usage":`,
			Usage{Output: 4},
			false,
		},

		"completions stream": {
			Completions, stream,
			strings.Repeat(`data: {"choices":[{"text":"12345678","index":0,"logprobs":null}]}`+"\n\n", 3),
			Usage{Output: 6},
			false,
		},
		"done repeats deltas": {
			Responses, stream,
			before(responsesStream,
				"event: response.completed") + `data: {"type":"response.output_text.done","text":"1234567890123456"}` +
				"\n\n" + `data: {"type":"response.output_item.done","item":{"content":[{"text":"1234567890123456"}]}}` +
				"\n\n",
			Usage{Output: 4},
			false,
		},
		"no empty line": {
			Chat, stream, `data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}`,
			Usage{Input: 2, Output: 3},
			true,
		},
		"cut after the usage": {
			Chat, stream, `data: {"usage":{"prompt_tokens":2,"completion_tokens":3},"choices":[{`,
			Usage{},
			false,
		},
		"cut in the text": {
			Chat, stream, `data: {"choices":[{"delta":{"content":"12345678`, Usage{Output: 2}, false,
		},
		"choices are null": {
			Chat, stream, `data: {"choices":null,"usage":{"prompt_tokens":2,"completion_tokens":3}}` + "\n\n",
			Usage{Input: 2, Output: 3},
			true,
		},
		"choices are absent": {
			Chat, stream, `data: {"usage":{"prompt_tokens":2,"completion_tokens":3}}` + "\n\n",
			Usage{Input: 2, Output: 3},
			true,
		},
		"negative at the end": {
			Messages, stream, strings.ReplaceAll(messagesStream, `"output_tokens":25`, `"output_tokens":-1`),
			Usage{Input: 17, Output: 15, Cached: 4, Written: 3},
			true,
		},

		"chat stream": {Chat, stream, chatStream, Usage{Input: 11, Output: 7, Cached: 4}, true},
		"chat without usage": {
			Chat, stream, before(chatStream, `data: {"id":"c","choices":[],`) + "data: [DONE]\n\n",
			Usage{Output: 3},
			false,
		},
		"chat cut in a chunk": {Chat, stream, before(chatStream, `"total_tokens"`), Usage{Output: 3}, false},
		"usage in every chunk": {
			Chat, stream,
			`data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n" +
				`data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1,"completion_tokens":9}}` +
				"\n\ndata: [DONE]\n\n",
			Usage{Input: 1, Output: 9},
			true,
		},
		"and then cut": {
			Chat, stream,
			`data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n",
			Usage{Input: 1, Output: 1},
			false,
		},
		"data in several lines": {
			Chat, stream,
			": hello\ndata: {\"choices\":[],\ndata:\"usage\":\ndata: {\"prompt_tokens\":2,\ndata\ndata: " +
				"\"completion_tokens\":3}}\n\n",
			Usage{Input: 2, Output: 3},
			true,
		},
		"byte order mark": {
			Chat, stream,
			"\ufeff" + `data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}` + "\n\n",
			Usage{Input: 2, Output: 3},
			true,
		},

		"responses stream": {Responses, stream, responsesStream, Usage{Input: 20, Output: 9, Cached: 5}, true},
		"incomplete": {
			Responses, stream, strings.ReplaceAll(responsesStream, "response.completed", "response.incomplete"),
			Usage{Input: 20, Output: 9, Cached: 5},
			true,
		},
		"failed": {
			Responses, stream, strings.ReplaceAll(responsesStream, "response.completed", "response.failed"),
			Usage{Input: 20, Output: 9, Cached: 5},
			true,
		},
		"responses cut": {
			Responses, stream, before(responsesStream, "event: response.completed"), Usage{Output: 4}, false,
		},

		"messages stream": {
			Messages, stream, messagesStream, Usage{Input: 17, Output: 25, Cached: 4, Written: 3}, true,
		},
		"messages cut": {
			Messages, stream, before(messagesStream, "event: message_delta"),
			Usage{Input: 17, Output: 3, Cached: 4, Written: 3},
			false,
		},
		"cut between deltas": {
			Messages, stream,
			before(messagesStream, `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}`),
			Usage{Input: 17, Output: 15, Cached: 4, Written: 3},
			false,
		},
		"nothing but a start": {
			Messages, stream, before(messagesStream, "event: ping"),
			Usage{Input: 17, Output: 1, Cached: 4, Written: 3},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, part := range []int{1, 2, 3, 7, len(tc.text)} {
				for eol, text := range map[string]string{
					"LF": tc.text, "CRLF": strings.ReplaceAll(tc.text, "\n", "\r\n"),
					"CR": strings.ReplaceAll(tc.text, "\n", "\r"),
				} {
					u, complete := readUsage(tc.format, tc.contentType, "", text, part)
					if u != tc.want || complete != tc.complete {
						t.Errorf("parts of %d, %s: %+v, %t; want %+v, %t", part, eol, u, complete, tc.want, tc.complete)
					}
				}
				u, complete := readUsage(tc.format, tc.contentType, "gzip", zip(tc.text), part)
				if u != tc.want || complete != tc.complete {
					t.Errorf("gzip in parts of %d: %+v, %t; want %+v, %t", part, u, complete, tc.want, tc.complete)
				}
			}
		})
	}
}

func before(text, mark string) string {
	head, _, _ := strings.Cut(text, mark)
	return head
}

func TestOtherEncodingsAreOpaque(t *testing.T) {
	if u, complete := readUsage(
		Chat, "application/json", "br", `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`, 10,
	); complete || u != (Usage{}) {
		t.Errorf("usage %+v, %t of an unknown encoding", u, complete)
	}
}

func TestCompressedAnswersAreBounded(t *testing.T) {
	bomb := zip(strings.Repeat(" ", 10<<20) + `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`)
	for name, limit := range map[string]int64{"decompressed": 1 << 20, "compressed": 100} {
		a := NewAnswer(Chat, "application/json", "gzip", &AnswerOptions{MaxBytes: limit})
		_, _ = a.Write([]byte(bomb))
		if kept := int64(len(a.zipped.content)); kept > limit {
			t.Errorf("%s: keeps %d bytes, above %d", name, kept, limit)
		}
		_ = a.Close()
		if _, complete := a.Usage(); complete {
			t.Errorf("%s: the usage behind the limit was read", name)
		}
	}
	if u, complete := readUsage(Chat, "application/json", "gzip", bomb, 1<<10); !complete || u.Input != 5 {
		t.Errorf("usage %+v, %t within the limit", u, complete)
	}
	whole := zip(messagesStream)
	if u, complete := readUsage(
		Messages, "text/event-stream", "gzip", whole[:len(whole)-8], 9,
	); !complete || u.Input != 17 {
		t.Errorf("usage %+v, %t without the checksum", u, complete)
	}
}

func TestLongAnswersNeedLittleMemory(t *testing.T) {
	a := NewAnswer(Embeddings, "application/json", "", nil)
	_, _ = a.Write([]byte(`{"data":[`))
	numbers := []byte(strings.Repeat("0.123456,", 1000))
	if n := testing.AllocsPerRun(100, func() { _, _ = a.Write(numbers) }); n > 0 {
		t.Errorf("%v allocations for a part of an answer", n)
	}
	_, _ = a.Write([]byte(`0],"usage":{"prompt_tokens":8}}`))
	_ = a.Close()
	if u, complete := a.Usage(); !complete || u.Input != 8 {
		t.Errorf("usage %+v, %t", u, complete)
	}
	long := NewAnswer(Chat, "text/event-stream", "", nil)
	_, _ = long.Write([]byte(`data: {"usage":{"x":"` + strings.Repeat("x", 10*maxUsage)))
	if n := cap(long.scan.usage); n > 4*maxUsage {
		t.Errorf("keeps %d bytes of a usage object", n)
	}
	_, _ = long.Write([]byte(`"}}` + "\n\n" + chatStream))
	if u, complete := long.Usage(); !complete || u.Input != 11 {
		t.Errorf("usage %+v, %t after a long event", u, complete)
	}
}

// FuzzAnswer checks that the way in which an answer is split does not matter, and
// that the usage of a body is what encoding/json reads.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		chatStream, responsesStream, messagesStream, `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`,
		`{"a":["usage",{"b":1}],"usage":{"input_tokens":1}}`,
	} {
		f.Add([]byte(text), uint8(3))
		f.Add([]byte(strings.ReplaceAll(text, "\n", "\r\n")), uint8(5))
	}
	type result struct {
		Usage    Usage
		Complete bool
	}
	f.Fuzz(func(t *testing.T, text []byte, part uint8) {
		for _, format := range []Format{Chat, Responses, Messages} {
			for _, contentType := range []string{"text/event-stream", "application/json"} {
				var whole, split result
				whole.Usage, whole.Complete = readUsage(format, contentType, "", string(text), len(text)+1)
				split.Usage, split.Complete = readUsage(format, contentType, "", string(text), int(part)+1)
				if diff := cmp.Diff(whole, split); diff != "" {
					t.Fatal(diff)
				}
			}
		}
		comparePlain(t, text)
	})
}

// comparePlain compares the usage of a body with what encoding/json finds.
func comparePlain(t *testing.T, text []byte) {
	t.Helper()
	o, err := parseObject(text)
	if err != nil || bytes.Contains(text, []byte(`\`)) || len(text) > maxUsage {
		return // encoding/json decodes names, the scanner does not
	}
	raw := o.raw("usage")
	if len(raw) > 0 && raw[0] != '{' {
		raw = nil
	}
	var s scanner
	s.write(text)
	if got := s.found.usage; s.found.usageParent == "" && !bytes.Equal(got, raw) && json.Valid(text) {
		t.Fatalf("scanner found %s, encoding/json %s", got, raw)
	}
}
