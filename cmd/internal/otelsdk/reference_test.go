package otelsdk_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/docs"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
	"github.com/zeroae/zae-limiter-go/cmd/internal/server"
	"github.com/zeroae/zae-limiter-go/internal/golden"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// checkMetricsPage compares docs/reference/metrics.md with what a handler serves.
func checkMetricsPage(t *testing.T, tele *otelsdk.Telemetry) {
	t.Helper()
	text := scrape(t, tele)
	labels := map[string][]string{}
	for name, found := range scraped(t, tele) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		for _, l := range found {
			if l != "" && l != "le" && !strings.HasPrefix(l, "otel_scope") && !slices.Contains(labels[base], l) {
				labels[base] = append(labels[base], l)
			}
		}
	}
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (zae_limiter_\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		types[m[1]] = m[2]
	}
	help := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# HELP (zae_limiter_\w+) (.*)$`).FindAllStringSubmatch(text, -1) {
		help[m[1]] = m[2]
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nEvery metric, by the name that Prometheus gets. " +
		"[Telemetry](../telemetry.md) has the names of OpenTelemetry, what each means and the board for " +
		"Grafana. `make docs` generates this page.\n\n" +
		"## Limiters, escrow and DynamoDB\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(types)) {
		slices.Sort(labels[name])
		cell := strings.Join(labels[name], "`, `")
		if cell != "" {
			cell = "`" + cell + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, types[name], cell, docs.Cell(help[name]))
	}
	embedded, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
	check(t, err)
	defer embedded.Close()
	served, err := server.New(memory.New(nil), nil)
	check(t, err)
	for _, part := range []struct {
		title string
		from  limiter.StatisticsReporter
	}{{"memory", memory.New(nil)}, {"sqlite", embedded}, {"zae-limiter serve", served}} {
		fmt.Fprintf(&b, "\n## Only %s\n\n| metric | type | meaning |\n|---|---|---|\n", part.title)
		for s := range part.from.Statistics() {
			name, kind := "zae_limiter_"+strings.ReplaceAll(s.Name, ".", "_"), "gauge"
			if s.Total {
				name, kind = name+"_total", "counter"
			}
			if types[name] == "" {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, kind, docs.Cell(s.Description))
			}
		}
	}
	golden.Check(t, "../../../docs/reference/metrics.md", b.String())
}
