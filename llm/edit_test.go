package llm

import (
	"bytes"
	"testing"
)

func TestApplyEdits(t *testing.T) {
	body := []byte(`{"a":1,"b":2}`)
	for _, tc := range []struct {
		edits []Edit
		want  string
	}{
		{nil, `{"a":1,"b":2}`},
		{[]Edit{{1, 1, `"x":0,`}, {1, 1, `"y":0,`}}, `{"x":0,"y":0,"a":1,"b":2}`},
		{[]Edit{{11, 12, "30"}, {5, 6, ""}, {1, 1, `"x":0,`}}, `{"x":0,"a":,"b":30}`},
		{[]Edit{{0, 13, "{}"}}, `{}`},
	} {
		if got := string(bytes.Join(ApplyEdits(body, tc.edits...), nil)); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.edits, got, tc.want)
		}
	}
}

func TestSetInAnEmptyObject(t *testing.T) {
	for text, want := range map[string]string{`{}`: `{"n":1}`, "{\n}": "{\"n\":1\n}", `{"a":{}}`: `{"n":1,"a":{}}`} {
		o, err := parseObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		edit := layoutOf(o, Chat).set("n", "1")
		if got := string(bytes.Join(ApplyEdits([]byte(text), edit), nil)); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}
