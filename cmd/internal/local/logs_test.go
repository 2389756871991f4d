package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc", 2, "b\nc"},
		{"a\nb\n", 5, "a\nb\n"},
		{"a\n\n", 1, "\n"},
		{"a\nb\n", 0, ""},
		{"", 3, ""},
	} {
		if got := string(lastLines([]byte(c.text), c.n)); got != c.want {
			t.Errorf("the last %d lines of %q are %q, want %q", c.n, c.text, got, c.want)
		}
	}
}

// A log is UTF-8, whatever an engine writes, and wherever a read ends.
func TestLogsAreUTF8(t *testing.T) {
	const text, want = "ä\xff€\U0001F600\xe2\x82", "ä\uFFFD€\U0001F600\uFFFD"
	for size := 1; size <= len(text); size++ {
		var b strings.Builder
		w := &utf8Writer{to: &b}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.flush(); err != nil || b.String() != want {
			t.Errorf("in pieces of %d: %q, %v; want %q", size, &b, err, want)
		}
	}
}

func TestFormats(t *testing.T) {
	variables := []Variable{{"A", "http://localhost:1"}}
	for format, want := range map[Format]string{
		FormatEval: "export A=http://localhost:1\n", FormatDirenv: "A=http://localhost:1\n",
		FormatPowerShell: "$env:A = \"http://localhost:1\"\n",
	} {
		if got := format.Write(variables); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}

// The tests and users run the same engine.
func TestScriptFetchesTheSameEngine(t *testing.T) {
	text, err := os.ReadFile("../../../scripts/dynamodb-local")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"version=" + dynamoDBVersion, "want=" + dynamoDBDigest, "plugin=" + mavenPlugin} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("scripts/dynamodb-local lacks %s", line)
		}
	}
}

func TestDigestCoversNamesAndContents(t *testing.T) {
	folder := t.TempDir()
	sum := func() string {
		t.Helper()
		got, err := digest(folder)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.jar", "1")
	seen := map[string]bool{sum(): true}
	write("a.jar", "2")
	seen[sum()] = true
	if err := os.Rename(filepath.Join(folder, "a.jar"), filepath.Join(folder, "b.jar")); err != nil {
		t.Fatal(err)
	}
	seen[sum()] = true
	if len(seen) != 3 {
		t.Errorf("%d digests of 3 different folders", len(seen))
	}
}
