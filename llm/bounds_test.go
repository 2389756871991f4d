package llm

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// shapes returns bodies of about a size that cost much to build in memory.
func shapes(size int) map[string]string {
	fill := func(start, part, end string) string {
		return start + strings.Repeat(part, (size-len(start)-len(end))/len(part)) + end
	}
	const prompt, chat = `{"model":"m","prompt":`, `{"model":"m","messages":`
	return map[string]string{
		"numbers":            fill(prompt+`[""`, ",1", "]}"),
		"empty strings":      fill(prompt+`["x"`, `,""`, "]}"),
		"empty lists":        fill(prompt+`[""`, ",[]", "]}"),
		"empty objects":      fill(chat+`[{}`, ",{}", "]}"),
		"fields":             fill(`{"model":"m"`, `,"abcdef":1`, "}"),
		"short fields":       fill(`{"model":"m"`, `,"":1`, "}"),
		"fields in a prompt": fill(chat+`[{"a":1`, `,"a":1`, "}]}"),
		"fields of options":  fill(`{"model":"m","stream":true,"stream_options":{"a":1`, `,"b":1`, "}}"),
		"text":               fill(chat+`"`, "hello wo", `"}`),
		"dense text":         fill(chat+`"`, "q~Z`x^J|", `"}`),
		"words":              fill(chat+`"`, "the cat ", `"}`),
		"unknown fields":     fill(`{"model":"m","x":[{"a":"b c"}`, `,{"a":"b c"}`, "]}"),
		"schema":             fill(`{"model":"m","tools":[{"a":{}}`, `,{"a":{"b":[1,"c"]}}`, "]}"),
		"escapes":            fill(chat+`"`, `\u00e9`, `"}`),
		"surrogates":         fill(chat+`"`, `\ud800`, `"}`),
		"lines":              fill(chat+`["`, `a\n","`, `"]}`),
		"base64":             fill(chat+`[{"data":"`, "ABCD", `"}]}`),
		"references":         fill(chat+`[{"file_id":"x"}`, `,{"file_id":"x"}`, "]}"),
		"blocks":             fill(chat+`[{}`, `,{"type":"image","source":{"type":"base64","data":"A b"}}`, "]}"),
		"escaped base64":     fill(chat+`[{"data":"`, `\u0041`, `"}]}`),
		"escaped types":      fill(chat+`[{}`, `,{"type":"\u0069mage_with_a_type_that_is_longer_than_any"}`, "]}"),
		"upper types":        fill(chat+`[{}`, `,{"type":"IMAGE_WITH_A_TYPE_THAT_IS_LONGER_THAN_ANY"}`, "]}"),
		"addresses":          fill(`{"model":"m","documents":[""`, ",\"\\u00a0https:\"", "]}"),
		"data URLs":          fill(chat+`[{"url":""`, `,"url":"data:image/x;base64,A"`, "}]}"),
		"items":              fill(`{"model":"m","input":[{}`, `,{"type":"message","id":"a","content":"b"}`, "]}"),
		"unknown tools":      fill(`{"model":"m","tools":[{}`, `,{"a_field_of_a_tool_that_no_format_has_yet":1}`, "]}"),
		"spaces in front":    fill(`{"model":"m","documents":["`, " ", `"]}`),
		"names in escapes":   fill(chat+`[{"a":1`, `,"\u0064\u0061ta":""`, "}]}"),
		"long number":        fill(`{"model":"m","n":1`, "0", "}"),
		"long fraction":      fill(`{"model":"m","max_tokens":1.`, "0", "}"),
		"long model":         fill(`{"model":"`, "m", `"}`),
		"long model escaped": fill(`{"model":"`, `\u006d`, `"}`),
		"long name":          fill(`{"model":"m","`, "x", `":1}`),
		"long name escaped":  fill(`{"model":"m","`, `\u006d`, `":1}`),
		"spaces":             fill(`{"model":"m"`, " ", "}"),
		"tools":              fill(`{"model":"m","tools":[{}`, `,{"type":"function"}`, "]}"),
		"deep":               fill(`{"model":"m","x":`, "[", ""),
		"deep and whole": `{"model":"m","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) +
			strings.Repeat(" ", size) + "}",
		"no JSON":  strings.Repeat("x", size),
		"no UTF-8": strings.Repeat("\xff", size),
	}
}

// TestRequestsNeedLittleMemory checks that no body makes ParseRequest allocate an
// amount that grows with the body.
func TestRequestsNeedLittleMemory(t *testing.T) {
	const size, most = 1 << 20, 512 << 10 // encoding/json keeps the nesting, up to 10,000 levels
	for name, text := range shapes(size) {
		body := []byte(text)
		for _, format := range []Format{Chat, Completions, Responses, Messages} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			req, err := ParseRequest(format, body, nil)
			if err == nil {
				edit, _ := req.StreamUsageEdit()
				ApplyEdits(body, edit)
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > most {
				t.Errorf("%s, %s: %d bytes for a body of %d, want at most %d", name, format, n, len(body), most)
			}
		}
	}
}

// TestCounterNeedsTheTextTwice checks the memory of a prompt that a Counter counts:
// the text, and its string.
func TestCounterNeedsTheTextTwice(t *testing.T) {
	for name, text := range shapes(1 << 20) {
		body := []byte(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = ParseRequest(Chat, body, &RequestOptions{Count: func(string, string) int64 { return 1 }})
		runtime.ReadMemStats(&after)
		if n, most := after.TotalAlloc-before.TotalAlloc, uint64(2*len(body)+512<<10); n > most {
			t.Errorf("%s: %d bytes for a body of %d, want at most %d", name, n, len(body), most)
		}
	}
}

// TestRequestsAreBounded checks that fields, names and elements are.
func TestRequestsAreBounded(t *testing.T) {
	fields := strings.Builder{}
	for i := range maxFields {
		fields.WriteString(`,"f` + strings.Repeat("x", i%200) + string(rune('a'+i/200)) + `":1`)
	}
	for name, tc := range map[string]struct{ body, want string }{
		"fields": {`{"model":"m"` + fields.String() + "}", "more than 1024 fields"},
		"elements": {
			`{"model":"m","messages":[1` + strings.Repeat(",1", maxElements) + "]}",
			"more than 2097152 elements",
		},
		"lists": {
			`{"model":"m","messages":[[]` + strings.Repeat(",[]", maxElements/2) + "]}",
			"more than 2097152 elements",
		},
		"name": {`{"model":"m","` + strings.Repeat("x", maxName+1) + `":1}`, "longer than 256 bytes"},
		"in parts": {
			`{"model":"m","a":[1` + strings.Repeat(",1", maxElements/2) + `],"b":[1` +
				strings.Repeat(",1", maxElements/2) + "]}",
			"more than 2097152 elements",
		},
	} {
		_, err := ParseRequest(Chat, []byte(tc.body), nil)
		if bad, ok := errors.AsType[*limiter.InvalidError](err); !ok || !strings.Contains(bad.Reason, tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
	largest := `{"model":"m","messages":[1` + strings.Repeat(",1", maxElements-1) + "]}"
	if req, err := ParseRequest(Chat, []byte(largest), nil); err != nil || req.Prompt != maxElements {
		t.Errorf("the largest prompt: %v, %v", req, err)
	}
}

// BenchmarkParseRequest shows the time and the memory of one body of 16 MiB, as a
// ratio to its size.
func BenchmarkParseRequest(b *testing.B) {
	for name, text := range shapes(16 << 20) {
		body := []byte(text)
		format := Completions
		switch name {
		case "blocks":
			format = Messages
		case "items":
			format = Responses
		case "references", "data URLs", "escaped types":
			format = Chat
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				_, _ = ParseRequest(format, body, nil)
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/float64(len(body)), "memory/size")
		})
	}
}
