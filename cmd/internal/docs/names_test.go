package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	qualified = regexp.MustCompile(`(?:^|[^\w./])([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	option    = regexp.MustCompile(`(?:^|[^\w.])(Options\.[A-Z]\w*)`)
	testName  = regexp.MustCompile(`^Test[A-Z]\w*`)
	setting   = regexp.MustCompile(`^ZAEL_(SERVE|PROXY|DASHBOARD)_`) // a test of package cli knows the flags
	errorName = regexp.MustCompile(`(?:^|[^\w.])(Err[A-Z]\w*|[A-Z]\w*Error)\b`)
)

// TestPagesNameWhatExists checks names in the code of the prose: of packages,
// options, errors, metrics and environment variables. testdata/foreign.txt lists
// names of others that look like ours.
func TestPagesNameWhatExists(t *testing.T) {
	code := readSource(t)
	metrics := append(metricNames(t), code.Metrics...)
	foreign := foreignNames(t)
	checked := 0
	for _, p := range pages(t) {
		if p.Path == "CHANGELOG.md" { // it has names of the past
			continue
		}
		texts := p.Spans
		for _, b := range p.Blocks {
			if b.Lang != "go" { // the compiler checks Go
				texts = append(texts, Span{b.Line, b.Text})
			}
		}
		for i, span := range texts {
			for _, name := range code.unknown(span.Text, metrics, i < len(p.Spans)) {
				if !foreign[name] {
					t.Errorf("%s:%d: there is no %s", p.Path, span.Line, name)
				}
			}
			checked++
		}
	}
	if checked < 1000 {
		t.Errorf("only %d spans were found", checked)
	}
}

var readCode = sync.OnceValues(func() (*Source, error) { return ReadSource(root) })

// readSource returns the code.
func readSource(t *testing.T) *Source {
	t.Helper()
	code, err := readCode()
	if err != nil {
		t.Fatal(err)
	}
	if len(code.Packages) < 12 || len(code.Metrics) < 20 {
		t.Fatalf("only %d public packages and %d statistics were found", len(code.Packages), len(code.Metrics))
	}
	return code
}

func TestUnknownNames(t *testing.T) {
	code := readSource(t)
	metrics := []string{"zae_limiter.decisions"}
	for text, want := range map[string]string{
		"limiter.New": "", "limiter.Nope": "limiter.Nope", "limiter.Options.Now": "",
		"limiter.Options.Nope": "limiter.Options.Nope",
		"Options.Exact":        "", "Options.Nope": "Options.Nope", "*ExceededError": "", "NopeError": "NopeError",
		"ErrNope":    "ErrNope",
		"ZAEL_STORE": "", "ZAEL_NOPE": "ZAEL_NOPE", "ZAEL_SERVE_LISTEN": "",
		"zae_limiter.decisions": "", "zae_limiter_decisions_total": "", "zae_limiter.nope": "zae_limiter.nope",
		"zae_limiter_nope_total": "zae_limiter_nope_total",
		"time.Nope":              "", "TestParse": "", "TestNope/x": "TestNope",
	} {
		if got := strings.Join(code.unknown(text, metrics, true), " "); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// unknown returns the names in a text that do not exist. Names of Go are looked for
// in code of the prose only.
func (s *Source) unknown(text string, metrics []string, prose bool) []string {
	var unknown []string
	report := func(ok bool, name string) {
		if !ok {
			unknown = append(unknown, name)
		}
	}
	for _, v := range variable.FindAllString(text, -1) {
		report(s.Literals[v] || setting.MatchString(v), v)
	}
	if m := testName.FindString(text); m != "" {
		report(s.Literals[m], m)
	}
	for _, m := range metric.FindAllString(text, -1) {
		report(s.Literals[m] || isMetric(m, metrics), m)
	}
	if !prose {
		return unknown
	}
	for _, m := range qualified.FindAllStringSubmatch(text, -1) {
		pkg := s.Packages[m[1]]
		if pkg == nil {
			continue
		}
		id := m[2]
		if m[3] != "" {
			id += "." + m[3]
		}
		report(pkg.Has(id), m[1]+"."+id)
	}
	for _, m := range slices.Concat(option.FindAllStringSubmatch(text, -1), errorName.FindAllStringSubmatch(text, -1)) {
		report(s.exported(m[1]) || strings.HasPrefix(m[1], "Test"), m[1])
	}
	return unknown
}

// exported reports whether any package exports a name, or a type that has it.
func (s *Source) exported(name string) bool {
	for _, pkg := range s.Packages {
		for id := range pkg.byName {
			if id == name || strings.HasSuffix(id, "."+name) {
				return true
			}
		}
	}
	return false
}

// metricNames returns the names of docs/telemetry.md, which a test of package
// observe compares with the code: metrics, spans and attributes.
func metricNames(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`\bzae_limiter\.[a-z][a-z._]*[a-z]`).FindAllString(string(text), -1)
}

// units lists what Prometheus adds to the name of a metric.
var units = regexp.MustCompile(`^(_seconds|_USD|_ratio)?(_total|_bucket|_sum|_count)?$`)

// isMetric reports whether a metric has a name, as OpenTelemetry or as Prometheus
// writes it.
func isMetric(name string, metrics []string) bool {
	if slices.Contains(metrics, name) {
		return true
	}
	return slices.ContainsFunc(metrics, func(m string) bool {
		rest, ok := strings.CutPrefix(name, strings.ReplaceAll(m, ".", "_"))
		return ok && units.MatchString(rest)
	})
}

// foreignNames returns the names of testdata/foreign.txt.
func foreignNames(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/foreign.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names[line] = true
		}
	}
	return names
}
