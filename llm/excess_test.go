package llm

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The texts of testdata/tokens.json were chosen to have many tokens: random bytes,
// words of rare pairs of letters, scripts that a vocabulary hardly has. Their tokens
// are the larger number of o200k_base and cl100k_base.
func TestMostTokensIsABound(t *testing.T) {
	file, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var texts []struct {
		Kind, Text string
		Tokens     int64
	}
	if err := json.Unmarshal(file, &texts); err != nil || len(texts) < 100 {
		t.Fatalf("%d texts, %v", len(texts), err)
	}
	for _, text := range texts {
		escaped, err := json.Marshal(text.Text)
		if err != nil {
			t.Fatal(err)
		}
		quoted := escaped[1 : len(escaped)-1]
		for name, got := range map[string]int64{
			"decoded":    mostTokens(quoted, true),
			"as written": mostTokens(quoted, false),
			"plain":      mostTokens([]byte(text.Text), false),
		} {
			if got < text.Tokens*token {
				t.Errorf("%s %q, %s: %d thirds for %d tokens", text.Kind, text.Text, name, got, text.Tokens)
			}
		}
	}
}

func TestMostTokens(t *testing.T) {
	for text, want := range map[string]int64{
		``:                 0,
		`the xylophone`:    3 + 1 + 3 + 8*2,
		`the`:              3,
		` the`:             3,
		`'the`:             3 + 3 + 2*2,
		`thexj`:            3 + 3*2 + 3,
		`theX`:             3 + 2*2 + 3,
		`qz`:               6,
		`Hello`:            3,
		` The`:             1 + 3,
		`tHe`:              3 + 3 + 3,
		`Xelop`:            3 + 3 + 3*2,
		` A`:               4,
		`   `:              3 + 1 + 1,
		`  the`:            3 + 3,
		`1,2`:              9,
		`\n`:               3,
		`\u0041`:           3,
		`\u00e9`:           6,
		`\ud83d\ude00`:     18,
		`the\u0073`:        3 + 2*2 + 3,
		`\u0061the`:        3 + 3 + 2*2,
		`\nthe`:            3 + 3,
		"\u00e9the\u00e9x": 6 + 3 + 2*2 + 6 + 3,
	} {
		if got := mostTokens([]byte(text), true); got != want {
			t.Errorf("%s: %d thirds, want %d", text, got, want)
		}
	}
	for word := range commonWords {
		if len(word) > longestCommon {
			t.Errorf("%s is longer than longestCommon", word)
		}
	}
}

// Ordinary text reserves a token for every two bytes of the body, and dense text
// what it can have.
func TestReservedInputOfText(t *testing.T) {
	const prose = "Can you help me plan a weekend trip to the sea with two small children? We arrive on Friday " +
		"evening and leave on Sunday after lunch. We like museums, good food and walking, but the kids get tired, " +
		"so please suggest places that are close to each other."
	const junk = "q~Z`x^J|"
	for name, tc := range map[string]struct {
		format Format
		fields string
		excess int64
	}{
		"prose":     {Chat, `"messages":[{"role":"user","content":"` + prose + `"}]`, 0},
		"junk":      {Chat, `"messages":[{"role":"user","content":"` + strings.Repeat(junk, 100) + `"}]`, 399},
		"a little":  {Chat, `"messages":[{"role":"user","content":"` + prose + junk + `"}]`, 0},
		"system":    {Messages, `"system":"` + junk + `"`, 4},
		"input":     {Responses, `"input":"` + junk + `"`, 4},
		"unknown":   {Chat, `"documents":[{"text":"` + junk + `"}]`, 4},
		"suffix":    {Completions, `"suffix":"` + junk + `"`, 4},
		"no prompt": {Chat, `"user":"` + junk + `"`, 0},
		"tokens":    {Completions, `"prompt":[1,2,3,4]`, 0},
		"names": {
			Messages, `"messages":[{"content":[{"type":"tool_use","input":{"` + strings.Repeat(junk, 2) + `":""}}]}]`, 4,
		},
		"a schema": {Responses, `"text":{"` + junk + `":[1,2,{},{}]}`, 4 + 2 + 2},
	} {
		req, err := ParseRequest(tc.format, []byte(`{"model":"m",`+tc.fields+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if req.excess < tc.excess || req.excess > tc.excess+tc.excess/2 {
			t.Errorf("%s: an excess of %d, want %d", name, req.excess, tc.excess)
		}
		want := (req.size+1)/2 + req.excess
		if got, _, err := reservedInput(req, Price{Input: 1}); err != nil || got != want {
			t.Errorf("%s: %d tokens, %v; want %d", name, got, err, want)
		}
	}
}

// APIs add prompts of their own for tools.
func TestToolsHaveAnAllowance(t *testing.T) {
	for tools, want := range map[string]int64{
		`null`:                       0,
		`[]`:                         0,
		`[ ]`:                        0,
		`[{"name":"f"}]`:             500,
		`[{"type":"function"}]`:      500,
		`[{"type":"custom"},{}]`:     500,
		`[{"type":"bash_20250124"}]`: 1500,
		`[{"type":"computer_20250124"},{"type":"text_editor_20250728"},{"name":"f"}]`: 2500,
		`[{"input_schema":{"type":"object"}}]`:                                        500,
	} {
		for _, name := range []string{"tools", "functions"} {
			req, err := ParseRequest(Messages, []byte(`{"model":"m","`+name+`":`+tools+`}`), nil)
			if err != nil || req.tools != want {
				t.Errorf("%s of %s: %d tokens, %v; want %d", name, tools, req.tools, err, want)
			}
		}
	}
}
