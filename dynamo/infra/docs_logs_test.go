package infra_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// functionSource returns the source of the functions, which log what the page about
// monitoring says.
func functionSource(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../cmd/internal/lambda/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// standardFields are fields that the logger or CloudWatch adds.
var standardFields = map[string]bool{"timestamp": true, "level": true, "logger": true, "message": true}

var (
	logTable  = regexp.MustCompile(`(?s)<!-- logs: checked by TestLogMessages -->\n(.*?)<!-- end of logs -->`)
	logQuery  = regexp.MustCompile("(?s)\n```text\n(.*?)```")
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	quoted    = regexp.MustCompile(`"([^"]+)"|/([^/]+)/`)
	queryWord = regexp.MustCompile(`@?[a-z][a-z0-9_]*`)
)

// The page about monitoring names only messages and fields that the functions log.
func TestLogMessages(t *testing.T) {
	page, source := readPage(t, filepath.Join(operatorGuide, "monitoring.md")), functionSource(t)
	table := logTable.FindString(page)
	spans := codeSpan.FindAllStringSubmatch(table, -1)
	if len(spans) < 40 {
		t.Errorf("the table of messages has only %d names", len(spans))
	}
	for _, span := range spans {
		if !strings.Contains(source, `"`+span[1]) {
			t.Errorf("the functions log no %q", span[1])
		}
	}
}

// queryWords are the words of the language of queries, and names that a query gives.
const queryWords = " fields filter stats sort limit by as desc in like or and max sum count pct bin" +
	" times latest batches records snapshots refills errors p99_ms @timestamp 5m m "

// The saved queries use only fields that the functions log.
func TestSavedQueries(t *testing.T) {
	page, source := readPage(t, filepath.Join(operatorGuide, "monitoring.md")), functionSource(t)
	_, section, _ := strings.Cut(page, "\n## Saved queries\n")
	section, _, _ = strings.Cut(section, "\n## ")
	queries := logQuery.FindAllStringSubmatch(section, -1)
	if len(queries) < 5 {
		t.Errorf("only %d queries were found", len(queries))
	}
	for _, query := range queries {
		for _, word := range queryWord.FindAllString(quoted.ReplaceAllString(query[1], ""), -1) {
			if !strings.Contains(queryWords, " "+word+" ") && !standardFields[word] &&
				!strings.Contains(source, `"`+word+`"`) {
				t.Errorf("the functions log no field %s, which a query names:\n%s", word, query[1])
			}
		}
	}
}
