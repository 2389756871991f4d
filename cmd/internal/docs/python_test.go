package docs_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/docs"
)

// Only one release of Python's library shares a table with this one. A page that
// promises more makes people admit their limits twice.
func TestPagesNameOneReleaseOfPython(t *testing.T) {
	pages, err := docs.All("../../..")
	if err != nil {
		t.Fatal(err)
	}
	exact := 0
	for _, page := range pages {
		if page.Path == "CHANGELOG.md" { // it also tells what used to be promised
			continue
		}
		for i, line := range page.Lines {
			if strings.Contains(line, "0.10.x") || strings.Contains(line, "Python 0.10 ") {
				t.Errorf("%s:%d: say exactly 0.10.0: %s", page.Path, i+1, line)
			}
			if strings.Contains(
				strings.ToLower(strings.Trim(line, "*")), "exactly",
			) && strings.Contains(line, "0.10.0") {
				exact++
			}
		}
	}
	if exact < 5 {
		t.Errorf("%d lines say exactly 0.10.0, want 5 or more", exact)
	}
}
