package llm

import (
	"strings"
	"testing"
)

func filterAll(text string, part int) string {
	var f StreamFilter
	var out strings.Builder
	for len(text) > 0 {
		n := min(part, len(text))
		out.Write(f.Filter([]byte(text[:n])))
		text = text[n:]
	}
	out.Write(f.Flush())
	return out.String()
}

func TestStreamFilterRemovesTheUsageChunk(t *testing.T) {
	usage := `data: {"id":"c","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	want := strings.Replace(chatStream, usage, "", 1)
	if want == chatStream {
		t.Fatal("the fixture has no usage chunk")
	}
	for part := 1; part <= len(chatStream); part++ {
		for _, eol := range []string{"\n", "\r\n", "\r"} {
			got := filterAll(strings.ReplaceAll(chatStream, "\n", eol), part)
			if got != strings.ReplaceAll(want, "\n", eol) {
				t.Fatalf("parts of %d, end of line %q:\n%q", part, eol, got)
			}
		}
	}
}

func TestStreamFilterKeepsEverythingElse(t *testing.T) {
	for name, text := range map[string]string{
		"usage beside choices": `data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}` + "\n\n",
		"no usage":             `data: {"choices":[],"prompt_filter_results":[]}` + "\n\n",
		"null usage":           `data: {"choices":[],"usage":null}` + "\n\n",
		"cut":                  `data: {"choices":[],"usage":{"prompt_tokens":1}`,
		"error":                `data: {"error":{"message":"x"},"usage":{"prompt_tokens":1}}` + "\n\n",
		"choices in an object": `data: {"choices":{"0":1},"usage":{"prompt_tokens":1}}` + "\n\n",
		"not events":           `{"choices":[],"usage":{"prompt_tokens":1}}`,
		"comments":             ": ping\n\n: ping\r\r\n\n\n\r\n",
	} {
		for _, part := range []int{1, 2, 1000, len(text)} {
			if got := filterAll(text, part); got != text {
				t.Errorf("%s in parts of %d: %.200q", name, part, got)
			}
		}
	}
}

func TestStreamFilterKnowsTheUsageInManyForms(t *testing.T) {
	const first = "data: {\"choices\":[{\"delta\":{}}]}\n\n"
	for name, chunk := range map[string]string{
		"null":   `{"choices":null,"error":null,"usage":{"prompt_tokens":1}}` + "\n\n",
		"absent": `{"usage":{"prompt_tokens":1}}` + "\n\n",
		"long before": `{"choices":[],"x":"` + strings.Repeat("x", 3*maxHeld) + `","usage":{"prompt_tokens":1}}` +
			"\n\n",
		"long after": `{"usage":{"prompt_tokens":1},"x":"` + strings.Repeat("x", 3*maxHeld) + `","choices":[]}` +
			"\n\n",
		"no empty line": `{"choices":[],"usage":{"prompt_tokens":1}}` + "\n",
		"no line end":   `{"choices":[],"usage":{"prompt_tokens":1}}`,
	} {
		for _, part := range []int{7, 1000, len(chunk)} {
			if got := filterAll(first+"data: "+chunk, part); got != first {
				t.Errorf("%s in parts of %d: %.200q", name, part, got)
			}
		}
	}
}

// TestStreamFilterPassesLongEventsEarly checks that memory stays bounded, and that
// a long text is not held back until it ends.
func TestStreamFilterPassesLongEventsEarly(t *testing.T) {
	for name, text := range map[string]string{
		"text":    `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 2*maxHeld),
		"unknown": `data: ` + strings.Repeat("x", 2*maxUnknown),
	} {
		var f StreamFilter
		if got := f.Filter([]byte(text)); string(got) != text {
			t.Errorf("%s: %d of %d bytes passed", name, len(got), len(text))
		}
		const rest = "\n\ndata: y\n\n"
		if got := f.Filter([]byte(rest)); string(got) != rest {
			t.Errorf("%s: %q passed after it", name, got)
		}
	}
}

func TestStreamFilterDoesNotHoldBackWholeEvents(t *testing.T) {
	var f StreamFilter
	for event := range strings.SplitAfterSeq("data: 1\n\n: ping\n\ndata: 2\r\n\r\ndata: 3\r\r", "\n\n") {
		if got := string(f.Filter([]byte(event))); got != event {
			t.Errorf("%q passed after %q", got, event)
		}
	}
	if got := f.Flush(); len(got) > 0 {
		t.Errorf("%q was held back", got)
	}
}

func FuzzStreamFilter(f *testing.F) {
	f.Add(chatStream, uint8(3))
	f.Add(strings.ReplaceAll(chatStream, "\n", "\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, text string, part uint8) {
		whole, split := filterAll(text, len(text)+1), filterAll(text, int(part)+1)
		if whole != split {
			t.Fatalf("whole %q, in parts %q", whole, split)
		}
		if whole != text && !strings.Contains(text, "usage") {
			t.Fatalf("%q became %q", text, whole)
		}
	})
}
