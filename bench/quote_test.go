package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestQuoteReplacesTheFiguresOfAPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Page\n\n"+quoteBegin+"old\n"+quoteEnd+"\nThe end.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := command(
		[]string{"-quick", "-rounds", "1", "-only", "^limits$", "-write", page}, &out, &errs,
	); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Page\n", "\n| limits | ns/op | x 1 limit |\n|---|---|---|\n| 1 | ", "\nThe end.\n", "commit ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Errorf("the page keeps its old figures:\n%s", text)
	}
	if !hasRow(out.String(), "limits", "ns/op") {
		t.Errorf("printed\n%s", out.String())
	}
}

func TestQuoteRefusesAPageWithoutAPlace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	for _, text := range []string{"# Page\n", quoteBegin, quoteEnd + quoteBegin} {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		if code := command(
			[]string{"-quick", "-only", "^limits$", "-write", page}, &out, &errs,
		); code != 1 || out.Len() > 0 || !strings.Contains(errs.String(), "has no lines") {
			t.Errorf("exit code %d, printed %q, %q", code, out.String(), errs.String())
		}
		if kept, err := os.ReadFile(page); err != nil || string(kept) != text {
			t.Errorf("the page is now %q, %v", kept, err)
		}
	}
}
