package otelsdk_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/internal/engine/dynamodb"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

var sharedEngine = dynamodb.Share()

func TestMain(m *testing.M) { os.Exit(sharedEngine.Stop(m.Run())) }

// newTable returns a store in a table of its own that reports everything.
func newTable(t *testing.T) limiter.Repository {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	name := fmt.Sprintf("telemetry-%d", rand.Uint64())
	opts := &dynamo.Options{
		Endpoint: sharedEngine.URL(t), Region: "us-east-1", Timeout: time.Minute, CountCapacity: true,
	}
	check(t, dynamo.CreateTable(t.Context(), name, opts))
	repo, err := dynamo.Connect(t.Context(), name, opts)
	check(t, err)
	return repo
}

// exercise makes calls with every result: admitted, refused, failed, given back.
func exercise(t *testing.T, repo limiter.Repository) {
	t.Helper()
	lim, err := limiter.New(repo, nil)
	check(t, err)
	ctx := t.Context()
	check(t, lim.SetResourceDefaults(ctx, "api", limiter.PerMinute("rpm", 10)))
	var admitted []*limiter.Lease
	for _, c := range []struct {
		resource string
		n        int64
	}{{"api", 6}, {"api", 6}, {"unknown", 1}} {
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: "alice", Resource: c.resource, Consume: limiter.Tokens("rpm", c.n),
		})
		if err == nil {
			admitted = append(admitted, lease)
		}
	}
	for _, lease := range admitted {
		check(t, lease.Rollback(ctx))
	}
}

// exercised returns the telemetry of a store that has every metric.
func exercised(t *testing.T) *otelsdk.Telemetry {
	t.Helper()
	setenv(t)
	tele, err := otelsdk.Start(t.Context(), nil)
	check(t, err)
	repo, err := tele.Wrap(knowing{escrow.New(newTable(t), nil)}, &telemetry.Options{
		ReadPrice: 0.125e-6, WritePrice: 0.625e-6, Name: "main",
	})
	check(t, err)
	t.Cleanup(func() { check(t, repo.Close()) })
	exercise(t, repo)
	exerciseShadow(t, tele)
	return tele
}

// exerciseShadow makes a call that a shadow limit would refuse, on a store without
// statistics of its own.
func exerciseShadow(t *testing.T, tele *otelsdk.Telemetry) {
	t.Helper()
	repo, err := tele.Wrap(struct{ limiter.Repository }{memory.New(nil)}, &telemetry.Options{Name: "shadow"})
	check(t, err)
	t.Cleanup(func() { check(t, repo.Close()) })
	lim, err := limiter.New(repo, &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 10).Shadow()}})
	check(t, err)
	_, err = lim.Acquire(t.Context(), limiter.Request{
		Entity: "alice", Resource: "api", Consume: limiter.Tokens("rpm", 11),
	})
	check(t, err)
}

// scraped returns the names of our metrics, with their labels, as Prometheus gets
// them. The parts of a histogram have its name.
func scraped(t *testing.T, tele *otelsdk.Telemetry) map[string][]string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^(zae_limiter_\w+)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`(\w+)="`)
	names := map[string][]string{}
	for _, m := range line.FindAllStringSubmatch(scrape(t, tele), -1) {
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			names[m[1]] = append(names[m[1]], l[1])
		}
		names[m[1]] = slices.Compact(append(names[m[1]], ""))
	}
	return names
}

// TestDashboard compares docs/grafana.json with what a real handler serves: every
// name and label in a query exists, and every metric is in a query. It also
// compares docs/reference/metrics.md; -update rewrites that.
func TestDashboard(t *testing.T) {
	tele := exercised(t)
	checkMetricsPage(t, tele)
	served := scraped(t, tele)
	if len(served) < 20 {
		t.Fatalf("only %d metrics are served", len(served))
	}
	queries := dashboardQueries(t)
	used := map[string]bool{}
	name := regexp.MustCompile(`zae_limiter_\w+`)
	labels := regexp.MustCompile(`(?:by \(([^)]*)\)|(\w+)=~?")`)
	for _, q := range queries {
		var metrics []string
		for _, n := range name.FindAllString(q, -1) {
			if _, ok := served[n]; ok {
				used[n] = true
				metrics = append(metrics, n)
			} else if !isLabel(served, n) {
				t.Errorf("%s is in a query, but no metric or label has the name: %s", n, q)
			}
		}
		for _, m := range labels.FindAllStringSubmatch(q, -1) {
			for l := range strings.SplitSeq(m[1]+m[2], ",") {
				if l = strings.TrimSpace(l); !slices.ContainsFunc(metrics, func(n string) bool {
					return slices.Contains(served[n], l)
				}) {
					t.Errorf("no metric of the query has the label %q: %s", l, q)
				}
			}
		}
	}
	for n := range served {
		if base := strings.TrimSuffix(strings.TrimSuffix(n, "_sum"), "_count"); !used[n] && !used[base+"_bucket"] {
			t.Errorf("%s is in no query", n)
		}
	}
}

func isLabel(served map[string][]string, name string) bool {
	for _, labels := range served {
		if slices.Contains(labels, name) {
			return true
		}
	}
	return false
}

// dashboardQueries returns the queries of the dashboard.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	content, err := os.ReadFile("../../../docs/grafana.json")
	check(t, err)
	type panel struct {
		Title   string
		Type    string
		Targets []struct{ Expr string }
		Panels  []json.RawMessage
	}
	var dashboard struct {
		Title      string
		Panels     []panel
		Templating struct{ List []struct{ Definition string } }
	}
	check(t, json.Unmarshal(content, &dashboard))
	for _, p := range dashboard.Panels {
		if len(p.Panels) > 0 || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q: the test does not find its queries", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		queries = append(queries, v.Definition)
	}
	return queries
}

// knowing is a store whose statistics are all known, such as the offset of a clock
// that takes seconds to learn.
type knowing struct{ *escrow.Repository }

// Statistics yields 0 in place of unknown values.
func (k knowing) Statistics() iter.Seq[limiter.Statistic] {
	return func(yield func(limiter.Statistic) bool) {
		for s := range k.Repository.Statistics() {
			if math.IsNaN(s.Value) {
				s.Value = 0
			}
			if !yield(s) {
				return
			}
		}
	}
}

// TestPageListsTheMetrics compares the tables of docs/telemetry.md with what the
// stores report.
func TestPageListsTheMetrics(t *testing.T) {
	content, err := os.ReadFile("../../../docs/telemetry.md")
	check(t, err)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(
		"(?m)^\\| `(zae_limiter\\.[a-z._]+)` \\| `(?:s|\\{[A-Za-z]+\\})` \\|",
	).FindAllStringSubmatch(string(content), -1) {
		listed[m[1]] = true
	}
	embedded, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
	check(t, err)
	defer embedded.Close()
	want := []string{
		"zae_limiter.decisions", "zae_limiter.shadow.refusals", "zae_limiter.tokens.admitted",
		"zae_limiter.tokens.refused", "zae_limiter.tokens.returned",
		"zae_limiter.operation.duration", "zae_limiter.cost", "zae_limiter.cost.per_million_decisions",
	}
	for _, repo := range []limiter.Repository{memory.New(nil), embedded, escrow.New(newTable(t), nil)} {
		for s := range repo.(limiter.StatisticsReporter).Statistics() {
			want = append(want, "zae_limiter."+s.Name)
		}
	}
	for _, name := range want {
		if !listed[name] {
			t.Errorf("docs/telemetry.md does not list %s", name)
		}
	}
	for name := range listed {
		if !slices.Contains(want, name) {
			t.Errorf("docs/telemetry.md lists %s, which does not exist", name)
		}
	}
}
